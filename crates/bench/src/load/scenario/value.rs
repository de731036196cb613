//! Values in scenarios: times, pauses, counts.

use std::time::Duration;

use sealpost_base::{Random, SeededRandom};

/// How long a client waits before it continues.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pause {
    /// Always the same.
    Fixed(Duration),
    /// Uniformly distributed between two times.
    Between(Duration, Duration),
    /// Exponentially distributed with this mean: mostly short, sometimes long, as with people.
    Exponential(Duration),
}

impl Pause {
    /// None at all.
    pub const NONE: Pause = Pause::Fixed(Duration::ZERO);
    /// The syntax, as text.
    pub const FORM: &'static str =
        "a time such as \"2s\", a range such as \"2s..10s\", or a mean such as \"about 30s\"";

    /// Parses it.
    ///
    /// # Errors
    /// How to write it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(mean) = text.strip_prefix("about ") {
            return Ok(Pause::Exponential(duration(mean)?));
        }
        if let Some((low, high)) = text.split_once("..") {
            let (low, high) = (duration(low)?, duration(high)?);
            return if low <= high { Ok(Pause::Between(low, high)) } else { Err(Self::FORM.into()) };
        }
        duration(text).map(Pause::Fixed).map_err(|_| Self::FORM.into())
    }

    /// Draws one.
    pub fn draw(self, random: &SeededRandom) -> Duration {
        match self {
            Pause::Fixed(time) => time,
            Pause::Between(low, high) => low + (high - low).mul_f64(uniform(random)),
            // Cut at ten times the mean: a client that sleeps for an hour measures nothing.
            Pause::Exponential(mean) => mean.mul_f64(exponential(random).min(10.0)),
        }
    }
}

/// In [0, 1).
pub fn uniform(random: &SeededRandom) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Exponentially distributed with mean 1.
pub fn exponential(random: &SeededRandom) -> f64 {
    -(1.0 - uniform(random)).ln()
}

/// `250ms`, `1.5s`, `5m`, `2h`.
///
/// # Errors
/// How to write it.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a time such as \"250ms\", \"5s\", \"10m\" or \"1h\"".to_owned();
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let number: f64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit = match &text[digits..] {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    // A year is longer than any run, and far below the range of a Duration.
    Some(number * unit).filter(|s| *s <= 31_536_000.0).map(Duration::from_secs_f64).ok_or_else(wrong)
}

/// A whole number; `1_000` and `1,000` are one thousand.
///
/// # Errors
/// How to write it.
pub fn count(text: &str) -> Result<u64, String> {
    let digits: String = text.chars().filter(|c| !matches!(c, '_' | ',')).collect();
    digits.parse().map_err(|_| "a whole number such as 1000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_strictly() {
        let ms = |ms| Ok(Duration::from_millis(ms));
        assert_eq!(duration("250ms"), ms(250));
        assert_eq!(duration("1.5s"), ms(1500));
        assert_eq!(duration("2h"), ms(7_200_000));
        for wrong in ["", "5", "s", "5 s", "-1s", "1d", "9999999h", "1..2s", "5sec"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pauses_stay_where_they_belong() {
        let random = SeededRandom::new(1);
        let between = Pause::parse("2s..10s").unwrap();
        let about = Pause::parse("about 30s").unwrap();
        let mut sum = Duration::ZERO;
        for _ in 0..10_000 {
            let pause = between.draw(&random);
            assert!((2.0..10.0).contains(&pause.as_secs_f64()));
            let pause = about.draw(&random);
            assert!(pause <= Duration::from_secs(300));
            sum += pause;
        }
        assert!((29.0..31.0).contains(&(sum.as_secs_f64() / 10_000.0)));
        assert_eq!(Pause::parse("5s").unwrap().draw(&random), Duration::from_secs(5));
        for wrong in ["", "10s..2s", "about", "soon"] {
            assert!(Pause::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_may_be_grouped() {
        assert_eq!((count("1,000"), count("1_000")), (Ok(1000), Ok(1000)));
        assert!(count("-1").is_err() && count("many").is_err());
    }
}
