//! The plots of a run: bars that compare servers phase by phase, times of commands, resource use
//! over time.

use crate::result::{Command, Latency, Phase, Run, ServerRun};

use super::style::SERIES;
use super::svg::{Anchor, Scale, Svg, shortened};
use super::timeline::{self, Extent};
use super::units;

/// The width of a plot with a row of its own, and of one that shares it.
const WIDE: f64 = 1040.0;
const HALF: f64 = 496.0;
const THIRD: f64 = 314.0;
/// With fewer times than this a percentile curve is not useful.
const CURVE_COUNT: u64 = 50;
/// More curves than this are not readable.
const CURVES: usize = 24;
/// Further rows are only in the tables.
const ROWS: usize = 60;
const ROW: f64 = 15.0;
const GAP: f64 = 9.0;

/// The section of a plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Comparison,
    Time,
    Latency,
    Percentiles,
}

/// One plot.
pub(super) struct Plot {
    /// Its file's name, without an ending.
    pub(super) file: String,
    pub(super) section: Section,
    pub(super) svg: Svg,
}

/// All plots of a run, in order.
pub(super) fn all(run: &Run) -> Vec<Plot> {
    let plot = |file: &str, section, svg| Plot { file: file.to_owned(), section, svg };
    let mut plots = Vec::new();
    if run.servers.iter().any(|server| server.phases.len() > 1) || run.servers.len() > 1 {
        let bars: [(&str, &str, Figure, Formatter); 3] = [
            ("seconds", "time", |phase| Some(phase.seconds()), units::seconds),
            ("cpu", "CPU time of the server", |phase| phase.cpu_seconds, units::cpu),
            ("memory", "highest memory", |phase| Some(phase.peak_bytes? as f64), units::bytes),
        ];
        for (file, title, figure, shown) in bars {
            plots.extend(bars_of(run, title, figure, shown).map(|svg| plot(file, Section::Comparison, svg)));
        }
    }
    let seen: Vec<&ServerRun> = run.servers.iter().filter(|server| !server.samples.is_empty()).collect();
    let (extent, width) = (Extent::of(&run.servers), if seen.len() > 1 { HALF } else { WIDE });
    for (nth, server) in run.servers.iter().enumerate().filter(|(_, server)| !server.samples.is_empty()) {
        let svg = timeline::plot(server, nth % SERIES, extent, width);
        plots.push(plot(&format!("timeline-{}", nth + 1), Section::Time, svg));
    }
    let rows = rows(run);
    plots.extend(ranges(run, &rows).map(|svg| plot("latency", Section::Latency, svg)));
    let curves =
        rows.iter().filter(|row| row.latencies.iter().flatten().any(|(count, _)| *count >= CURVE_COUNT));
    for (nth, row) in curves.take(CURVES).enumerate() {
        plots.push(plot(&format!("percentiles-{:02}", nth + 1), Section::Percentiles, curve(row)));
    }
    plots
}

type Figure = fn(&Phase) -> Option<f64>;
type Formatter = fn(f64) -> String;

/// Names of phases of all servers, in order.
pub(super) fn phases(run: &Run) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for phase in run.servers.iter().flat_map(|server| &server.phases) {
        if !names.contains(&&*phase.name) {
            names.push(&phase.name);
        }
    }
    names
}

/// A bar for each server and phase; `None` if no server has the figure.
fn bars_of(run: &Run, title: &str, figure: Figure, shown: Formatter) -> Option<Svg> {
    let value = |server: &ServerRun, name: &str| server.phase(name).and_then(figure);
    let mut names = phases(run);
    names.retain(|name| run.servers.iter().any(|server| value(server, name).is_some()));
    names.truncate(ROWS);
    let highest = names.iter().flat_map(|name| run.servers.iter().filter_map(|s| value(s, name)));
    let highest = highest.fold(0.0, f64::max);
    if names.is_empty() || highest == 0.0 {
        return None;
    }
    let group = run.servers.len() as f64 * ROW + GAP + 13.0;
    let mut svg = Svg::new(THIRD, 26.0 + names.len() as f64 * group, title);
    svg.text("head", (0.0, 14.0), Anchor::Start, title);
    // The longest bar leaves room for its figure.
    let x = Scale::linear(highest, 0.0, THIRD - 66.0);
    for (nth, name) in names.iter().enumerate() {
        let top = 30.0 + nth as f64 * group;
        svg.text("name", (0.0, top + 9.0), Anchor::Start, &shortened(name, 48));
        for (series, server) in run.servers.iter().enumerate() {
            let y = top + 14.0 + series as f64 * ROW;
            let Some(value) = value(server, name) else { continue };
            let tip = format!("{}, {name}: {}", server.name, shown(value));
            svg.rect(&format!("f{}", series % SERIES), 0.0, y, x.at(value).max(1.5), ROW - 3.0, &tip);
            svg.text("", (x.at(value).max(1.5) + 5.0, y + 10.0), Anchor::Start, &shown(value));
        }
    }
    Some(svg)
}

/// One command of one phase: count and times of each server.
struct Row<'a> {
    phase: &'a str,
    command: &'a str,
    latencies: Vec<Option<(u64, &'a Latency)>>,
}

impl Row<'_> {
    fn name(&self) -> String {
        if self.phase == self.command {
            self.phase.to_owned()
        } else {
            format!("{} · {}", self.phase, self.command)
        }
    }
}

