//! The summary for a terminal, of any width, with colours only if wanted.

use crate::result::{Command, Phase, Run, ServerRun};

use super::units;

const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// The narrowest supported terminal.
const NARROWEST: usize = 40;
/// The minimum width of a column of names; other columns are left out first.
const NAME: usize = 20;

/// External text without control characters for a terminal.
pub fn printable(text: &str) -> String {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if steers(c) { '\u{fffd}' } else { c }).collect()
}

/// Whether text gets colours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint {
    colours: bool,
}

impl Paint {
    pub(super) fn new(colours: bool) -> Self {
        Paint { colours }
    }

    fn wrap(self, how: &str, text: &str) -> String {
        if self.colours { format!("{how}{text}{PLAIN}") } else { text.to_owned() }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.wrap(BOLD, text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.wrap(DIM, text)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.wrap(RED, text)
    }

    pub(super) fn warn(self, text: &str) -> String {
        self.wrap(YELLOW, text)
    }
}

/// A table whose first column is names and whose other columns are figures.
pub(super) struct Table {
    /// Titles, and the order in which columns are left out for lack of width: the highest first, 0
    /// never.
    columns: Vec<(&'static str, u8)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(columns: &[(&'static str, u8)]) -> Self {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    /// The lines, none wider than `width`; a bad row is painted.
    pub(super) fn lines(&self, width: usize, paint: Paint, bad: &[usize]) -> Vec<String> {
        let width = width.max(NARROWEST);
        let length = |text: &str| text.chars().count();
        let wide = |column: usize| {
            let cells = self.rows.iter().map(|row| length(&row[column])).max().unwrap_or(0);
            cells.max(length(self.columns[column].0))
        };
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let figures = |shown: &[usize]| shown[1..].iter().map(|column| wide(*column) + 2).sum::<usize>();
        while figures(&shown) + wide(0).min(NAME) > width {
            let Some(least) =
                shown.iter().copied().filter(|c| self.columns[*c].1 > 0).max_by_key(|c| self.columns[*c].1)
            else {
                break;
            };
            shown.retain(|column| *column != least);
        }
        let name = wide(0).min(width.saturating_sub(figures(&shown)).max(8));
        let line = |cells: &dyn Fn(usize) -> String| {
            let mut line = format!("{:name$}", super::svg::shortened(&cells(0), name));
            for column in &shown[1..] {
                line.push_str(&format!("  {:>1$}", cells(*column), wide(*column)));
            }
            line.trim_end().to_owned()
        };
        let mut lines = vec![paint.dim(&line(&|column| self.columns[column].0.to_owned()))];
        for (nth, row) in self.rows.iter().enumerate() {
            let text = line(&|column| row[column].clone());
            lines.push(if bad.contains(&nth) { paint.bad(&text) } else { text });
        }
        lines
    }
}

/// The summary of a run.
pub fn summary(run: &Run, width: usize, colours: bool) -> String {
    let (width, paint) = (width.max(NARROWEST), Paint::new(colours));
    let mut lines = vec![paint.bold(&printable(&run.title))];
    lines.extend(wrapped(&format!("{}; {}", units::date(run.began), run.machine.line()), "", width));
    for warning in &run.warnings {
        lines.extend(wrapped(&format!("! {warning}"), "  ", width).iter().map(|line| paint.warn(line)));
    }
    for server in &run.servers {
        lines.push(String::new());
        of_server(server, width, paint, &mut lines);
    }
    lines.push(String::new());
    lines.join("\n")
}

