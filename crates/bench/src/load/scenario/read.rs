//! From TOML to a [`Scenario`], or all mistakes, each with its line.

use std::collections::BTreeMap;
use std::time::Duration;

use sealpost_base::suggest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::request;
use super::template::PLACEHOLDERS;
use super::{
    Action, Arrivals, Bar, Batch, CONNECTIONS, Expect, Extent, PHASES, Pause, Phase, STEPS, Scenario, Step,
    count, duration,
};
use crate::load::protocol::Protocol;

/// Values given from outside.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// Parameters of `[set]` that have another value.
    pub set: BTreeMap<String, String>,
    /// How many accounts there are: what `{users}` becomes. At least one.
    pub users: usize,
}

/// The keys of a phase, and what they mean.
pub const PHASE_KEYS: [(&str, &str); 22] = [
    ("name", "its name in the report"),
    ("protocol", "imap (the default), smtp, lmtp, submission or jmap"),
    ("setup", "true: it prepares what the next phases measure"),
    ("connections", "how many clients [1]"),
    ("repeat", "rounds of every client [1]"),
    ("total", "instead: rounds of all clients together"),
    ("duration", "instead: rounds are begun for that long"),
    (
        "rate",
        "rounds a second in all clients together, whether the server keeps up or not; or \"none\" [none]",
    ),
    ("arrivals", "how rounds are spread at that rate: poisson or constant [poisson]"),
    ("ramp", "over how long clients come in [0s]"),
    ("at_once", "how many clients are there at a time at most; the next comes when one has gone [all]"),
    ("think", "how long a client waits after a round [0s]"),
    ("pipeline", "how many commands a client has under way at most [1]"),
    ("first", "steps once a client is connected [LOGIN]"),
    ("steps", "a round: all in order, or one of them if they have weights"),
    ("last", "steps before a client goes [none]"),
    ("hold", "true: clients stay as they are until the scenario ends"),
    (
        "alongside",
        "true: it runs until the end of the phases after it, up to the first that is not alongside",
    ),
    ("recipients", "recipients of every delivery [1]"),
    ("auth", "true: SMTP clients log in"),
    ("messages", "messages that a round reads or writes: the report has how many a second"),
    ("bars", "what must hold, such as \"FETCH p99 <= 250ms\""),
];

const STEP_KEYS: [&str; 9] =
    ["do", "name", "weight", "times", "batch", "think", "expect", "accept", "notified"];
const TOP_KEYS: [&str; 4] = ["name", "about", "set", "phase"];