fn rows(run: &Run) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for name in phases(run) {
        let of = run.servers.iter().flat_map(|server| commands(server, name));
        let mut commands: Vec<&Command> = of.filter(|c| c.count > 0).collect();
        let mut seen = Vec::new();
        commands.retain(|command| {
            !seen.contains(&&command.name) && {
                seen.push(&command.name);
                true
            }
        });
        for command in commands {
            let find = |server| {
                let mut all = self::commands(server, name).iter();
                let found = all.find(|one| one.name == command.name && one.count > 0);
                found.map(|one| (one.count, &one.latency))
            };
            let latencies = run.servers.iter().map(find).collect();
            rows.push(Row { phase: name, command: &command.name, latencies });
        }
    }
    rows
}

fn commands<'a>(server: &'a ServerRun, phase: &str) -> &'a [Command] {
    server.phase(phase).map_or(&[], |phase| &phase.commands)
}

/// For each command the median, the range of 99 in 100 and the longest time, on one scale.
fn ranges(run: &Run, rows: &[Row<'_>]) -> Option<Svg> {
    const LABELS: f64 = 300.0;
    let rows = &rows[..rows.len().min(ROWS)];
    let each = || rows.iter().flat_map(|row| row.latencies.iter().flatten()).map(|(_, latency)| *latency);
    let low = each().map(|l| l.p50_us).min()?;
    let high = each().map(|l| l.max_us).max()?;
    let group = run.servers.len() as f64 * ROW + GAP;
    let height = 48.0 + rows.len() as f64 * group;
    let mut svg = Svg::new(WIDE, height, "times of commands");
    let x = Scale::log(low as f64, high as f64, LABELS, WIDE - LABELS - 110.0);
    for tick in x.ticks() {
        svg.line("grid", (x.at(tick), 22.0), (x.at(tick), height - 4.0));
        svg.text("", (x.at(tick), 14.0), Anchor::Middle, &units::time_tick(tick));
    }
    svg.text("", (WIDE, 14.0), Anchor::End, "median, 99 %");
    for (nth, row) in rows.iter().enumerate() {
        let top = 32.0 + nth as f64 * group;
        let middle = top + (group - GAP) / 2.0 + 3.8;
        svg.text("name", (LABELS - 14.0, middle), Anchor::End, &shortened(&row.name(), 46));
        for (series, (_, latency)) in
            row.latencies.iter().enumerate().filter_map(|(n, l)| Some((n, l.as_ref()?)))
        {
            let y = top + series as f64 * ROW + ROW / 2.0;
            let [p50, p99, max] = [latency.p50_us, latency.p99_us, latency.max_us].map(|us| x.at(us as f64));
            let texts = [latency.p50_us, latency.p99_us, latency.max_us].map(|us| units::time(us as f64));
            let tip = format!(
                "{}, {}: median {}, 99 % {}, longest {}",
                run.servers[series].name,
                row.name(),
                texts[0],
                texts[1],
                texts[2]
            );
            let series = series % SERIES;
            svg.line(&format!("l{series} tail"), (p99, y), (max, y));
            svg.line(&format!("l{series}"), (max, y - 3.0), (max, y + 3.0));
            svg.rect(&format!("f{series} span"), p50, y - 4.0, p99 - p50, 8.0, &tip);
            svg.circle(&format!("f{series}"), (p50, y), 4.0, &tip);
            svg.text("", (WIDE, y + 3.8), Anchor::End, &format!("{}, {}", texts[0], texts[1]));
        }
    }
    Some(svg)
}

/// Percentiles of one command: towards the right, every step leaves out a tenth of the rest.
fn curve(row: &Row<'_>) -> Svg {
    const LEFT: f64 = 56.0;
    const RIGHT: f64 = 18.0;
    const TOP: f64 = 34.0;
    const HEIGHT: f64 = 150.0;
    let mut svg = Svg::new(THIRD, 214.0, &row.name());
    svg.text("head", (0.0, 13.0), Anchor::Start, &shortened(&row.name(), 46));
    let each = || row.latencies.iter().flatten();
    let low = each().map(|(_, l)| l.quantile_us(0.0)).min().unwrap_or(1);
    let high = each().map(|(_, l)| l.max_us).max().unwrap_or(1);
    let most = each().map(|(count, _)| *count).max().unwrap_or(1);
    let nines = (most as f64).log10().clamp(2.0, 5.0);
    let x = Scale::linear(nines, LEFT, THIRD - LEFT - RIGHT);
    let y = Scale::log(low as f64, high as f64, TOP + HEIGHT, -HEIGHT);
    for tick in y.ticks() {
        svg.line("grid", (LEFT, y.at(tick)), (THIRD - RIGHT, y.at(tick)));
        svg.text("", (LEFT - 7.0, y.at(tick) + 3.8), Anchor::End, &units::time_tick(tick));
    }
    for (part, label) in [(0.5, "50 %"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99")] {
        let at = -f64::log10(1.0 - part);
        if at <= nines {
            svg.line("grid", (x.at(at), TOP), (x.at(at), TOP + HEIGHT));
            svg.text("", (x.at(at), TOP + HEIGHT + 17.0), Anchor::Middle, label);
        }
    }
    svg.line("axis", (LEFT, TOP + HEIGHT), (THIRD - RIGHT, TOP + HEIGHT));
    for (series, (count, latency)) in
        row.latencies.iter().enumerate().filter_map(|(n, l)| Some((n, l.as_ref()?)))
    {
        let end = (*count as f64).log10().min(nines);
        let points: Vec<_> = (0..=100)
            .map(|step| f64::from(step) / 100.0 * end)
            .map(|nine| (x.at(nine), y.at(latency.quantile_us(1.0 - 10f64.powf(-nine)) as f64)))
            .collect();
        svg.path(&format!("l{}", series % SERIES), &points, None);
    }
    svg
}
