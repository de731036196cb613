//! From the text of a configuration file to values, with the line of everything that is wrong.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{self, KEYS, SECTIONS};
use super::{Config, Origin};
use sealpost_base::suggest;

/// Sets what `text` says; returns what is wrong with it, each as `line: what`.
pub fn apply(config: &mut Config, text: &str) -> Vec<String> {
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(e) => {
            let line = e.span().map_or(1, |span| line_of(text, span.start));
            return vec![format!("{line}: {}", e.message())];
        }
    };
    let mut found = Vec::new();
    let mut wrong = Vec::new();
    for (name, value) in table.get_ref() {
        collect("", name.get_ref(), name.span().start, value, &mut found);
    }
    // A table has no order of its own; the messages have that of the file.
    found.sort_by_key(|found| found.at);
    for FoundValue { name, at, value } in found {
        let line = line_of(text, at);
        match keys::position(&name) {
            None => wrong.push(format!("{line}: {}", unknown(&name, value))),
            Some(position) => match (KEYS[position].set)(config, value) {
                Ok(()) => config.origins[position] = Origin::File(line),
                Err(why) => wrong.push(format!("{line}: {name} is {}: {why}", KEYS[position].form)),
            },
        }
    }
    wrong
}

struct FoundValue<'a> {
    name: String,
    at: usize,
    value: &'a DeValue<'a>,
}

/// The keys below `name`; the name itself if it is no section.
fn collect<'a>(
    section: &str,
    name: &str,
    at: usize,
    value: &'a Spanned<DeValue<'a>>,
    found: &mut Vec<FoundValue<'a>>,
) {
    let name = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
    match value.get_ref() {
        DeValue::Table(table) if !table.is_empty() => {
            for (below, value) in table {
                collect(&name, below.get_ref(), below.span().start, value, found);
            }
        }
        // A section in which everything is commented out.
        DeValue::Table(_) if SECTIONS.iter().any(|(section, _)| *section == name) => {}
        value => found.push(FoundValue { name, at, value }),
    }
}

fn unknown(name: &str, value: &DeValue<'_>) -> String {
    let what = if value.is_table() { "section" } else { "key" };
    let names = KEYS.iter().map(|key| key.name);
    match suggest::nearest(name, names) {
        // A section's name is no slip of the finger for a key in another.
        Some(nearest) if !value.is_table() && !is_section(name) => {
            format!("there is no key {name}; is it {nearest}?")
        }
        _ => format!("there is no {what} {name}; `sealpost config default` prints all there are"),
    }
}

fn is_section(name: &str) -> bool {
    KEYS.iter().any(|key| key.section() == name)
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count() + 1
}
