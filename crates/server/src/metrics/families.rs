//! The table of all metrics, a file for each subject: `/metrics` and the list in the guide are made from it.

mod accounts;
mod logins;
mod logs;
mod push;
mod sending;
mod server;
mod sessions;
mod store;

use super::family::{Family, View};
use super::openmetrics::Kind;

/// In the order of `/metrics`.
const SUBJECTS: [&[Family]; 8] = [
    server::FAMILIES,
    sessions::FAMILIES,
    push::FAMILIES,
    sending::FAMILIES,
    logins::FAMILIES,
    accounts::FAMILIES,
    logs::FAMILIES,
    store::FAMILIES,
];

fn all() -> impl Iterator<Item = &'static Family> {
    SUBJECTS.into_iter().flatten()
}

/// Everything there is, in pieces of a few KiB.
pub(super) fn pieces<'a>(view: &'a View<'a>) -> impl Iterator<Item = String> + 'a {
    all().flat_map(move |family| family.pieces(view))
}

/// The rows of the guide's table of metrics.
pub fn reference() -> String {
    let mut rows = String::from("| Metric | Kind | Labels | Meaning |\n|---|---|---|---|\n");
    for family in all() {
        let suffix = match family.kind {
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram => "",
        };
        let labels: Vec<_> = family.labels.split_whitespace().map(|label| format!("`{label}`")).collect();
        let (name, kind, labels, help) = (family.name, family.kind.name(), labels.join(", "), family.help);
        rows.push_str(&format!("| `{name}{suffix}` | {kind} | {labels} | {help} |\n"));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_with_their_units_and_come_once() {
        let mut seen = std::collections::BTreeSet::new();
        for family in all() {
            assert!(seen.insert(family.name), "{}", family.name);
            assert!(family.name.ends_with(family.unit), "{}", family.name);
            assert!(!family.name.ends_with("_total") && !family.help.is_empty(), "{}", family.name);
        }
    }
}
