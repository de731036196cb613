//! What is shown: lines of text made from one snapshot, and rates from the one before it.

use sealpost_server::admin::{LoadedStats, ProtocolStats, QueueStats, SessionStats, Stats};

use super::SessionOrder;
use super::columns::{Column, table};
use crate::cmd::stats::bytes;

/// Rows for accounts, at most, when rows are short.
const ACCOUNT_ROWS: usize = 6;
/// Columns of the bar.
const BAR: usize = 24;

/// The screen: at most `height` lines of at most `width` characters. Without a snapshot before,
/// what has happened since the server's start stands where rates would.
pub fn lines(
    now: &Stats,
    before: Option<&Stats>,
    order: SessionOrder,
    width: usize,
    height: usize,
) -> Vec<String> {
    let rates = Rates::between(before, now);
    let mut lines = head(now, before, &rates);
    lines.push(String::new());
    lines.extend(protocols(now, before, &rates, width));
    let room = height.saturating_sub(lines.len());
    let accounts =
        accounts(&now.accounts.largest, if height == usize::MAX { usize::MAX } else { ACCOUNT_ROWS });
    // An empty line before each list, and two lines above the sessions.
    let session_rows = room.saturating_sub(accounts.len() + 1).saturating_sub(3);
    if session_rows > 0 {
        lines.push(String::new());
        lines.extend(sessions(now, order, session_rows, width));
    }
    lines.push(String::new());
    lines.extend(accounts);
    lines.truncate(height);
    lines.into_iter().map(|line| clip(&line, width)).collect()
}

/// How much a total grew in a second, or the total itself.
struct Rates {
    seconds: Option<f64>,
}

impl Rates {
    fn between(before: Option<&Stats>, now: &Stats) -> Self {
        // A restarted server counts from zero.
        let before = before.filter(|before| before.pid == now.pid && before.uptime_ms < now.uptime_ms);
        Rates { seconds: before.map(|before| (now.uptime_ms - before.uptime_ms) as f64 / 1000.0) }
    }

    fn rate(&self, before: Option<u64>, now: u64) -> f64 {
        match (self.seconds, before) {
            (Some(seconds), Some(before)) => now.saturating_sub(before) as f64 / seconds,
            _ => now as f64,
        }
    }

    fn per_second(&self, before: Option<u64>, now: u64) -> String {
        let rate = self.rate(before, now);
        match self.seconds {
            Some(_) if rate > 0.0 && rate < 9.95 => format!("{rate:.1}/s"),
            Some(_) => format!("{rate:.0}/s"),
            None => now.to_string(),
        }
    }

    fn bytes_per_second(&self, before: Option<u64>, now: u64) -> String {
        let suffix = if self.seconds.is_some() { "/s" } else { "" };
        format!("{}{suffix}", bytes(self.rate(before, now) as u64))
    }
}

fn head(now: &Stats, before: Option<&Stats>, rates: &Rates) -> Vec<String> {
    let (process, memory) = (&now.process, &now.memory);
    let cpu = match rates.seconds {
        Some(_) => {
            format!("{:.0}%", rates.rate(before.map(|b| b.process.cpu_ms), process.cpu_ms) / 10.0)
        }
        None => format!("{:.1} s", process.cpu_ms as f64 / 1000.0),
    };
    let since = |of: fn(&Stats) -> u64| rates.per_second(before.map(of), of(now));
    let filled = share(memory.in_use, memory.total, BAR);
    let mut lines = vec![
        format!("sealpost {}  pid {}  up {}", now.program, now.pid, age(now.uptime_ms)),
        format!(
            "process   CPU {cpu}, {} (peak {}), {} threads, {} of {} files",
            bytes(process.resident),
            bytes(process.peak),
            process.threads,
            process.files,
            process.most_files
        ),
        format!(
            "memory    [{}{}] {} of {} in use, {} waiting",
            "#".repeat(filled),
            "-".repeat(BAR - filled),
            bytes(memory.in_use),
            bytes(memory.total),
            memory.waiting
        ),
        format!(
            "logins    {} ok, {} failed; waiting: {} for a check, {} throttled",
            since(|s| s.logins.succeeded),
            since(|s| s.logins.failed),
            now.logins.waiting,
            now.logins.throttled
        ),
        format!(
            "accounts  {} loaded, {}; {} loads, {} evictions",
            now.accounts.loaded,
            bytes(now.accounts.bytes),
            since(|s| s.accounts.loads),
            since(|s| s.accounts.evictions)
        ),
        format!(
            "store     {} reads, {} commits, {} fsyncs, {} failures; {} written",
            since(|s| s.store.reads),
            since(|s| s.store.commits),
            since(|s| s.store.fsyncs),
            now.store.failures,
            rates.bytes_per_second(before.map(|b| b.store.bytes), now.store.bytes),
        ),
    ];
    if let Some(queue) = &now.queue {
        lines.push(queue_line(queue, before.and_then(|before| before.queue.as_ref()), rates));
    }
    lines
}

