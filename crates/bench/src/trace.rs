//! Repeats the commands of real IMAP clients: every shape of FETCH and SEARCH of a published trace,
//! over whole mailboxes.
//!
//! The shapes are in `data/trace-shapes.tsv`, which `sealpost-rig shapes` makes from the trace. The
//! work is a scenario made from them: each mailbox is filled, then every command is sent once, then
//! in rounds, then in rounds while another client writes into the same mailbox.

use serde::Serialize;

use crate::load::scenario::template::Template;
use crate::load::scenario::{Action, Arrivals, Expect, Extent, Fill, Phase, Scenario, Step};
use crate::report::units;
use crate::result::ServerRun;

/// The title of its documents.
pub const TITLE: &str = "trace";

const TABLE: &str = include_str!("../data/trace-shapes.tsv");
/// How long a writer runs at most: until the phase that it accompanies is done.
const WRITER: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// A kind of command that clients sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// `FETCH`, `SEARCH`.
    pub verb: &'static str,
    /// How many different commands of the trace have this shape.
    pub commands: u32,
    /// The command in the syntax of scenarios: `UID FETCH 1:* (FLAGS) (CHANGEDSINCE {modseq})`.
    pub command: &'static str,
}

impl Shape {
    /// The number of FETCH responses from a mailbox of `messages`, if the command determines it.
    /// Servers may report flags that BODY[] sets in separate responses (RFC 9051 §7.5.2).
    pub fn fetches(&self, messages: u64) -> Option<u64> {
        let decides = !self.command.contains("CHANGEDSINCE") && !self.sets_seen();
        (self.verb == "FETCH" && decides).then_some(messages)
    }

    /// Whether it sets \Seen: FETCH of BODY[] does (RFC 9051 §6.4.5).
    fn sets_seen(&self) -> bool {
        self.command.contains("BODY[")
    }

    /// The command for a table, with long lists of fields shortened.
    pub fn brief(&self) -> String {
        const FIELDS: usize = 3;
        let Some((before, rest)) = self.command.split_once("HEADER.FIELDS (") else {
            return self.command.to_owned();
        };
        let (fields, after) = rest.split_once(')').unwrap_or((rest, ""));
        let names: Vec<&str> = fields.split(' ').collect();
        if names.len() <= FIELDS + 1 {
            return self.command.to_owned();
        }
        let shown = names[..FIELDS].join(" ");
        format!("{before}HEADER.FIELDS ({shown} and {} more){after}", names.len() - FIELDS)
    }
}

/// All shapes of the trace, of all verbs.
pub fn shapes() -> impl Iterator<Item = Shape> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut cells = line.split('\t');
        let (verb, commands, command) = (cells.next()?, cells.next()?.parse().ok()?, cells.next()?);
        Some(Shape { verb, commands, command })
    })
}

/// Those that read: FETCH and SEARCH. Commands that set flags come last, so that they do not affect
/// the others.
pub fn reading() -> Vec<Shape> {
    let mut reading: Vec<Shape> = shapes().filter(|shape| matches!(shape.verb, "FETCH" | "SEARCH")).collect();
    reading.sort_by_key(Shape::sets_seen);
    reading
}

/// How often each verb was sent, and in how many different commands.
pub fn sent() -> impl Iterator<Item = (&'static str, u64, u64)> {
    TABLE.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("#\t")?.split('\t');
        Some((cells.next()?, cells.next()?.parse().ok()?, cells.next()?.parse().ok()?))
    })
}

/// The parameters of the measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Messages of each mailbox.
    pub messages: Vec<u64>,
    /// The data set that fills them.
    pub mail: String,
    /// Rounds after the first time.
    pub runs: u64,
    /// Rounds a second of a concurrent writer; `None`: no writer.
    pub writes: Option<f64>,
}

/// A state in which a command is measured.
const FIRST: &str = "first time";
const WARM: &str = "warm";
const BESIDE: &str = "beside a writer";

/// The work as a scenario.
///
/// # Errors
/// If the data set has a name that a scenario cannot contain.
pub fn scenario(plan: &Plan) -> Result<Scenario, String> {
    let mut phases = Vec::new();
    for messages in &plan.messages {
        let mailbox = format!("{{Bench/{}-{messages}}}", name_of(&plan.mail));
        phases.push(fill(plan, *messages, &mailbox)?);
        phases.push(reads(&phase_name(*messages, FIRST), *messages, &mailbox, 1, true)?);
        phases.push(reads(&phase_name(*messages, WARM), *messages, &mailbox, plan.runs, true)?);
        if let Some(rate) = plan.writes {
            phases.push(writer(plan, *messages, &mailbox, rate)?);
            phases.push(reads(&phase_name(*messages, BESIDE), *messages, &mailbox, plan.runs, false)?);
        }
    }
    let set = vec![
        ("data".to_owned(), plan.mail.clone()),
        ("count".to_owned(), plan.messages.iter().map(u64::to_string).collect::<Vec<_>>().join(",")),
        ("repeat".to_owned(), plan.runs.to_string()),
        ("rate".to_owned(), plan.writes.map_or("none".into(), |rate| rate.to_string())),
    ];
    let about = "every FETCH and SEARCH of the trace over whole mailboxes".to_owned();
    Ok(Scenario { name: TITLE.into(), about, set, phases })
}

