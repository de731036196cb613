use std::time::Duration;

use sealpost_base::SystemClock;

use super::*;
use crate::process::{Every, Sampler, Tree};

/// Written by the first version of this format. Never rewritten: stored documents of users look
/// like it.
const KEPT: &str = include_str!("../../tests/data/result-format-1.json");

#[test]
fn a_kept_document_is_still_read() {
    let run = Run::from_json(KEPT).unwrap();
    assert_eq!((run.title.as_str(), run.seed, run.servers.len()), ("reorganize", 7, 2));
    let server = &run.servers[0];
    let copy = server.phase("copy").and_then(|phase| phase.command("COPY")).unwrap();
    assert_eq!((copy.count, copy.errors(), copy.latency.p50_us), (3, 1, 800));
    assert_eq!(copy.errors["NO"].example, "NO [LIMIT] too many");
    assert_eq!(server.phases[0].growth_bytes(), Some(4_000_000));
    assert_eq!(server.samples[0].pss_bytes, Some(30_000_000));
    assert_eq!(run.errors(), 1);
}

#[test]
fn documents_round_trip() {
    let run = Run::from_json(KEPT).unwrap();
    assert_eq!(Run::from_json(&run.to_json().unwrap()).unwrap(), run);
}

#[test]
fn refuses_newer_formats_and_other_documents() {
    assert!(
        Run::from_json(r#"{"format":2,"title":"x","servers":[]}"#)
            .unwrap_err()
            .to_string()
            .contains("format 2")
    );
    assert!(Run::from_json(r#"{"a":1}"#).is_err());
    assert!(Run::from_json("").is_err());
}

#[test]
fn fields_that_are_not_there_have_defaults() {
    let run = Run::from_json(r#"{"format":1,"title":"x","servers":[{"name":"a","phases":[]}]}"#).unwrap();
    assert_eq!(run.servers[0].samples, []);
}

#[test]
fn buckets_out_of_order_or_range_do_no_harm() {
    let text = r#"{"format":1,"title":"x","servers":[{"name":"a","phases":[{"name":"p","begin":0,"end":1,"commands":[
        {"name":"c","count":2,"latency":{"mean_us":1,"p50_us":1,"p90_us":1,"p99_us":1,"p999_us":1,"max_us":1,
         "buckets":[[18446744073709551615,18446744073709551615],[5,1],[5,18446744073709551615]]}}]}]}]}"#;
    let run = Run::from_json(text).unwrap();
    let latency = &run.servers[0].phases[0].commands[0].latency;
    assert!(latency.max_us >= 3_600_000_000 && latency.max_us < 3_610_000_000, "{}", latency.max_us);
    assert_eq!(latency.quantile_us(0.0), 5);
}

#[test]
fn recorders_of_threads_add_up() {
    let mut all = Recorder::new();
    for thread in 0..2u64 {
        let mut one = Recorder::new();
        for millisecond in 1..=500 {
            one.ok("NOOP", Duration::from_millis(thread * 500 + millisecond), 10, 20);
        }
        one.error("NOOP", "NO", || format!("from thread {thread}"));
        all.merge(one);
    }
    assert_eq!(all.counts(), (1000, 2));
    assert_eq!(all.bytes(), (10_000, 20_000));
    let commands = all.finish();
    let noop = &commands[0];
    assert_eq!((noop.name.as_str(), noop.count, noop.errors["NO"].count), ("NOOP", 1000, 2));
    assert_eq!(noop.errors["NO"].example, "from thread 0");
    let near = |value: u64, ms: u64| value.abs_diff(ms * 1000) <= ms;
    assert!(near(noop.latency.p50_us, 500) && near(noop.latency.p99_us, 990), "{:?}", noop.latency);
    assert!(near(noop.latency.max_us, 1000) && near(noop.latency.quantile_us(0.25), 250));
}

#[test]
fn kinds_of_errors_and_their_texts_are_bounded() {
    let mut recorder = Recorder::new();
    for kind in 0..1000 {
        recorder.error("NOOP", &format!("kind {kind}"), || "x".repeat(10_000));
    }
    let command = recorder.finish().remove(0);
    assert_eq!(command.errors(), 1000);
    assert!(
        command.errors.len() <= 17 && command.errors.values().all(|failure| failure.example.len() <= 200)
    );
}

#[test]
fn times_without_end_are_counted_as_an_hour() {
    let mut recorder = Recorder::new();
    recorder.ok("NOOP", Duration::MAX, 0, 0);
    assert!(recorder.finish()[0].latency.max_us.abs_diff(3_600_000_000) < 4_000_000);
}

#[test]
fn this_machine_is_described() {
    let machine = Machine::describe();
    assert!(machine.cores > 0 && machine.memory_bytes > 1 << 20 && !machine.kernel.is_empty());
}

#[test]
fn ended_processes_count_up_to_their_last_sample() {
    let sleep = std::process::Command::new("sleep").arg("60").spawn();
    let mut child = sleep.unwrap();
    let sampler = Sampler::start(Tree::new(child.id()), Every::default(), SystemClock::new());
    let mut phases = [Phase::default(), Phase::default()];
    let mark = sampler.begin();
    child.kill().unwrap();
    child.wait().unwrap();
    phases[0].set_use(mark, sampler.end(mark));
    let mark = sampler.begin();
    phases[1].set_use(mark, sampler.end(mark));
    let [first, after] = phases;
    assert!(first.server_ended.is_some() && first.peak_at_least, "{first:?}");
    assert!(first.peak_bytes > Some(100_000), "{first:?}");
    assert_eq!(after.server_ended, first.server_ended);
    assert_eq!((after.peak_bytes, after.cpu_seconds), (None, None), "no figures instead of zero");
}
