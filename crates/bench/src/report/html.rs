//! The page: doubts about the figures first, then plots, then tables, then the method.

use std::fmt::Write as _;

use crate::result::{Phase, Run, ServerRun};

use super::plots::{self, Plot, Section};
use super::study::study;
use super::style::{self, SERIES};
use super::svg::escape;
use super::units;

/// The whole page.
pub fn html(run: &Run) -> String {
    let mut page = String::new();
    let names: Vec<&str> = run.servers.iter().map(|server| &*server.name).collect();
    let title = format!("{}: {}", run.title, names.join(", "));
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>{}{}{}</style>\n</head>\n<body>\n<main>\n",
        escape(&title),
        style::COLOURS,
        style::PAGE,
        style::SVG
    );
    let _ =
        writeln!(page, "<h1>{}</h1>\n<p class=\"soft\">{}</p>", escape(&run.title), units::date(run.began));
    legend(&mut page, run);
    warnings(&mut page, run);
    study(&mut page, run);
    let plots = plots::all(run);
    section(&mut page, &plots, Section::Comparison, "Phase by phase", "");
    section(
        &mut page,
        &plots,
        Section::Time,
        "Memory and CPU over time",
        "Phases are the bands behind the curves, numbered as in the tables. Servers share their scales.",
    );
    section(
        &mut page,
        &plots,
        Section::Latency,
        "Times of commands",
        "A dot is the median, the bar reaches to 99 of 100, the line to the longest. Counted from when a command was meant to be sent. The scale is logarithmic.",
    );
    section(
        &mut page,
        &plots,
        Section::Percentiles,
        "Percentiles",
        "How long so many of 100 took at most; further right are the rarer, longer ones.",
    );
    tables(&mut page, run);
    facts(&mut page, run);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

pub(super) fn key(nth: usize) -> String {
    format!("<span class=\"key k{}\"></span>", nth % SERIES)
}

fn legend(page: &mut String, run: &Run) {
    page.push_str("<p>");
    for (nth, server) in run.servers.iter().enumerate() {
        let version = if server.version.is_empty() {
            String::new()
        } else {
            format!(" <span class=\"soft\">{}</span>", escape(&server.version))
        };
        let _ = write!(page, "{}<strong>{}</strong>{version} &nbsp; ", key(nth), escape(&server.name));
    }
    page.push_str("</p>\n");
}

fn warnings(page: &mut String, run: &Run) {
    let mut all: Vec<String> = run.warnings.clone();
    for server in &run.servers {
        all.extend(server.warnings.iter().map(|warning| format!("{}: {warning}", server.name)));
    }
    let errors = run.errors();
    if errors > 0 {
        let plural = if errors == 1 { "" } else { "s" };
        all.push(format!("{} command{plural} did not end well; the tables say which", units::count(errors)));
    }
    if all.is_empty() {
        return;
    }
    page.push_str("<div class=\"warn\" role=\"note\"><strong>Before you believe these figures</strong><ul>");
    all.iter().for_each(|warning| page.push_str(&format!("<li>{}</li>", escape(warning))));
    page.push_str("</ul></div>\n");
}

fn section(page: &mut String, plots: &[Plot], section: Section, title: &str, about: &str) {
    let mut plots = plots.iter().filter(|plot| plot.section == section).peekable();
    if plots.peek().is_none() {
        return;
    }
    let _ = writeln!(page, "<h2>{title}</h2>");
    if !about.is_empty() {
        let _ = writeln!(page, "<p class=\"soft\">{about}</p>");
    }
    page.push_str("<div class=\"plots\">\n");
    plots.for_each(|plot| page.push_str(&format!("<figure class=\"card\">{}</figure>\n", plot.svg.inline())));
    page.push_str("</div>\n");
}

fn tables(page: &mut String, run: &Run) {
    page.push_str("<h2>Tables</h2>\n");
    for (nth, name) in plots::phases(run).into_iter().enumerate() {
        let of: Vec<(usize, &ServerRun, &Phase)> =
            run.servers.iter().enumerate().filter_map(|(n, s)| Some((n, s, s.phase(name)?))).collect();
        let _ = writeln!(page, "<h3>{}. {}</h3>", nth + 1, escape(name));
        phase_table(page, &of);
        command_table(page, &of);
        error_list(page, &of);
    }
}

