//! A run shown to people: one HTML page, SVG files, a summary for the terminal, a comparison of runs.
//!
//! Everything is computed from the document ([`crate::result`]), so that an old one can be shown again. Names and error
//! texts in it come from servers and files: they are escaped where they are written ([`svg::escape`], [`printable`]),
//! nowhere else. The page needs nothing from outside and no script.

pub mod compare;
pub mod doubts;
mod html;
mod plots;
mod study;
mod style;
pub mod svg;
mod terminal;
mod timeline;
pub(crate) mod units;

use crate::result::Run;

pub use html::html;
pub use terminal::{printable, summary};

/// All plots of a run as files of their own: name and contents.
pub fn svgs(run: &Run) -> Vec<(String, String)> {
    let plots = plots::all(run);
    plots.into_iter().map(|plot| (format!("{}.svg", plot.file), plot.svg.document())).collect()
}

#[cfg(test)]
mod tests;
