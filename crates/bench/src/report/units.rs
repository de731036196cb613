//! Numbers for readers: about three digits, and the unit.

use sealpost_base::calendar::civil_from_days;

/// A time in microseconds.
pub(crate) fn time(us: f64) -> String {
    match us {
        ..0.5 => "0".into(),
        ..1e3 => format!("{us:.0} µs"),
        ..1e6 => format!("{} ms", three(us / 1e3)),
        ..6e7 => format!("{} s", three(us / 1e6)),
        _ => format!("{} min", three(us / 6e7)),
    }
}

/// A time in seconds.
pub(super) fn seconds(seconds: f64) -> String {
    time(seconds * 1e6)
}

/// CPU time in seconds: the kernel counts in hundredths.
pub(crate) fn cpu(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.2} s") } else { format!("{seconds:.1} s") }
}

/// Bytes, in powers of 1,024.
pub(crate) fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024.0 {
        return format!("{bytes:.0} B");
    }
    let mut value = bytes / 1024.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three(value), UNITS[unit])
}

/// The highest sampled number of bytes, if any; `at_least`: there may have been more.
pub(crate) fn peak(seen: Option<u64>, at_least: bool) -> String {
    let Some(seen) = seen else { return "–".into() };
    format!("{}{}", if at_least { "≥ " } else { "" }, bytes(seen as f64))
}

/// A count, with thousands separators.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 thread`, `2 threads`.
pub(super) fn many(number: u32, one: &str, more: &str) -> String {
    format!("{} {}", count(number.into()), if number == 1 { one } else { more })
}

/// A rate a second.
pub(super) fn rate(per_second: f64) -> String {
    if per_second >= 100.0 { count(per_second.round() as u64) } else { three(per_second) }
}

/// Three digits.
pub(super) fn three(value: f64) -> String {
    match value {
        ..0.0005 => "0".into(),
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A time in microseconds for an axis, where round numbers are short.
pub(super) fn time_tick(us: f64) -> String {
    trimmed(&time(us))
}

/// Bytes for an axis.
pub(super) fn bytes_tick(bytes: f64) -> String {
    trimmed(&self::bytes(bytes))
}

/// A number for an axis.
pub(super) fn number_tick(number: f64) -> String {
    trimmed(&three(number))
}

/// Without trailing zeros of a fraction.
fn trimmed(text: &str) -> String {
    let (number, unit) =
        text.split_once(' ').map_or((text, String::new()), |(number, unit)| (number, format!(" {unit}")));
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number}{unit}")
}

/// A date and time, UTC, from seconds since 1970.
pub(super) fn date(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_from_days(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", second / 3600, second / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 42.0, 830.4, 6_020.0, 27_700.0, 1_250_000.0, 9e7].map(time),
            ["0", "42 µs", "830 µs", "6.02 ms", "27.7 ms", "1.25 s", "1.50 min"]
        );
        assert_eq!(
            [512.0, 12_288.0, 35_651_584.0, 1.5e9].map(bytes),
            ["512 B", "12.0 KiB", "34.0 MiB", "1.40 GiB"]
        );
        assert_eq!(
            [time_tick(2e6), bytes_tick(33_554_432.0), number_tick(0.5), number_tick(100.0)],
            ["2 s", "32 MiB", "0.5", "100"]
        );
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.5, 12.0, 1260.4].map(rate), ["0.50", "12.0", "1,260"]);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_827_696), "2000-02-29 12:34 UTC");
        assert_eq!(date(1_760_000_000), "2025-10-09 08:53 UTC");
        assert_eq!(date(-1), "1969-12-31 23:59 UTC");
    }
}