fn of_server(server: &ServerRun, width: usize, paint: Paint, lines: &mut Vec<String>) {
    let title = format!("{} {}", server.name, server.version);
    lines.push(paint.bold(&super::svg::shortened(&printable(title.trim()), width)));
    if !server.reached.is_empty() {
        lines.extend(wrapped(&server.reached, "", width).iter().map(|line| paint.dim(line)));
    }
    for warning in &server.warnings {
        lines.extend(wrapped(&format!("! {warning}"), "  ", width).iter().map(|line| paint.warn(line)));
    }
    let mut columns = vec![
        ("phase", 0),
        ("time", 0),
        ("conns", 4),
        ("CPU", 2),
        ("peak", 0),
        ("grown", 3),
        ("sent", 5),
        ("received", 6),
    ];
    let counts = server.phases.iter().any(|phase| phase.messages.is_some());
    columns.extend(counts.then_some(("messages/s", 0)));
    let mut phases = Table::new(&columns);
    for phase in &server.phases {
        let bytes = |value| units::peak(value, phase.peak_at_least);
        let mut cells = vec![
            phase.name.clone(),
            units::seconds(phase.seconds()),
            units::count(phase.connections),
            phase.cpu_seconds.map_or("–".into(), units::cpu),
            bytes(phase.peak_bytes),
            bytes(phase.growth_bytes()),
            units::bytes(phase.bytes_sent as f64),
            units::bytes(phase.bytes_received as f64),
        ];
        cells.extend(counts.then(|| phase.messages_rate().map_or("–".into(), units::rate)));
        phases.row(cells);
    }
    lines.extend(phases.lines(width, paint, &[]));
    lines.push(String::new());
    let columns = [
        ("command", 0),
        ("count", 2),
        ("errors", 1),
        ("/s", 5),
        ("p50", 0),
        ("p90", 6),
        ("p99", 0),
        ("p99.9", 7),
        ("max", 3),
    ];
    let (mut commands, mut bad) = (Table::new(&columns), Vec::new());
    for (phase, command) in server.phases.iter().flat_map(|p| p.commands.iter().map(move |c| (p, c))) {
        if command.errors() > 0 {
            bad.push(commands.rows.len());
        }
        commands.row(command_row(server, phase, command));
    }
    lines.extend(commands.lines(width, paint, &bad));
    for (kind, failure, name) in failures(server) {
        let text = format!("{} × {kind} on {name}: {}", units::count(failure.count), failure.example);
        lines.extend(wrapped(&text, "  ", width).iter().map(|line| paint.bad(line)));
    }
}

fn command_row(server: &ServerRun, phase: &Phase, command: &Command) -> Vec<String> {
    let time = |us: u64| if command.count == 0 { "–".into() } else { units::time(us as f64) };
    let name = match server.phases.iter().filter(|p| p.command(&command.name).is_some()).count() {
        // The phase is named only where it distinguishes two rows.
        ..=1 => command.name.clone(),
        _ => format!("{} · {}", phase.name, command.name),
    };
    let latency = &command.latency;
    vec![
        name,
        units::count(command.count),
        units::count(command.errors()),
        units::rate(command.count as f64 / phase.seconds().max(1e-9)),
        time(latency.p50_us),
        time(latency.p90_us),
        time(latency.p99_us),
        time(latency.p999_us),
        time(latency.max_us),
    ]
}

fn failures(server: &ServerRun) -> impl Iterator<Item = (&str, &crate::result::Failure, &str)> {
    let commands = server.phases.iter().flat_map(|phase| &phase.commands);
    commands.flat_map(|c| c.errors.iter().map(move |(kind, failure)| (&**kind, failure, &*c.name)))
}

/// Text in lines of at most `width`, all but the first behind `indent`.
pub(super) fn wrapped(text: &str, indent: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in printable(text).split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        while !word.is_empty() {
            let used = line.chars().count();
            let space = usize::from(!line.trim().is_empty());
            if used + space + word.len() <= width {
                line.push_str(&" ".repeat(space));
                line.extend(word.drain(..));
            } else if line.trim().is_empty() {
                // Longer than a line by itself.
                let part = word.len().min(width - used);
                line.extend(word.drain(..part));
            } else {
                lines.push(std::mem::replace(&mut line, indent.to_owned()));
            }
        }
    }
    if !line.trim().is_empty() {
        lines.push(line);
    }
    lines
}