fn queue_line(now: &QueueStats, before: Option<&QueueStats>, rates: &Rates) -> String {
    let since = |of: fn(&QueueStats) -> u64| rates.per_second(before.map(of), of(now));
    let oldest = match now.mails {
        0 => String::new(),
        _ => format!(", the oldest {}", short_age(now.oldest_ms)),
    };
    let problem = now.problem.as_ref().map(|why| format!("{why}; ")).unwrap_or_default();
    format!(
        "queue     {problem}{} mails{oldest}, {} active, {} connections; {} delivered, {} deferred, {} failed",
        now.mails,
        now.active,
        now.connections,
        since(|q| q.delivered),
        since(|q| q.deferred),
        since(|q| q.failed),
    )
}

const PROTOCOLS: [Column; 10] = [
    Column::words("PROTOCOL", 9, 9, 0),
    Column::number("SESSIONS", 9, 0),
    Column::number("IDLE", 7, 3),
    Column::number("ACCEPTED", 10, 6),
    Column::number("REFUSED", 9, 2),
    Column::number("COMMANDS", 10, 1),
    Column::number("IN", 13, 1),
    Column::number("OUT", 13, 1),
    Column::number("MESSAGES", 10, 4),
    Column::number("DELIVERIES", 12, 5),
];

fn protocols(now: &Stats, before: Option<&Stats>, rates: &Rates, width: usize) -> Vec<String> {
    let rows = now.protocols.iter().map(|p| {
        let earlier = before.and_then(|b| b.protocols.iter().find(|other| other.protocol == p.protocol));
        let since = |of: fn(&ProtocolStats) -> u64| rates.per_second(earlier.map(of), of(p));
        let bytes = |of: fn(&ProtocolStats) -> u64| rates.bytes_per_second(earlier.map(of), of(p));
        [
            p.protocol.clone(),
            p.sessions.to_string(),
            p.idle.to_string(),
            since(|p| p.accepted),
            since(|p| p.refused),
            since(|p| p.commands),
            bytes(|p| p.bytes_in),
            bytes(|p| p.bytes_out),
            since(|p| p.messages),
            since(|p| p.deliveries),
        ]
    });
    table(&PROTOCOLS, rows, width)
}

const SESSIONS: [Column; 9] = [
    Column::words("", 5, 6, 0),
    Column::words("USER", 18, 40, 0),
    Column::words("CLIENT", 24, 48, 6),
    Column::words("STATE", 14, 14, 4),
    Column::words("COMMAND", 12, 15, 1),
    Column::number("AGE", 9, 3),
    Column::number("COMMANDS", 10, 5),
    Column::number("IN", 11, 2),
    Column::number("OUT", 11, 2),
];

fn sessions(now: &Stats, order: SessionOrder, rows: usize, width: usize) -> Vec<String> {
    let all: u64 = now.protocols.iter().map(|p| p.sessions).sum();
    let shown = now.sessions.len().min(rows);
    let mut lines = vec![format!("SESSIONS {shown} of {all}, {}", order.name())];
    lines.extend(table(&SESSIONS, now.sessions.iter().take(rows).map(session), width));
    lines
}

fn session(s: &SessionStats) -> [String; 9] {
    let peer = s.peer.as_deref().unwrap_or("unix socket");
    let tls = if s.tls { " tls" } else { "" };
    [
        s.protocol.clone(),
        s.user.clone().unwrap_or_else(|| "-".into()),
        format!("{peer}{tls}"),
        s.state.clone(),
        s.command.clone().unwrap_or_else(|| "-".into()),
        short_age(s.age_ms),
        s.commands.to_string(),
        bytes(s.bytes_in),
        bytes(s.bytes_out),
    ]
}

fn accounts(largest: &[LoadedStats], rows: usize) -> Vec<String> {
    let mut lines = vec![format!("{:<44}{:>12}{:>12}", "LARGEST ACCOUNTS LOADED", "MEMORY", "MESSAGES")];
    lines.extend(largest.iter().take(rows).map(|account| {
        let name = account.name.as_ref().unwrap_or(&account.id);
        format!("{:<44}{:>12}{:>12}", clip(name, 43), bytes(account.bytes), account.messages)
    }));
    lines
}

/// `part` of `whole` in columns of `width`: any at all is one, and all of them is all.
fn share(part: u64, whole: u64, width: usize) -> usize {
    if part == 0 || whole == 0 {
        return 0;
    }
    let columns = (part.min(whole) as u128 * width as u128 / whole as u128) as usize;
    columns.clamp(1, width)
}

