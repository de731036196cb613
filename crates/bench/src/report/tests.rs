use super::compare::{compare, groups, text};
use super::*;
use crate::result::{Failure, Latency, Phase, Run, Sample, ServerRun};
use std::time::Duration;

/// A run of two servers with realistic figures, and with hostile names.
fn example(hostile: &str) -> Run {
    let mut run = Run::new(&format!("thunderbird{hostile}"), 7, 1_760_000_000);
    run.warnings = vec![format!("the load generator used 95 % of a core{hostile}")];
    run.parameters.insert(format!("data set{hostile}"), format!("mailbox-100{hostile}"));
    for (nth, name) in ["Sealpost", "Dovecot"].into_iter().enumerate() {
        let mut server = ServerRun {
            name: format!("{name}{hostile}"),
            version: format!("1.0{hostile}"),
            reached: format!("imap 127.0.0.1:143{hostile}"),
            ..ServerRun::default()
        };
        for (phase, command) in [("start", "LOGIN"), ("read", "FETCH BODY[]"), ("flags", "UID STORE")] {
            let begin = server.phases.last().map_or(0.0, |phase: &Phase| phase.end);
            let times: Vec<_> =
                (1..1000u64).map(|n| Duration::from_micros(100 * (nth as u64 + 1) + n * n / 200)).collect();
            let mut command = crate::result::Command {
                name: format!("{command}{hostile}"),
                count: 999,
                latency: Latency::of_times(&times),
                ..crate::result::Command::default()
            };
            command
                .errors
                .insert(format!("NO{hostile}"), Failure { count: 2, example: format!("NO{hostile}") });
            server.phases.push(Phase {
                name: format!("{phase}{hostile}"),
                begin,
                end: begin + 2.0 + nth as f64,
                connections: 16,
                cpu_seconds: Some(0.5),
                peak_bytes: Some((30 + 10 * nth as u64) << 20),
                begin_bytes: Some(28 << 20),
                commands: vec![command],
                ..Phase::default()
            });
        }
        let sample = |n: u32| Sample {
            at: f64::from(n) / 10.0,
            cpu_seconds: f64::from(n) / 12.0,
            rss_bytes: (28 << 20) + u64::from(n % 20) * 300_000,
            processes: 1,
            threads: 5,
            ..Sample::default()
        };
        server.samples = (0..60).map(sample).collect();
        run.servers.push(server);
    }
    run
}

#[test]
fn the_page_is_self_contained_and_complete() {
    let page = html(&example(""));
    for wanted in [
        "thunderbird",
        "Sealpost",
        "Dovecot",
        "FETCH BODY[]",
        "95 % of a core",
        "Memory and CPU",
        "Percentiles",
        "<svg",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    for outside in ["http:", "https:", "<script", "url(", "@import", "src="] {
        assert!(!page.contains(outside), "{outside}");
    }
    for tag in ["svg", "table", "figure", "p", "div", "dl", "text", "h2", "tr", "td"] {
        let (open, close) = (
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count(),
            page.matches(&format!("</{tag}>")).count(),
        );
        assert_eq!(open, close, "{tag}");
    }
}

#[test]
fn text_of_servers_is_escaped_everywhere() {
    let run = example("\"><script>alert(1)</script>'&\x1b[2J");
    let page = html(&run);
    assert!(!page.contains("<script") && !page.contains('\x1b'), "{page}");
    for (_, svg) in svgs(&run) {
        assert!(!svg.contains("<script") && !svg.contains('\x1b') && !svg.contains("alert(1)<"), "{svg}");
    }
    let summary = summary(&run, 100, false);
    assert!(!summary.contains('\x1b'));
    let given = [("a\x1b".to_owned(), vec![run])];
    assert!(!text(&groups(&given), &[], 100, false).contains('\x1b'));
}

#[test]
fn a_run_without_figures_is_shown_too() {
    let empty = Run {
        servers: vec![ServerRun { phases: vec![Phase::default()], ..ServerRun::default() }],
        ..Run::default()
    };
    for run in [Run::default(), empty] {
        assert!(html(&run).contains("</html>"));
        assert!(svgs(&run).is_empty());
        assert!(!summary(&run, 0, true).is_empty());
    }
}

#[test]
fn a_narrow_terminal_is_not_overrun() {
    for width in [40, 60, 80, 120] {
        let summary = summary(&example(""), width, false);
        let widest = summary.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width, "{widest} of {width}:\n{summary}");
        assert!(summary.contains("p99"), "{summary}");
    }
    assert!(summary(&example(""), 80, true).contains("\x1b[1m"));
}

#[test]
fn runs_are_compared_by_server_or_by_file() {
    let given = [("a".to_owned(), vec![example("")])];
    let both = groups(&given);
    assert_eq!(both.iter().map(|g| &*g.label).collect::<Vec<_>>(), ["Sealpost", "Dovecot"]);
    let lines = compare(&both);
    let time = lines.iter().find(|line| line.name == "start" && line.figure == "time").unwrap();
    assert_eq!(time.values[1].as_ref().unwrap().0 / time.values[0].as_ref().unwrap().0, 1.5);
    assert_eq!(time.chance, [None, None]);
    let four = vec![example(""), example(""), example(""), example("")];
    let given = [("old".to_owned(), four.clone()), ("new".to_owned(), four)];
    let all = groups(&given);
    assert_eq!(
        all.iter().map(|g| &*g.label).collect::<Vec<_>>(),
        ["Sealpost (old)", "Dovecot (old)", "Sealpost (new)", "Dovecot (new)"]
    );
    let lines = compare(&all);
    assert!(lines[0].chance[1].unwrap() < 0.05 && lines[0].chance[2] == Some(1.0));
    assert!(text(&all, &[], 100, false).contains("1.50×"));
}

#[test]
fn the_page_shows_study_and_server_figures() {
    let mut run = example("<");
    assert!(!html(&run).contains("Aerogramme's published figures"));
    run.title = crate::seeds::TITLE.into();
    for (nth, server) in run.servers.iter_mut().enumerate() {
        let cpu_seconds = Some(0.25 + nth as f64);
        let phase = |name: &str| Phase { name: name.into(), cpu_seconds, ..Phase::default() };
        server.phases.extend([phase("copy"), phase("move")]);
    }
    let page = html(&run);
    assert!(
        page.contains("<td>COPY and MOVE of 1,000: CPU</td><td>40 s</td><td>0.50 s</td><td>2.50 s</td>"),
        "{page}"
    );
    assert!(page.contains("Sealpost&lt;</th>"), "{page}");
}