fn phase_name(messages: u64, state: &str) -> String {
    format!("{} messages, {state}", units::count(messages))
}

/// A data set may be a path.
fn name_of(mail: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    mail.chars().rev().take(40).map(kept).collect::<Vec<_>>().into_iter().rev().collect()
}

fn fill(plan: &Plan, messages: u64, mailbox: &str) -> Result<Phase, String> {
    let mut phase = Phase::bare(phase_name(messages, "fill"), 1);
    let (mailbox, data) = (Template::parse(mailbox)?, plan.mail.clone());
    let fill = Fill { mailbox, count: messages, data, distinct: messages };
    phase.first = vec![Step::plain(Action::Login)];
    phase.steps = vec![Step::plain(Action::Fill(fill))];
    Ok(phase)
}

fn reads(name: &str, messages: u64, mailbox: &str, rounds: u64, is_still: bool) -> Result<Phase, String> {
    let mut phase = Phase::bare(name, 1);
    phase.setup = false;
    phase.extent = Extent::Each(rounds);
    phase.first = vec![Step::plain(Action::Login), command(&format!("SELECT {mailbox}"))?];
    for shape in reading() {
        let expect = shape.fetches(messages).filter(|_| is_still);
        let expect = expect.map(|count| Expect { count, word: "FETCH".into() });
        // Sequence numbers may refer to messages that the writer has just moved (RFC 2180 §4.1, RFC
        // 5530 §3: EXPUNGEISSUED).
        let accept_no = !is_still && !shape.command.starts_with("UID ");
        phase.steps.push(Step { expect, accept_no, ..command(shape.command)? });
    }
    Ok(phase)
}

/// Flags a message, delivers one and files one away, so that the mailbox keeps its size.
fn writer(plan: &Plan, messages: u64, mailbox: &str, rate: f64) -> Result<Phase, String> {
    let mut phase = Phase::bare(phase_name(messages, "writer"), 1);
    phase.setup = false;
    phase.alongside = true;
    phase.extent = Extent::Time(WRITER);
    (phase.rate, phase.arrivals) = (Some(rate), Arrivals::Constant);
    let aside = "{Bench/aside}";
    phase.first = vec![
        Step::plain(Action::Login),
        Step::plain(Action::Fresh(Template::parse(aside)?)),
        command(&format!("SELECT {mailbox}"))?,
    ];
    let append =
        Action::Append { mailbox: Template::parse(mailbox)?, data: plan.mail.clone(), flags: String::new() };
    phase.steps = vec![
        named("STORE, writer", command("STORE {n} +FLAGS.SILENT (\\Flagged)")?),
        named("APPEND, writer", Step::plain(append)),
        named("MOVE, writer", command(&format!("MOVE {{n}} {aside}"))?),
    ];
    Ok(phase)
}

fn command(text: &str) -> Result<Step, String> {
    Ok(Step::plain(Action::Command(Template::parse(text)?, text.to_owned())))
}

fn named(name: &str, step: Step) -> Step {
    Step { name: Some(name.to_owned()), ..step }
}

/// One command over one mailbox.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Messages of the mailbox.
    pub messages: u64,
    /// The command.
    pub command: &'static str,
    /// The same, shortened.
    #[serde(skip)]
    pub brief: String,
    /// How many different commands of the trace have this shape.
    pub commands: u32,
    /// Bytes of one answer.
    pub bytes: u64,
    /// Milliseconds of the first time.
    pub first_ms: Option<f64>,
    /// The median of the rounds after that.
    pub warm_ms: Option<f64>,
    /// The median while another client wrote.
    pub beside_ms: Option<f64>,
}

impl Line {
    /// The slowdown with a concurrent writer, as a factor.
    pub fn slowdown(&self) -> Option<f64> {
        Some(self.beside_ms? / self.warm_ms.filter(|warm| *warm > 0.0)?)
    }
}

/// The times of each command, by mailbox, the slowest first.
pub fn table(plan: &Plan, run: &ServerRun) -> Vec<Line> {
    let mut lines = Vec::new();
    for messages in &plan.messages {
        let start = lines.len();
        let seen = |state: &str, shape: &Shape| {
            let command = run.phase(&phase_name(*messages, state))?.command(shape.command)?;
            (command.count > 0)
                .then_some((command.latency.p50_us as f64 / 1e3, command.bytes_received / command.count))
        };
        lines.extend(reading().into_iter().map(|shape| {
            let (first, warm) = (seen(FIRST, &shape), seen(WARM, &shape));
            Line {
                messages: *messages,
                command: shape.command,
                brief: shape.brief(),
                commands: shape.commands,
                bytes: warm.or(first).map_or(0, |(_, bytes)| bytes),
                first_ms: first.map(|(ms, _)| ms),
                warm_ms: warm.map(|(ms, _)| ms),
                beside_ms: seen(BESIDE, &shape).map(|(ms, _)| ms),
            }
        }));
        lines[start..].sort_by(|a, b| b.warm_ms.partial_cmp(&a.warm_ms).unwrap_or(std::cmp::Ordering::Equal));
    }
    lines
}

#[cfg(test)]
mod tests;