/// `3d 02:01:05`, `02:01:05`.
fn age(ms: u64) -> String {
    let s = ms / 1000;
    let (days, hours, minutes, seconds) = (s / 86_400, s / 3600 % 24, s / 60 % 60, s % 60);
    let time = format!("{hours:02}:{minutes:02}:{seconds:02}");
    if days > 0 { format!("{days}d {time}") } else { time }
}

/// `02:01:05`, `3d 02h`.
fn short_age(ms: u64) -> String {
    let hours = ms / 3_600_000;
    if hours < 24 { age(ms) } else { format!("{}d {:02}h", hours / 24, hours % 24) }
}

/// The screen of a server that does not answer any more: why, above what was seen last.
pub fn stopped(why: &str, mut lines: Vec<String>, width: usize, height: usize) -> Vec<String> {
    lines.insert(0, clip(&format!("! {why}; looking for it every second, q ends"), width));
    lines.truncate(height);
    lines
}

/// At most `width` characters, without any that a terminal would obey.
fn clip(line: &str, width: usize) -> String {
    line.chars().filter(|c| !c.is_control()).take(width).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats() -> Stats {
        serde_json::from_str(include_str!("sample.json")).unwrap()
    }

    #[test]
    fn rates_are_differences() {
        let before = stats();
        let mut now = before.clone();
        now.uptime_ms += 2000;
        now.logins.succeeded += 10;
        now.store.commits += 3;
        now.process.cpu_ms += 500;
        let text = lines(&now, Some(&before), SessionOrder::Busy, 200, usize::MAX).join("\n");
        assert!(
            text.contains("5.0/s ok") && text.contains("1.5/s commits") && text.contains("CPU 25%"),
            "{text}"
        );
        let totals = lines(&now, None, SessionOrder::Busy, 200, usize::MAX).join("\n");
        assert!(totals.contains(&format!("{} ok", now.logins.succeeded)), "{totals}");
        // A restarted server has no rates yet, and nothing below zero.
        now.pid += 1;
        assert_eq!(Rates::between(Some(&before), &now).seconds, None);
    }

    #[test]
    fn a_server_that_sends_has_a_line_for_its_queue() {
        let mut before = stats();
        let text = |stats: &Stats, before: Option<&Stats>| {
            lines(stats, before, SessionOrder::Busy, 120, usize::MAX).join("\n")
        };
        assert!(!text(&before, None).contains("\nqueue "), "it does not send");
        let queue = QueueStats {
            mails: 12,
            oldest_ms: 3_723_000,
            active: 3,
            connections: 2,
            delivered: 100,
            deferred: 7,
            failed: 1,
            problem: None,
        };
        before.queue = Some(queue.clone());
        let mut now = before.clone();
        now.uptime_ms += 2000;
        now.queue =
            Some(QueueStats { delivered: 110, problem: Some("on hold: looking".to_owned()), ..queue });
        let wanted = "\nqueue     12 mails, the oldest 01:02:03, 3 active, 2 connections; 100 delivered";
        assert!(text(&before, None).contains(wanted), "{}", text(&before, None));
        let rates = text(&now, Some(&before));
        assert!(
            rates.contains("queue     on hold: looking; 12 mails") && rates.contains("5.0/s delivered"),
            "{rates}"
        );
    }

    #[test]
    fn the_screen_is_never_larger_than_the_terminal() {
        let stats = stats();
        for (width, height) in [(80, 24), (10, 3), (1, 1), (300, 100)] {
            let lines = lines(&stats, None, SessionOrder::Age, width, height);
            assert!(lines.len() <= height, "{width}x{height}");
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}x{height}");
        }
    }

    #[test]
    fn an_80_column_terminal_shows_the_main_figures() {
        let stats = stats();
        let text = lines(&stats, None, SessionOrder::Busy, 80, 24).join("\n");
        for wanted in [
            "COMMAND ",
            "AGE",
            "IN",
            "OUT",
            "REFUSED",
            "MESSAGES",
            "SESSIONS 2 of 3, busy first",
            " files",
            " waiting",
            " failures",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        let text = stopped("it has stopped", lines(&stats, None, SessionOrder::Busy, 80, 24), 80, 24);
        assert!(
            text.len() <= 24
                && text[0].starts_with("! it has stopped; looking")
                && text[1].starts_with("sealpost ")
        );
    }

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(clip("a\x1b[2Jb\u{9b}c", 9), "a[2Jbc");
        assert_eq!((share(0, 8, 30), share(1, 1000, 30), share(9, 8, 30)), (0, 1, 30));
        assert_eq!((age(59_999), age(90_061_000)), ("00:00:59".to_owned(), "1d 01:01:01".to_owned()));
        assert_eq!(
            (short_age(86_399_999), short_age(90_061_000)),
            ("23:59:59".to_owned(), "1d 01h".to_owned())
        );
    }
}
