use super::*;
use crate::result::{Command, Latency, Phase as Seen};

#[test]
fn the_summary_is_complete() {
    // The trace has 240 lines, each in one shape. For some verbs it omits commands that are
    // included in its counts.
    assert_eq!(shapes().map(|shape| shape.commands).sum::<u32>(), 240);
    assert_eq!(sent().map(|(_, sent, _)| sent).sum::<u64>(), 4619);
    for (verb, _, different) in sent() {
        let commands: u64 =
            shapes().filter(|shape| shape.verb == verb).map(|shape| u64::from(shape.commands)).sum();
        let whole = matches!(verb, "FETCH" | "SEARCH");
        assert!(
            if whole { commands == different } else { commands <= different },
            "{verb}: {commands} of {different}"
        );
    }
    assert_eq!(reading().len(), 52);
}

#[test]
fn every_command_is_one_that_a_scenario_can_send() {
    let plan = Plan { messages: vec![1_000, 10_000], mail: "small".into(), runs: 3, writes: Some(20.0) };
    let scenario = scenario(&plan).unwrap();
    let names: Vec<&str> = scenario.phases.iter().map(|phase| &*phase.name).collect();
    assert_eq!(names.len(), 10);
    assert_eq!(names[..2], ["1,000 messages, fill", "1,000 messages, first time"]);
    assert!(scenario.writes_elsewhere().is_empty(), "{:?}", scenario.writes_elsewhere());
    let reads = &scenario.phases[1];
    assert!(reads.steps.len() >= 50 && reads.steps.len() <= crate::load::scenario::STEPS);
    let last = reads.steps.last().unwrap();
    assert_eq!(last.actions[0].name(), "UID FETCH 1:* (UID RFC822.SIZE BODY[])");
    assert_eq!(last.expect, None, "flags that it sets may be reported apart");
    assert_eq!(reads.steps[0].expect, Some(Expect { count: 1_000, word: "FETCH".into() }));
    assert!(scenario.phases[3].alongside && !scenario.phases[4].alongside);
    assert!(
        scenario.phases[4].steps.iter().all(|step| step.expect.is_none()),
        "the writer changes how many there are"
    );
}

#[test]
fn long_lists_of_fields_are_shortened_for_tables() {
    let brief = |command| Shape { verb: "FETCH", commands: 1, command }.brief();
    assert_eq!(
        brief("FETCH 1:* (BODY.PEEK[HEADER.FIELDS (A B C D E)] UID)"),
        "FETCH 1:* (BODY.PEEK[HEADER.FIELDS (A B C and 2 more)] UID)"
    );
    for whole in ["FETCH 1:* (BODY.PEEK[HEADER.FIELDS (A B C D)])", "UID SEARCH UNSEEN"] {
        assert_eq!(brief(whole), whole);
    }
}

#[test]
fn the_slowest_command_comes_first() {
    let plan = Plan { messages: vec![5], mail: "small".into(), runs: 1, writes: Some(1.0) };
    let command = |nth: usize, us: u64| Command {
        name: reading()[nth].command.into(),
        count: 2,
        bytes_received: 200,
        latency: Latency { p50_us: us, ..Latency::default() },
        ..Command::default()
    };
    let phase = |state: &str, commands| Seen { name: phase_name(5, state), commands, ..Seen::default() };
    let run = ServerRun {
        phases: vec![
            phase(WARM, vec![command(0, 1_000), command(1, 9_000)]),
            phase(BESIDE, vec![command(1, 12_000)]),
        ],
        ..ServerRun::default()
    };
    let lines = table(&plan, &run);
    assert_eq!((lines.len(), lines[0].command), (reading().len(), reading()[1].command));
    assert_eq!((lines[0].warm_ms, lines[0].first_ms, lines[0].bytes), (Some(9.0), None, 100));
    assert!((lines[0].slowdown().unwrap() - 4.0 / 3.0).abs() < 1e-9);
    assert_eq!((lines[1].command, lines[1].slowdown()), (reading()[0].command, None));
}
