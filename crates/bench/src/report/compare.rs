//! Compares runs: times, CPU and memory as ratios to the first, and whether a difference is
//! significant.
//!
//! Significance is judged by the exact Mann-Whitney test on one figure of each run, since times
//! within one run depend on each other. It needs at least [`ENOUGH`] runs on both sides, and gives
//! no result with fewer.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::UsageError;
use crate::result::{Latency, Phase, Run, ServerRun};

use super::terminal::{Paint, Table, printable, wrapped};
use super::units;

/// Runs on both sides from which a difference can be significant at [`LEVEL`].
pub const ENOUGH: usize = 4;
/// The probability below which a difference counts as significant.
pub const LEVEL: f64 = 0.05;
/// Less CPU time, in seconds, cannot be distinguished from none: the kernel counts in hundredths,
/// and adding them up loses a little.
const TICK: f64 = 0.0099;
/// Runs of one side that are used: the test enumerates all ways to divide them.
const MOST: usize = 10;

/// Runs of the same thing.
#[derive(Debug)]
pub struct Group<'a> {
    /// Its name.
    pub label: String,
    runs: Vec<&'a ServerRun>,
}

/// One line of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The phase, and the command if it is about one.
    pub name: String,
    /// The compared figure.
    pub figure: &'static str,
    /// The median over the runs of each group, as shown; `None` where a group has no such figure.
    pub values: Vec<Option<(f64, String)>>,
    /// The probability that a difference from the first group as large as this is random, where it
    /// is known.
    pub chance: Vec<Option<f64>>,
}

impl Line {
    /// The figure of the `nth` group relative to the first; `None` where one of both cannot be
    /// distinguished from zero.
    fn ratio(&self, nth: usize) -> Option<f64> {
        let value = |nth: usize| self.values.get(nth)?.as_ref().map(|(value, _)| *value);
        let least = if self.figure == "CPU" { TICK } else { f64::MIN_POSITIVE };
        let (first, other) = (value(0)?, value(nth)?);
        (first.min(other) >= least).then(|| other / first)
    }
}

/// A comparison as a document. Values are medians over the runs of each group; the others are
/// compared with the first group.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// The compared groups.
    pub groups: Vec<Compared>,
    /// Reasons to doubt it.
    pub warnings: Vec<String>,
    /// The figures.
    pub figures: Vec<ComparedFigure>,
}

/// Runs of the same thing.
#[derive(Debug, Serialize)]
pub struct Compared {
    /// Their name.
    pub label: String,
    /// How many there are.
    pub runs: usize,
}

/// One figure in every group.
#[derive(Debug, Serialize)]
pub struct ComparedFigure {
    /// The phase, and the command if it is about one.
    pub name: String,
    /// The compared figure.
    pub figure: &'static str,
    /// The unit of the values: `s`, `bytes`, `us`.
    pub unit: &'static str,
    /// The values of all groups, as far as they have the figure.
    pub values: Vec<Option<f64>>,
    /// Relative to the first.
    pub ratios: Vec<Option<f64>>,
    /// The probability that a difference from the first as large as this is random, where it is
    /// known.
    pub chance: Vec<Option<f64>>,
}

