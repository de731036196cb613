//! The text format of OpenMetrics 1.0: <https://prometheus.io/docs/specs/om/open_metrics_spec/>.

use std::fmt::Write;

use sealpost_base::metrics::Reading;

/// What kind of metric a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only grows, until the server restarts.
    Counter,
    /// Rises and falls.
    Gauge,
    /// How values are distributed.
    Histogram,
}

/// The media type.
pub(super) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What ends a page; without it, a page was cut short.
pub(super) const END: &str = "# EOF\n";

/// Labels of one series. Names are ours; versions and names of sites need no more than escaping.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// The lines that begin a family. `name` has the unit as its last word, if there is one.
pub(super) fn head(out: &mut String, name: &str, kind: Kind, unit: &str, help: &str) {
    line(out, format_args!("# TYPE {name} {}", kind.name()));
    if !unit.is_empty() {
        line(out, format_args!("# UNIT {name} {unit}"));
    }
    let help = help.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"");
    line(out, format_args!("# HELP {name} {help}"));
}

/// One line with a value.
pub(super) fn sample(out: &mut String, name: &str, labels: Labels<'_>, value: f64) {
    out.push_str(name);
    push_labels(out, labels, None);
    line(out, format_args!(" {value}"));
}

/// The lines of one histogram, whose values are `scale` times what was observed.
pub(super) fn histogram(out: &mut String, name: &str, labels: Labels<'_>, reading: &Reading, scale: f64) {
    let mut below = 0;
    for (at, count) in reading.buckets.iter().enumerate() {
        below += count;
        let bound = match reading.bounds.get(at) {
            Some(bound) => float(*bound as f64 * scale),
            None => "+Inf".to_owned(),
        };
        let _ = write!(out, "{name}_bucket");
        push_labels(out, labels, Some(("le", &bound)));
        line(out, format_args!(" {below}"));
    }
    let _ = write!(out, "{name}_sum");
    push_labels(out, labels, None);
    line(out, format_args!(" {}", reading.sum as f64 * scale));
    let _ = write!(out, "{name}_count");
    push_labels(out, labels, None);
    line(out, format_args!(" {below}"));
}

/// The canonical form of numbers that are compared as text, such as the bounds of buckets: `1.0`, `0.005`.
fn float(value: f64) -> String {
    // The scale leaves 0.00025 as 0.00025000000000000003.
    let rounded = format!("{value:.9}");
    let trimmed = rounded.trim_end_matches('0');
    if trimmed.ends_with('.') { format!("{trimmed}0") } else { trimmed.to_owned() }
}

fn push_labels(out: &mut String, labels: Labels<'_>, last: Option<(&str, &str)>) {
    let mut between = '{';
    for (name, value) in labels.iter().copied().chain(last) {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(out, "{between}{name}=\"{value}\"");
        between = ',';
    }
    if between == ',' {
        out.push('}');
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = out.write_fmt(text);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_cumulative() {
        let reading =
            Reading { bounds: &[250_000, 1_000_000_000], buckets: vec![1, 2, 3], sum: 4_500_000_000 };
        let mut out = String::new();
        histogram(&mut out, "x_seconds", &[("a", "b\"c\\")], &reading, 1e-9);
        assert_eq!(
            out,
            "x_seconds_bucket{a=\"b\\\"c\\\\\",le=\"0.00025\"} 1\n\
             x_seconds_bucket{a=\"b\\\"c\\\\\",le=\"1.0\"} 3\n\
             x_seconds_bucket{a=\"b\\\"c\\\\\",le=\"+Inf\"} 6\n\
             x_seconds_sum{a=\"b\\\"c\\\\\"} 4.5\n\
             x_seconds_count{a=\"b\\\"c\\\\\"} 6\n"
        );
    }

    #[test]
    fn a_family_begins_with_its_metadata() {
        let mut out = String::new();
        head(&mut out, "x_bytes", Kind::Gauge, "bytes", "One \"line\".");
        sample(&mut out, "x_bytes", &[], 1.0);
        assert_eq!(
            out,
            "# TYPE x_bytes gauge\n# UNIT x_bytes bytes\n# HELP x_bytes One \\\"line\\\".\nx_bytes 1\n"
        );
    }
}
