//! `sealpost bench list` and `show`: the scenarios there are.

use std::process::ExitCode;

use anyhow::Result;
use sealpost_base::suggest;
use sealpost_bench::load::data;
use sealpost_bench::load::scenario::{BUILT_IN, BuiltIn, Overrides, Scenario, find};
use serde::Serialize;

use crate::exit::Usage;
use crate::global::Global;

#[derive(Serialize)]
struct BenchLists {
    scenarios: Vec<Entry>,
    data_sets: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    about: String,
    /// What `--set` may change, and what it is without.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<String>,
}

#[derive(Serialize)]
struct ScenarioReport {
    #[serde(flatten)]
    entry: Entry,
    /// The file.
    toml: &'static str,
}

pub fn list(global: &Global) -> Result<ExitCode> {
    let scenarios = BUILT_IN.iter().map(entry).collect::<Result<_>>()?;
    let data_sets =
        data::NAMES.map(|(name, about)| Entry { name, about: about.to_owned(), parameters: Vec::new() });
    let listed = BenchLists { scenarios, data_sets: data_sets.into() };
    global.output().show(&listed, text)?;
    Ok(ExitCode::SUCCESS)
}

pub fn show(name: &str, global: &Global) -> Result<ExitCode> {
    let found = find(name).ok_or_else(|| Usage(no_such(name)))?;
    let shown = ScenarioReport { entry: entry(found)?, toml: found.text };
    global.output().show(&shown, |shown| shown.toml.to_owned())?;
    Ok(ExitCode::SUCCESS)
}

/// The error for an unknown scenario.
pub fn no_such(name: &str) -> String {
    match suggest::nearest(name, BUILT_IN.iter().map(|scenario| scenario.name)) {
        Some(near) => format!("there is no scenario {name}; is it {near}?"),
        None => format!(
            "there is no scenario {name}, and no such file; `sealpost bench list` names those there are"
        ),
    }
}

fn entry(built_in: &BuiltIn) -> Result<Entry> {
    let scenario =
        Scenario::parse(built_in.name, built_in.text, &Overrides::default()).map_err(anyhow::Error::msg)?;
    let parameters = scenario.set.iter().map(|(name, _)| name.clone()).collect();
    Ok(Entry { name: built_in.name, about: scenario.about, parameters })
}

fn text(listed: &BenchLists) -> String {
    let lines = |entries: &[Entry]| {
        let line = |entry: &Entry| {
            let parameters = entry.parameters.join(", ");
            let set = if parameters.is_empty() {
                String::new()
            } else {
                format!("\n                    --set {parameters}")
            };
            format!("  {:<18}{}{set}\n", entry.name, entry.about)
        };
        entries.iter().map(line).collect::<String>()
    };
    format!("Scenarios\n{}\nData sets\n{}", lines(&listed.scenarios), lines(&listed.data_sets))
}