pub(super) fn scenario(file: &str, text: &str, overrides: &Overrides) -> Result<Scenario, String> {
    let mut reader = Reader { text, wrong: Vec::new(), values: BTreeMap::new() };
    let scenario = match DeTable::parse(text) {
        Ok(table) => reader.scenario(table.get_ref(), overrides),
        Err(e) => {
            let line = e.span().map_or(1, |span| reader.line(span.start));
            reader.wrong.push((line, e.message().to_owned()));
            None
        }
    };
    match scenario {
        Some(scenario) if reader.wrong.is_empty() => Ok(scenario),
        _ => {
            reader.wrong.sort();
            let lines = reader.wrong.iter().map(|(line, what)| format!("{file}:{line}: {what}"));
            Err(lines.collect::<Vec<_>>().join("\n"))
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    wrong: Vec<(usize, String)>,
    /// The values of parameters.
    values: BTreeMap<String, String>,
}

/// Entries of a table, and its first line.
struct Table<'v, 'i> {
    entries: &'v DeTable<'i>,
    line: usize,
}

impl<'t> Reader<'t> {
    fn line(&self, at: usize) -> usize {
        self.text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count() + 1
    }

    fn fail(&mut self, line: usize, what: impl Into<String>) {
        self.wrong.push((line, what.into()));
    }

    fn scenario(&mut self, top: &DeTable<'_>, overrides: &Overrides) -> Option<Scenario> {
        let top = Table { entries: top, line: 1 };
        self.unknown(&top, &TOP_KEYS, "");
        let set = self.parameters(&top, overrides);
        let name = self.text(&top, "name").map(|(_, name)| name).unwrap_or_default();
        let about = self.text(&top, "about").map(|(_, about)| about).unwrap_or_default();
        if name.is_empty() {
            self.fail(1, "a scenario has a name: name = \"…\"");
        }
        let mut phases = Vec::new();
        match top.entries.get("phase").map(|v| (v.span().start, v.get_ref())) {
            Some((_, DeValue::Array(tables))) => {
                for (nth, table) in tables.iter().enumerate() {
                    let line = self.line(table.span().start);
                    match table.get_ref() {
                        DeValue::Table(entries) => phases.extend(self.phase(&Table { entries, line }, nth)),
                        _ => self.fail(line, "a phase begins with [[phase]]"),
                    }
                }
            }
            Some((at, _)) => {
                let line = self.line(at);
                self.fail(line, "a phase begins with [[phase]], in two pairs of brackets");
            }
            None => self.fail(1, "a scenario has at least one [[phase]]"),
        }
        if phases.len() > PHASES {
            self.fail(1, format!("more than {PHASES} phases"));
        }
        if let Some(last) = phases.last().filter(|phase: &&Phase| phase.alongside) {
            let what =
                format!("the last phase, {:?}, cannot be alongside: nothing comes after it", last.name);
            self.fail(1, what);
        }
        for (nth, phase) in phases.iter().enumerate() {
            if phases[..nth].iter().any(|other| other.name == phase.name) {
                self.wrong.push((1, format!("two phases are called {:?}", phase.name)));
            }
        }
        Some(Scenario { name, about, set, phases })
    }

    /// `[set]`, with the values given from outside.
    fn parameters(&mut self, top: &Table<'_, '_>, overrides: &Overrides) -> Vec<(String, String)> {
        let mut set: Vec<(usize, String, String)> = Vec::new();
        if let Some(value) = top.entries.get("set") {
            let line = self.line(value.span().start);
            match value.get_ref() {
                DeValue::Table(entries) => {
                    for (key, value) in entries {
                        let at = key.span().start;
                        let (line, name) = (self.line(at), key.get_ref().to_string());
                        let is_name =
                            name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit());
                        if !is_name
                            || ["users", "accounts"].contains(&&*name)
                            || PLACEHOLDERS
                                .iter()
                                .chain(&request::PLACEHOLDERS)
                                .any(|(taken, _)| *taken == name)
                        {
                            self.fail(line, format!("{name} cannot be the name of a parameter"));
                        }
                        match scalar(value.get_ref()) {
                            Some(text) => set.push((at, name, text)),
                            None => self.fail(line, format!("{name} is a text or a number")),
                        }
                    }
                }
                _ => self.fail(line, "set is a table: [set]"),
            }
        }
        set.sort();
        let names: Vec<&str> = set.iter().map(|(_, name, _)| &**name).collect();
        for name in overrides.set.keys().filter(|name| !names.contains(&&***name)) {
            let hint = match suggest::nearest(name, names.iter().copied()) {
                Some(near) => format!("is it {near}?"),
                None if names.is_empty() => "it has none".into(),
                None => format!("it has {}", names.join(", ")),
            };
            self.wrong.push((1, format!("this scenario has no parameter {name}; {hint}")));
        }
        self.values.insert("users".into(), overrides.users.max(1).to_string());
        for (_, name, default) in &set {
            let value = overrides.set.get(name).unwrap_or(default);
            // One parameter may use those of the run, such as {users}.
            let value = value.replace("{users}", &overrides.users.max(1).to_string());
            self.values.insert(name.clone(), value);
        }
        // At most as many as have a client, and each only once.
        let accounts = self.values.get("connections").and_then(|connections| count(connections).ok());
        let users = overrides.users.max(1) as u64;
        self.values.insert("accounts".into(), accounts.unwrap_or(users).min(users).to_string());
        set.into_iter()
            .map(|(_, name, _)| {
                let value = self.values[&name].clone();
                (name, value)
            })
            .collect()
    }

    fn phase(&mut self, table: &Table<'_, '_>, nth: usize) -> Option<Phase> {
        let keys = PHASE_KEYS.map(|(key, _)| key);
        self.unknown(table, &keys, "a phase");
        let name = self.text(table, "name").map_or_else(|| format!("phase {}", nth + 1), |(_, name)| name);
        let protocol = self.choice(
            table,
            "protocol",
            &[
                ("imap", Protocol::Imap),
                ("smtp", Protocol::Smtp),
                ("lmtp", Protocol::Lmtp),
                ("submission", Protocol::Submission),
                ("jmap", Protocol::Jmap),
            ],
        );
        let protocol = protocol.unwrap_or(Protocol::Imap);
        let wrong = self.wrong.len();
        let first = match table.entries.get("first") {
            None if protocol == Protocol::Imap => vec![Step::plain(Action::Login)],
            _ => self.steps(table, "first", protocol),
        };
        let steps = self.steps(table, "steps", protocol);
        let last = self.steps(table, "last", protocol);
        if self.wrong.len() == wrong {
            let weighted = steps.iter().filter(|step| step.weight.is_some()).count();
            if weighted != 0 && weighted != steps.len() {
                self.fail(table.line, "either all steps have a weight, or none has");
            }
            let stray = first.iter().chain(&last).any(|step| step.weight.is_some());
            if stray {
                self.fail(table.line, "only `steps` are drawn by weight, not `first` and `last`");
            }
        }
        let phase = Phase {
            name,
            protocol,
            setup: self.flag(table, "setup"),
            connections: self.number(table, "connections", 0..=CONNECTIONS).unwrap_or(1),
            extent: self.extent(table),
            rate: self.rate(table),
            arrivals: self
                .choice(
                    table,
                    "arrivals",
                    &[("poisson", Arrivals::Poisson), ("constant", Arrivals::Constant)],
                )
                .unwrap_or(Arrivals::Poisson),
            ramp: self.with(table, "ramp", duration).unwrap_or(Duration::ZERO),
            at_once: self.number(table, "at_once", 1..=CONNECTIONS),
            think: self.with(table, "think", Pause::parse).unwrap_or(Pause::NONE),
            pipeline: self.number(table, "pipeline", 1..=1000).unwrap_or(1) as usize,
            first,
            steps,
            last,
            hold: self.flag(table, "hold"),
            alongside: self.flag(table, "alongside"),
            recipients: self.number(table, "recipients", 1..=1000).unwrap_or(1) as usize,
            // RFC 6409 §4.3: no client submits without a login.
            auth: self.flag(table, "auth") || protocol == Protocol::Submission,
            messages: self.number(table, "messages", 1..=u64::from(u32::MAX)),
            bars: self.bars(table),
        };
        self.consistent(table, &phase);
        Some(phase)
    }

    /// Reports keys that exclude each other.
    fn consistent(&mut self, table: &Table<'_, '_>, phase: &Phase) {
        let line = table.line;
        if phase.hold && (phase.alongside || phase.rate.is_some() || matches!(phase.extent, Extent::Time(_)))
        {
            self.fail(
                line,
                "clients that hold go through their steps once: no rate, no duration, not alongside",
            );
        }
        let walks = phase.all_steps().filter(|step| step.batch.is_none());
        if walks.flat_map(|step| &step.actions).any(Action::asks_for_batch) {
            let what = if phase.protocol == Protocol::Jmap {
                "{position} and {limit} need"
            } else {
                "{batch} needs"
            };
            self.fail(line, format!("{what} the step's key batch, such as batch = 200"));
        }
        let counted = phase.rate.is_none() && !matches!(phase.extent, Extent::Time(_));
        if phase.at_once.is_some() && (!counted || phase.hold || phase.alongside) {
            self.fail(
                line,
                "at_once is for clients that do their rounds and go: no rate, no duration, not hold, not alongside",
            );
        }
        if phase.rate.is_some() && phase.think != Pause::NONE {
            self.fail(line, "a rate says when rounds begin, and so does think: only one of them");
        }
        if phase.pipeline > 1 && phase.protocol != Protocol::Imap {
            self.fail(line, "pipeline is for protocol = \"imap\"");
        }
        if phase.auth && !matches!(phase.protocol, Protocol::Smtp | Protocol::Submission) {
            self.fail(line, "auth is for protocol = \"smtp\"");
        }
        let events = phase.actions().any(|action| *action == Action::Events);
        let last = phase.steps.last().and_then(|step| step.actions.last());
        if events && (!phase.hold || phase.is_weighted() || last != Some(&Action::Events)) {
            self.fail(line, "EVENTS never ends: it is the last of the `steps` of a phase with `hold = true`");
        }
        let waits = |action: &Action| matches!(action, Action::Idle { limit: None, until_notified: false });
        if !phase.hold && !phase.alongside && phase.actions().any(waits) {
            self.fail(line, "IDLE without a time never ends: give it one, or the phase `hold = true`");
        }
    }

    fn extent(&mut self, table: &Table<'_, '_>) -> Extent {
        let each = self.number(table, "repeat", 0..=u64::from(u32::MAX));
        let total = self.number(table, "total", 0..=u64::from(u32::MAX));
        let time = self.with(table, "duration", optional(duration)).flatten();
        match (each, total, time) {
            (None, None, None) => Extent::Each(1),
            (Some(each), None, None) => Extent::Each(each),
            (None, Some(total), None) => Extent::Total(total),
            (None, None, Some(time)) => Extent::Time(time),
            _ => {
                self.fail(table.line, "repeat, total and duration: only one of them");
                Extent::Each(1)
            }
        }
    }

    fn rate(&mut self, table: &Table<'_, '_>) -> Option<f64> {
        let rate = |text: &str| match text.parse::<f64>() {
            Ok(rate) if rate > 0.0 && rate <= 1e7 => Ok(rate),
            _ => Err("rounds a second, such as 200 or 0.5, or \"none\"".to_owned()),
        };
        self.with(table, "rate", optional(rate)).flatten()
    }

    fn bars(&mut self, table: &Table<'_, '_>) -> Vec<Bar> {
        let mut bars = Vec::new();
        for value in self.list(table, "bars") {
            let line = self.line(value.span().start);
            match scalar(value.get_ref()).map(|text| Bar::parse(&self.filled(&text))) {
                Some(Ok(bar)) => bars.push(bar),
                Some(Err(why)) => self.fail(line, why),
                None => self.fail(line, "a bar is a text"),
            }
        }
        bars
    }

    fn steps(&mut self, table: &Table<'_, '_>, key: &str, protocol: Protocol) -> Vec<Step> {
        let values = self.list(table, key);
        if values.len() > STEPS {
            self.fail(table.line, format!("more than {STEPS} steps"));
        }
        values.iter().filter_map(|value| self.step(value, protocol)).collect()
    }

    fn step(&mut self, value: &Spanned<DeValue<'_>>, protocol: Protocol) -> Option<Step> {
        let line = self.line(value.span().start);
        match value.get_ref() {
            DeValue::Table(entries) => {
                let table = Table { entries, line };
                self.unknown(&table, &STEP_KEYS, "a step");
                let Some(what) = entries.get("do") else {
                    self.fail(line, "a step says what to do: { do = \"NOOP\", … }");
                    return None;
                };
                let actions = match what.get_ref() {
                    DeValue::Array(several) => {
                        several.iter().filter_map(|one| self.action(one, protocol)).collect()
                    }
                    _ => self.action(what, protocol).into_iter().collect(),
                };
                Some(Step {
                    actions,
                    name: self.text(&table, "name").map(|(_, name)| name),
                    weight: self.number(&table, "weight", 1..=1_000_000).map(|weight| weight as u32),
                    times: self.number(&table, "times", 1..=u64::from(u32::MAX)).unwrap_or(1) as u32,
                    batch: self.with(&table, "batch", Batch::parse),
                    think: self.with(&table, "think", Pause::parse).unwrap_or(Pause::NONE),
                    expect: self.with(&table, "expect", Expect::parse),
                    accept_no: self.choice(&table, "accept", &[("NO", true)]).unwrap_or(false),
                    notified: self.flag(&table, "notified"),
                })
            }
            _ => self.action(value, protocol).map(Step::plain),
        }
    }

    fn action(&mut self, value: &Spanned<DeValue<'_>>, protocol: Protocol) -> Option<Action> {
        let line = self.line(value.span().start);
        let Some(text) = scalar(value.get_ref()) else {
            self.fail(line, "a step is a text, or a table: { do = \"NOOP\", … }");
            return None;
        };
        match Action::parse(&self.filled(&text), protocol) {
            Ok(action) => Some(action),
            Err(why) => {
                self.fail(line, format!("{text:?}: {why}"));
                None
            }
        }
    }

    /// `text` with the parameters filled in.
    fn filled(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.values {
            text = text.replace(&format!("{{{name}}}"), value);
        }
        text
    }

    fn text(&mut self, table: &Table<'_, '_>, key: &str) -> Option<(usize, String)> {
        let value = table.entries.get(key)?;
        let line = self.line(value.span().start);
        match scalar(value.get_ref()) {
            Some(text) => Some((line, self.filled(&text))),
            None => {
                self.fail(line, format!("{key} is a text or a number"));
                None
            }
        }
    }

    fn with<T>(
        &mut self,
        table: &Table<'_, '_>,
        key: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let (line, text) = self.text(table, key)?;
        match read(&text) {
            Ok(value) => Some(value),
            Err(form) => {
                self.fail(line, format!("{key} is {text:?}; it should be {form}"));
                None
            }
        }
    }

    fn number(
        &mut self,
        table: &Table<'_, '_>,
        key: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Option<u64> {
        self.with(table, key, |text| match count(text) {
            Ok(number) if range.contains(&number) => Ok(number),
            Ok(_) => Err(format!("from {} to {}", range.start(), range.end())),
            Err(form) => Err(form),
        })
    }

    fn flag(&mut self, table: &Table<'_, '_>, key: &str) -> bool {
        self.choice(table, key, &[("true", true), ("false", false)]).unwrap_or(false)
    }

    fn choice<T: Copy>(&mut self, table: &Table<'_, '_>, key: &str, choices: &[(&str, T)]) -> Option<T> {
        self.with(table, key, |text| {
            let choice = choices.iter().find(|(name, _)| *name == text);
            let names = || choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" or ");
            choice.map(|(_, value)| *value).ok_or_else(names)
        })
    }

    fn list<'v, 'i>(&mut self, table: &Table<'v, 'i>, key: &str) -> Vec<&'v Spanned<DeValue<'i>>> {
        match table.entries.get(key).map(|value| (value.span().start, value.get_ref())) {
            None => Vec::new(),
            Some((_, DeValue::Array(values))) => values.iter().collect(),
            Some((at, _)) => {
                let line = self.line(at);
                self.fail(line, format!("{key} is a list, in brackets"));
                Vec::new()
            }
        }
    }

    fn unknown(&mut self, table: &Table<'_, '_>, keys: &[&str], of: &str) {
        for (key, _) in table.entries {
            let name = &**key.get_ref();
            if keys.contains(&name) {
                continue;
            }
            let line = self.line(key.span().start);
            let of = if of.is_empty() { "a scenario" } else { of };
            let hint = match suggest::nearest(name, keys.iter().copied()) {
                Some(near) => format!("is it {near}?"),
                None => format!("there are {}", keys.join(", ")),
            };
            self.fail(line, format!("{of} has no key {name}; {hint}"));
        }
    }
}

impl Step {
    /// One action, once.
    pub fn plain(action: Action) -> Self {
        Step {
            actions: vec![action],
            name: None,
            weight: None,
            times: 1,
            batch: None,
            think: Pause::NONE,
            expect: None,
            accept_no: false,
            notified: false,
        }
    }
}

/// Accepts `none` in addition to what `read` accepts.
fn optional<T>(read: impl Fn(&str) -> Result<T, String>) -> impl Fn(&str) -> Result<Option<T>, String> {
    move |text| if text == "none" { Ok(None) } else { read(text).map(Some) }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}
