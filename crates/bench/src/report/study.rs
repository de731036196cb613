//! Aerogramme's published figures, which [`crate::seeds`] measures again, beside those of a page's
//! servers.

use std::fmt::Write as _;

use crate::result::Run;
use crate::seeds;

use super::html::key;
use super::svg::escape;

/// Writes them, if the run is one of [`crate::seeds`].
pub(super) fn study(page: &mut String, run: &Run) {
    if run.title != seeds::TITLE {
        return;
    }
    let each: Vec<_> = run.servers.iter().map(seeds::table).collect();
    let Some(first) = each.first() else { return };
    let _ = write!(
        page,
        "<h2>{study}'s published figures</h2>\n<p class=\"soft\">They are from its authors' machine: compare orders of \
         magnitude, not milliseconds.</p>\n\
         <div class=\"scroll\"><table class=\"wrap\"><tr><th>figure</th><th>{study}</th>",
        study = seeds::STUDY
    );
    for (nth, server) in run.servers.iter().enumerate() {
        let _ = write!(page, "<th>{}{}</th>", key(nth), escape(&server.name));
    }
    page.push_str("</tr>\n");
    for (nth, line) in first.iter().enumerate() {
        let _ = write!(page, "<tr><td>{}</td><td>{}</td>", escape(line.name), escape(line.theirs));
        each.iter().for_each(|lines| page.push_str(&format!("<td>{}</td>", escape(&lines[nth].ours))));
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}
