//! A strict reader of OpenMetrics 1.0 text: what it lets through, every scraper reads.

use std::collections::{BTreeMap, BTreeSet};

/// One family as it was read.
#[derive(Debug, Default)]
pub struct Family {
    pub kind: String,
    pub help: String,
    /// By name and labels, in order.
    pub samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

/// Every family by its name; panics where the page breaks the specification.
pub fn parse(page: &str) -> BTreeMap<String, Family> {
    let lines = page.strip_suffix("# EOF\n").expect("a page ends with # EOF");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut series = BTreeSet::new();
    let mut current = String::new();
    for line in lines.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let [what, name, rest] = words(comment);
            match what {
                "TYPE" => {
                    assert!(is_name(name), "{line}");
                    current = name.to_owned();
                    let family = Family { kind: rest.to_owned(), ..Family::default() };
                    assert!(families.insert(current.clone(), family).is_none(), "a family twice: {line}");
                }
                "UNIT" => assert!(name == current && name.ends_with(&format!("_{rest}")), "{line}"),
                "HELP" => {
                    assert_eq!(name, current, "{line}");
                    families.get_mut(name).unwrap().help = rest.to_owned();
                }
                _ => panic!("{line}"),
            }
            assert!(what == "TYPE" || families[&current].samples.is_empty(), "metadata comes first: {line}");
            continue;
        }
        let (name, labels, value) = sample(line);
        let family = families.get_mut(&current).unwrap_or_else(|| panic!("no family: {line}"));
        let suffix = name.strip_prefix(&current).unwrap_or_else(|| panic!("not of {current}: {line}"));
        let allowed: &[&str] = match family.kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "histogram" => &["_bucket", "_sum", "_count"],
            kind => panic!("{kind}: {line}"),
        };
        assert!(allowed.contains(&suffix), "{line}");
        assert!(value.is_finite() && (value >= 0.0 || family.kind == "gauge"), "{line}");
        assert!(series.insert((name.clone(), labels.clone())), "a series twice: {line}");
        family.samples.push((name, labels, value));
    }
    families.values().filter(|family| family.kind == "histogram").for_each(check_histogram);
    families
}

fn words(line: &str) -> [&str; 3] {
    let mut words = line.splitn(3, ' ');
    std::array::from_fn(|_| words.next().unwrap_or_else(|| panic!("{line}")))
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("{line}"));
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            assert!(is_name(label), "{line}");
            // No value here needs escapes.
            let (value, after) = after.split_once('"').unwrap_or_else(|| panic!("{line}"));
            assert!(!value.contains('\\'), "{line}");
            assert!(labels.insert(label.to_owned(), value.to_owned()).is_none(), "{line}");
            rest = &after[1..];
            match after.as_bytes()[0] {
                b',' => {}
                b'}' => break,
                _ => panic!("{line}"),
            }
        }
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("{line}"));
    (name.to_owned(), labels, value.parse().unwrap_or_else(|e| panic!("{e}: {line}")))
}

/// Buckets ascend and add up; the last is +Inf and is the count.
fn check_histogram(family: &Family) {
    let mut bounds: BTreeMap<BTreeMap<String, String>, Vec<(f64, f64)>> = BTreeMap::new();
    let mut counts = BTreeMap::new();
    for (name, labels, value) in &family.samples {
        let mut labels = labels.clone();
        let bound = labels.remove("le");
        assert_eq!(bound.is_some(), name.ends_with("_bucket"), "{name}");
        if let Some(bound) = bound {
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
            bounds.entry(labels).or_default().push((bound, *value));
        } else if name.ends_with("_count") {
            counts.insert(labels, *value);
        }
    }
    for (labels, buckets) in bounds {
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{labels:?}: {buckets:?}");
        let (bound, count) = buckets.last().unwrap();
        assert!(bound.is_infinite() && counts[&labels] == *count, "{labels:?}");
    }
}
