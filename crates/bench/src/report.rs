//! Presents a run: one HTML page, SVG files, a summary for the terminal, a comparison of runs.
//!
//! Everything is computed from the document ([`crate::result`]), so that an old one can be shown
//! again. Its names and error texts come from servers and files: they are escaped where they are
//! written ([`svg::escape`], [`printable`]), nowhere else. The page uses no external resources and
//! no script.

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
    let names: Vec<&str> = run.servers.iter().map(|server| &*server.name).collect();
    let document = |plot: plots::Plot| {
        // Plots over time are of one server, and named after it.
        let several = names.len() > 1 && plot.section != plots::Section::Time;
        (format!("{}.svg", plot.file), plot.svg.document(if several { &names } else { &[] }))
    };
    plots::all(run).into_iter().map(document).collect()
}

#[cfg(test)]
mod tests;