fn phase_table(page: &mut String, of: &[(usize, &ServerRun, &Phase)]) {
    page.push_str("<div class=\"scroll\"><table><tr><th>server</th><th>time</th><th>connections</th><th>messages a second</th><th>CPU</th><th>memory, highest</th><th>grown by</th><th>sent</th><th>received</th></tr>\n");
    for (nth, server, phase) in of {
        let bytes = |value| units::peak(value, phase.peak_at_least);
        let _ = writeln!(
            page,
            "<tr><td>{}{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            key(*nth),
            escape(&server.name),
            units::seconds(phase.seconds()),
            units::count(phase.connections),
            phase.messages_rate().map_or("–".into(), units::rate),
            phase.cpu_seconds.map_or("–".into(), units::cpu),
            bytes(phase.peak_bytes),
            bytes(phase.growth_bytes()),
            units::bytes(phase.bytes_sent as f64),
            units::bytes(phase.bytes_received as f64),
        );
    }
    page.push_str("</table></div>\n");
}

fn command_table(page: &mut String, of: &[(usize, &ServerRun, &Phase)]) {
    let mut names: Vec<&str> = Vec::new();
    for command in of.iter().flat_map(|(_, _, phase)| &phase.commands) {
        if !names.contains(&&*command.name) {
            names.push(&command.name);
        }
    }
    if names.is_empty() {
        return;
    }
    page.push_str("<div class=\"scroll\"><table><tr><th>command</th><th></th><th>count</th><th>errors</th><th>a second</th><th>mean</th><th>50 %</th><th>90 %</th><th>99 %</th><th>99.9 %</th><th>longest</th><th>received</th></tr>\n");
    for name in names {
        let mut label = escape(name);
        for (nth, server, phase) in of {
            let Some(command) = phase.command(name) else { continue };
            let latency = &command.latency;
            let time = |us: u64| if command.count == 0 { "–".to_owned() } else { units::time(us as f64) };
            let errors = command.errors();
            let bad = if errors > 0 { " class=\"bad\"" } else { "" };
            let _ = writeln!(
                page,
                "<tr><td>{label}</td><td class=\"left\" title=\"{}\">{}</td><td>{}</td><td{bad}>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escape(&server.name),
                key(*nth),
                units::count(command.count),
                units::count(errors),
                units::rate(command.count as f64 / phase.seconds().max(1e-9)),
                time(latency.mean_us.round() as u64),
                time(latency.p50_us),
                time(latency.p90_us),
                time(latency.p99_us),
                time(latency.p999_us),
                time(latency.max_us),
                units::bytes(command.bytes_received as f64),
            );
            label.clear();
        }
    }
    page.push_str("</table></div>\n");
}

fn error_list(page: &mut String, of: &[(usize, &ServerRun, &Phase)]) {
    for (nth, server, phase) in of {
        for command in &phase.commands {
            for (kind, failure) in &command.errors {
                let _ = writeln!(
                    page,
                    "<p class=\"bad\">{}{}: {} × {} on {}: <code>{}</code></p>",
                    key(*nth),
                    escape(&server.name),
                    units::count(failure.count),
                    escape(kind),
                    escape(&command.name),
                    escape(&failure.example)
                );
            }
        }
    }
}

fn facts(page: &mut String, run: &Run) {
    page.push_str("<h2>How it was measured</h2>\n<dl>\n");
    let mut fact = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(page, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
        }
    };
    fact("machine", &run.machine.line());
    let generator = &run.generator;
    fact(
        "load generator",
        &format!(
            "{} {}, {}, {} of CPU in {}",
            generator.name,
            generator.version,
            units::many(generator.threads, "thread", "threads"),
            units::cpu(generator.cpu_seconds),
            units::seconds(generator.wall_seconds)
        ),
    );
    fact("seed", &run.seed.to_string());
    run.parameters.iter().for_each(|(name, value)| fact(name, value));
    for server in &run.servers {
        let most =
            |what: fn(&crate::result::Sample) -> u32| server.samples.iter().map(what).max().unwrap_or(0);
        let files = most(|sample| sample.files.unwrap_or(0));
        let counts = format!(
            "at most {}, {}, {}",
            units::many(most(|s| s.threads), "thread", "threads"),
            units::many(most(|s| s.processes), "process", "processes"),
            units::many(files, "open file", "open files"),
        );
        let parts =
            [&*server.reached, &*server.settings, if server.samples.is_empty() { "" } else { &*counts }];
        fact(&server.name, &parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; "));
    }
    page.push_str("</dl>\n");
}