impl Comparison {
    /// The comparison of these groups, with warnings.
    pub fn of(groups: &[Group<'_>], warnings: Vec<String>) -> Self {
        let compared = |group: &Group<'_>| Compared { label: group.label.clone(), runs: group.runs.len() };
        let figure = |line: Line| {
            let values: Vec<_> = line.values.iter().map(|value| value.as_ref().map(|(v, _)| *v)).collect();
            ComparedFigure {
                ratios: (0..values.len()).map(|nth| line.ratio(nth)).collect(),
                unit: match line.figure {
                    "peak" => "bytes",
                    "p50" | "p99" => "us",
                    _ => "s",
                },
                name: line.name,
                figure: line.figure,
                values,
                chance: line.chance,
            }
        };
        Comparison {
            groups: groups.iter().map(compared).collect(),
            warnings,
            figures: compare(groups).into_iter().map(figure).collect(),
        }
    }
}

/// Reads the files named by the arguments of a command line: runs of the same thing are joined by
/// commas.
pub fn read(arguments: &[String]) -> Result<Vec<(String, Vec<Run>)>> {
    let read = |argument: &String| {
        if argument.split(',').any(str::is_empty) {
            return Err(UsageError(format!("{argument:?}: a file without a name")).into());
        }
        let runs = argument.split(',').map(|path| Run::read(Path::new(path))).collect::<Result<_>>()?;
        Ok((argument.clone(), runs))
    };
    arguments.iter().map(read).collect()
}

/// Groups of runs: each element has a label and documents that are runs of the same thing. A
/// document of several servers makes a group for each.
pub fn groups(given: &[(String, Vec<Run>)]) -> Vec<Group<'_>> {
    let mut groups: Vec<(usize, &str, Group<'_>)> = Vec::new();
    for (nth, (label, runs)) in given.iter().enumerate() {
        for server in runs.iter().flat_map(|run| &run.servers) {
            match groups.iter_mut().find(|(of, name, _)| *of == nth && *name == server.name) {
                Some((_, _, group)) => group.runs.push(server),
                None => groups.push((nth, &server.name, Group { label: label.clone(), runs: vec![server] })),
            }
        }
    }
    let names: Vec<&str> = groups.iter().map(|(_, name, _)| *name).collect();
    let unique = |name: &str| names.iter().filter(|other| **other == name).count() == 1;
    let named = groups.into_iter().map(|(_, name, group)| {
        let label = if unique(name) { name.to_owned() } else { format!("{name} ({})", group.label) };
        Group { label, ..group }
    });
    named.collect()
}

/// One document of all groups, for a page that shows them side by side. Of runs of the same thing
/// it has the one with the median time, and notes that. `None` if there are no runs.
pub fn side_by_side(
    given: &[(String, Vec<Run>)],
    groups: &[Group<'_>],
    mut warnings: Vec<String>,
) -> Option<Run> {
    let like = given.iter().flat_map(|(_, runs)| runs).next()?;
    let mut servers = Vec::new();
    for group in groups {
        let mut runs = group.runs.clone();
        runs.sort_by(|a, b| a.seconds().total_cmp(&b.seconds()));
        let middle = *runs.get(runs.len() / 2)?;
        if runs.len() > 1 {
            warnings.push(format!(
                "{}: of {} runs, the one in the middle by time is shown",
                group.label,
                runs.len()
            ));
        }
        servers.push(ServerRun { name: group.label.clone(), ..middle.clone() });
    }
    Some(Run { warnings, servers, ..like.clone() })
}

/// Its name, how to read it, how to format it.
type Figure = (&'static str, fn(&Phase) -> Option<f64>, fn(f64) -> String);
type Quantile = (&'static str, fn(&Latency) -> u64);

const QUANTILES: [Quantile; 2] = [("p50", |latency| latency.p50_us), ("p99", |latency| latency.p99_us)];

/// Compares all with the first.
pub fn compare(groups: &[Group<'_>]) -> Vec<Line> {
    let mut lines = Vec::new();
    let Some(first) = groups.first().and_then(|group| group.runs.first()) else { return lines };
    for phase in &first.phases {
        let name = &*phase.name;
        let figures: [Figure; 3] = [
            ("time", |phase| Some(phase.seconds()), units::seconds),
            ("CPU", |phase| phase.cpu_seconds, units::cpu),
            ("peak", |phase| Some(phase.peak_bytes? as f64), units::bytes),
        ];
        for (figure, value, shown) in figures {
            let of = |run: &ServerRun| run.phase(name).and_then(value);
            lines.extend(line(groups, name.to_owned(), figure, of, shown));
        }
        for command in &phase.commands {
            let label = if command.name == name {
                command.name.clone()
            } else {
                format!("{name} · {}", command.name)
            };
            for (figure, quantile) in QUANTILES {
                let of = |run: &ServerRun| {
                    let found = run.phase(name)?.command(&command.name).filter(|found| found.count > 0)?;
                    Some(quantile(&found.latency) as f64)
                };
                lines.extend(line(groups, label.clone(), figure, of, units::time));
            }
        }
    }
    lines
}

fn line(
    groups: &[Group<'_>],
    name: String,
    figure: &'static str,
    value: impl Fn(&ServerRun) -> Option<f64>,
    shown: fn(f64) -> String,
) -> Option<Line> {
    let all: Vec<Vec<f64>> =
        groups.iter().map(|group| group.runs.iter().filter_map(|run| value(run)).collect()).collect();
    let values: Vec<_> = all.iter().map(|values| median(values).map(|m| (m, shown(m)))).collect();
    values.first()?.as_ref()?;
    let chance = all.iter().map(|values| chance(&all[0], values)).collect();
    Some(Line { name, figure, values, chance })
}

/// The median of the values that exist.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The probability that two samples of the same thing differ at least as much as `a` and `b`
/// (two-sided, exact Mann-Whitney U); `None` if there are too few.
pub fn chance(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (&a[..a.len().min(MOST)], &b[..b.len().min(MOST)]);
    if a.len() < ENOUGH || b.len() < ENOUGH {
        return None;
    }
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    // Twice the U of the values that `mask` puts on the first side; equal values count half.
    let twice_u = |mask: u32| -> i64 {
        let side = |nth: usize| mask >> nth & 1 == 1;
        let pairs = (0..all.len())
            .filter(|x| side(*x))
            .flat_map(|x| (0..all.len()).filter(|y| !side(*y)).map(move |y| (x, y)));
        pairs.map(|(x, y)| if all[x] < all[y] { 2 } else { i64::from(all[x] == all[y]) }).sum()
    };
    let middle = i64::try_from(a.len() * b.len()).ok()?;
    let seen = (twice_u((1 << a.len()) - 1) - middle).abs();
    let masks = (0u32..1 << all.len()).filter(|mask| mask.count_ones() as usize == a.len());
    let (mut ways, mut extreme) = (0u32, 0u32);
    for mask in masks {
        ways += 1;
        extreme += u32::from((twice_u(mask) - middle).abs() >= seen);
    }
    Some(f64::from(extreme) / f64::from(ways))
}

/// The comparison as text, after the doubts.
pub fn text(groups: &[Group<'_>], doubts: &[String], width: usize, colours: bool) -> String {
    let paint = Paint::new(colours);
    let mut out = Vec::new();
    for (nth, group) in groups.iter().enumerate() {
        let runs = if group.runs.len() == 1 {
            "1 run".to_owned()
        } else {
            format!("{} runs, medians", group.runs.len())
        };
        out.push(format!("{} {}: {runs}", paint.bold(letter(nth)), printable(&group.label)));
    }
    for doubt in doubts {
        out.extend(wrapped(&format!("! {doubt}"), "  ", width).iter().map(|line| paint.warn(line)));
    }
    let all = compare(groups);
    for other in 1..groups.len() {
        out.push(String::new());
        let mut table =
            Table::new(&[("", 0), ("", 0), (letter(0), 0), (letter(other), 0), ("ratio", 0), ("chance", 2)]);
        for line in &all {
            let (Some((_, shown)), Some((_, other_shown))) = (&line.values[0], &line.values[other]) else {
                continue;
            };
            let ratio = line.ratio(other).map_or("–".into(), |ratio| format!("{ratio:.2}×"));
            let chance = match line.chance[other] {
                None => String::new(),
                Some(p) if p < LEVEL => format!("{:.1} %", p * 100.0),
                Some(_) => "may be".into(),
            };
            table.row(vec![
                line.name.clone(),
                line.figure.into(),
                shown.clone(),
                other_shown.clone(),
                ratio,
                chance,
            ]);
        }
        out.extend(table.lines(width, paint, &[]));
    }
    if groups.iter().any(|group| group.runs.len() < ENOUGH) {
        let note = format!(
            "A test for chance needs {ENOUGH} runs on both sides: join the files of repeated runs with \
             commas."
        );
        out.push(String::new());
        out.extend(wrapped(&note, "", width).iter().map(|line| paint.dim(line)));
    }
    out.push(String::new());
    out.join("\n")
}

fn letter(nth: usize) -> &'static str {
    ["A", "B", "C", "D", "E", "F", "G", "H"].get(nth).copied().unwrap_or("…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_that_of_the_tables() {
        // Four against four, completely separated: 2 of 70 ways. From any table of the test.
        let p = chance(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]).unwrap();
        assert!((p - 2.0 / 70.0).abs() < 1e-12);
        // U = 4 with five and five: p = 0.0952.
        let p = chance(&[1.0, 2.0, 3.0, 6.0, 7.0], &[4.0, 5.0, 8.0, 9.0, 10.0]).unwrap();
        assert!((p - 0.0952).abs() < 0.0001, "{p}");
        assert_eq!(chance(&[1.0; 5], &[1.0; 5]), Some(1.0));
        assert_eq!(chance(&[1.0, 2.0, 3.0], &[5.0, 6.0, 7.0]), None);
    }

    #[test]
    fn files_joined_by_commas_are_runs_of_the_same_thing() {
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/result-format-1.json");
        let given = read(&[format!("{kept},{kept}"), kept.to_owned()]).unwrap();
        assert_eq!(given.iter().map(|(_, runs)| runs.len()).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(groups(&given).iter().map(|group| group.runs.len()).collect::<Vec<_>>(), [2, 2, 1, 1]);
        assert!(read(&["not-there.json".to_owned()]).is_err());
    }

    #[test]
    fn figures_below_a_clock_tick_have_no_ratio() {
        let line = |figure, values: &[f64]| Line {
            name: "copy".into(),
            figure,
            values: values.iter().map(|value| Some((*value, String::new()))).collect(),
            chance: Vec::new(),
        };
        let cpu = line("CPU", &[0.02, 0.0, 0.01, 0.04]);
        assert_eq!(
            (0..5).map(|nth| cpu.ratio(nth)).collect::<Vec<_>>(),
            [Some(1.0), None, Some(0.5), Some(2.0), None]
        );
        assert_eq!(line("CPU", &[0.0, 0.5]).ratio(1), None);
        assert_eq!(line("time", &[0.002, 0.001]).ratio(1), Some(0.5));
    }

    #[test]
    fn beside_each_other_every_group_has_its_middle_run() {
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/result-format-1.json");
        let mut given = read(&[format!("{kept},{kept},{kept}"), kept.to_owned()]).unwrap();
        let servers = given[0].1[0].servers.len();
        for (run, end) in given[0].1.iter_mut().zip([9.0, 5.0, 7.0]) {
            run.servers[0].phases.truncate(1);
            (run.servers[0].phases[0].begin, run.servers[0].phases[0].end) = (0.0, end);
        }
        let both = side_by_side(&given, &groups(&given), vec!["doubtful".into()]).unwrap();
        assert_eq!(both.servers.len(), 2 * servers);
        assert_eq!(both.servers[0].seconds(), 7.0);
        assert_ne!(both.servers[0].name, both.servers[servers].name);
        assert!(
            both.warnings[0] == "doubtful" && both.warnings[1].contains("of 3 runs"),
            "{:?}",
            both.warnings
        );
        assert!(side_by_side(&[], &[], Vec::new()).is_none());
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
    }
}
