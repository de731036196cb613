//! SVG, as far as plots need it: shapes, text, and scales with readable ticks.
//!
//! Colours are classes, so that one drawing serves light and dark; a separate file includes their
//! definitions.

use std::fmt::Write as _;

use super::style;

/// `text` for XML and HTML, in elements and quoted attributes. Characters that XML 1.0 §2.2 forbids
/// are replaced.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// `text` cut to at most `most` characters.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Characters of a name in a legend.
const LEGEND_CHARS: usize = 40;
/// The approximate width of one of them, and the height of a row.
const CHAR: f64 = 6.5;
const LEGEND_ROW: f64 = 18.0;

/// Where text is anchored.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing.
#[derive(Debug, Clone)]
pub struct Svg {
    width: f64,
    height: f64,
    title: String,
    body: String,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        Svg { width, height, title: title.to_owned(), body: String::new() }
    }

    /// For a page that has the style.
    pub fn inline(&self) -> String {
        let (width, height, title) = (self.width, self.height, escape(&self.title));
        format!(
            "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n{}</svg>\n",
            self.body
        )
    }

    /// As a separate file; with the names of the series, which a page has above all its plots.
    pub fn document(&self, series: &[&str]) -> String {
        let mut drawn = self.clone();
        drawn.legend(series);
        let (width, height, title) = (drawn.width, drawn.height, escape(&drawn.title));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
             <title>{title}</title>\n<style>{}{}</style>\n<rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n{}</svg>\n",
            style::COLOURS,
            style::SVG,
            drawn.body
        )
    }

    /// The colours of the series, below the drawing.
    fn legend(&mut self, series: &[&str]) {
        let (mut x, mut y) = (0.0, self.height + 6.0);
        for (nth, name) in series.iter().enumerate() {
            let name = shortened(name, LEGEND_CHARS);
            let needed = 16.0 + CHAR * name.chars().count() as f64;
            if x > 0.0 && x + needed > self.width {
                (x, y) = (0.0, y + LEGEND_ROW);
            }
            self.rect(&format!("f{}", nth % style::SERIES), x, y, 10.0, 10.0, "");
            self.text("name", (x + 16.0, y + 9.0), Anchor::Start, &name);
            x += needed + 18.0;
            self.height = y + LEGEND_ROW;
        }
    }

    pub(super) fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64, tip: &str) {
        let (width, height) = (width.max(0.0), height.max(0.0));
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">{}</rect>",
            tooltip(tip)
        );
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let _ = writeln!(
            self.body,
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    pub(super) fn circle(&mut self, class: &str, centre: (f64, f64), radius: f64, tip: &str) {
        let _ = writeln!(
            self.body,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\">{}</circle>",
            centre.0,
            centre.1,
            tooltip(tip)
        );
    }

    /// A line through points; closed at height `base` if it is to be filled.
    pub(super) fn path(&mut self, class: &str, points: &[(f64, f64)], base: Option<f64>) {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
        let mut path = String::new();
        for (nth, (x, y)) in points.iter().enumerate() {
            let _ = write!(path, "{}{x:.1} {y:.1}", if nth == 0 { "M" } else { "L" });
        }
        if let Some(base) = base {
            let _ = write!(path, "L{:.1} {base:.1}L{:.1} {base:.1}Z", last.0, first.0);
        }
        let _ = writeln!(self.body, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    pub(super) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y) = at;
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escape(text)
        );
    }
}

fn tooltip(tip: &str) -> String {
    if tip.is_empty() { String::new() } else { format!("<title>{}</title>", escape(tip)) }
}

/// Maps values to positions on a line of `length`, from `origin`; upwards if the length is
/// negative.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    origin: f64,
    length: f64,
    log: bool,
}

impl Scale {
    /// From 0 to at least `high`.
    pub(super) fn linear(high: f64, origin: f64, length: f64) -> Self {
        Scale { low: 0.0, high: if high > 0.0 { high } else { 1.0 }, origin, length, log: false }
    }

    /// Powers of ten from below `low` to above `high`.
    pub(super) fn log(low: f64, high: f64, origin: f64, length: f64) -> Self {
        let low = low.max(1.0);
        let (low, high) = (low.log10().floor(), high.max(low).log10().ceil());
        Scale { low, high: high.max(low + 1.0), origin, length, log: true }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if self.log { value.max(1.0).log10() } else { value };
        let part = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.origin + part * self.length
    }

    /// Values worth a grid line.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.log {
            return (self.low as i32..=self.high as i32).map(|power| 10f64.powi(power)).collect();
        }
        multiples(step(self.high), self.high)
    }

    /// Ticks of bytes: steps are powers of two.
    pub(super) fn byte_ticks(&self) -> Vec<f64> {
        let step = 2f64.powf((self.high / 5.0).max(1.0).log2().ceil());
        multiples(step, self.high)
    }
}

/// One, two or five times a power of ten: at most six of it up to `high`.
fn step(high: f64) -> f64 {
    let power = 10f64.powf((high / 6.0).log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| high / (power * factor) <= 6.0);
    power * factor.unwrap_or(10.0)
}

fn multiples(step: f64, high: f64) -> Vec<f64> {
    (0..100).map(|nth| f64::from(nth) * step).take_while(|value| *value <= high * 1.0001).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_text_is_escaped() {
        assert_eq!(escape("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
        assert_eq!(escape("a\0\u{1b}[31m\nb\u{ffff}"), "a\u{fffd}\u{fffd}[31m b\u{fffd}");
        let mut svg = Svg::new(10.0, 10.0, "</title><script>");
        svg.text("label", (1.0, 1.0), Anchor::Start, "</text><script>alert(1)</script>");
        svg.rect("bar", 0.0, 0.0, 1.0, 1.0, "\"><script>");
        for drawn in [svg.inline(), svg.document(&["<script>", "</text><script>"])] {
            assert!(!drawn.contains("<script"), "{drawn}");
        }
    }

    #[test]
    fn a_chart_has_a_legend() {
        let svg = Svg::new(100.0, 10.0, "x");
        let document = svg.document(&["Sealpost", "Dovecot"]);
        assert!(document.contains(">Sealpost</text>") && document.contains("class=\"f1\""), "{document}");
        // Two rows: both do not fit side by side.
        assert!(document.contains("viewBox=\"0 0 100 52\""), "{document}");
        assert!(svg.document(&[]).contains("viewBox=\"0 0 100 10\""));
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(Scale::linear(2.3, 0.0, 1.0).ticks(), [0.0, 0.5, 1.0, 1.5, 2.0]);
        assert_eq!(Scale::linear(57.0, 0.0, 1.0).ticks(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(Scale::linear(60.0 * 1048576.0, 0.0, 1.0).byte_ticks().len(), 4);
        assert_eq!(Scale::log(80.0, 2500.0, 0.0, 1.0).ticks(), [10.0, 100.0, 1000.0, 10_000.0]);
        assert!(Scale::linear(0.0, 0.0, 1.0).ticks().len() > 1);
    }
}
