//! What a client waits for, and what counts into latency.

use super::ends::{Reply, done, scripted};
use super::*;

#[test]
fn answers_between_rounds_count_on_arrival() {
    for waits in ["rate = 10\narrivals = \"constant\"", "think = \"100ms\""] {
        let text = format!(
            "name = \"x\"\n[[phase]]\nname = \"p\"\n{waits}\npipeline = 2\nrepeat = 20\nsteps = [\"NOOP\"]\n"
        );
        let outcome = run_paused(&scenario(&text), recording(Arc::default(), |_| Duration::from_millis(1)));
        let noop = command(&outcome, "p", "NOOP");
        assert_eq!(noop.count, 20, "{waits}");
        assert!(noop.latency.max_us < 5_000, "{waits}: {:?}", noop.latency);
    }
}

#[test]
fn answers_between_steps_count_on_arrival() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\npipeline = 3\nrepeat = 5\n\
                steps = [{ do = \"NOOP\", think = \"2s\" }, \"EXPUNGE\"]\n";
    let outcome = run_paused(&scenario(text), recording(Arc::default(), |_| Duration::from_millis(1)));
    let noop = command(&outcome, "p", "NOOP");
    assert!(noop.count == 5 && noop.latency.max_us < 5_000, "{:?}", noop.latency);
}

/// Sessions that end with their `last(nth)`th NOOP, and with any command after it; 0: with the
/// first command.
fn ending(last: impl Fn(u64) -> u32 + Send + Sync + 'static) -> Target {
    let sessions = AtomicU64::new(0);
    scripted(" ", move || {
        let (mut noops, last) = (0, last(sessions.fetch_add(1, Ordering::SeqCst)));
        move |command: &str| {
            noops += u32::from(command == "NOOP");
            if noops >= last { Reply::Bye("") } else { done() }
        }
    })
}

#[test]
fn a_connection_lost_while_a_client_waits_is_made_again() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nthink = \"1s\"\npipeline = 2\nrepeat = 10\nsteps = [\"NOOP\"]\n";
    let outcome = run_paused(&scenario(text), ending(|_| 2));
    let noop = command(&outcome, "p", "NOOP");
    assert_eq!((noop.count, noop.errors["closed"].count), (5, 5));
    assert_eq!(command(&outcome, "p", "CONNECT").count, 5);
}

#[test]
fn how_long_a_client_backs_off_is_not_the_servers() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nrate = 100\narrivals = \"constant\"\n\
                duration = \"2s\"\nsteps = [\"NOOP\"]\n";
    let outcome = run_paused(&scenario(text), ending(|nth| if nth == 0 { 10 } else { u32::MAX }));
    assert_eq!(command(&outcome, "p", "NOOP").errors["closed"].count, 1);
    let connect = command(&outcome, "p", "CONNECT");
    assert!(connect.count == 2 && connect.latency.max_us < 5_000, "{:?}", connect.latency);
    assert!(command(&outcome, "p", "NOOP").latency.max_us < 5_000);
    assert_eq!(outcome.warnings, ["p: 1 of 200 rounds were not done"]);
}

#[test]
fn rounds_due_after_giving_up_count_as_undone() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nrate = 100\narrivals = \"constant\"\n\
                duration = \"12s\"\nsteps = [\"NOOP\"]\n";
    let outcome = run_paused(&scenario(text), ending(|nth| if nth == 0 { 100 } else { 0 }));
    assert_eq!(command(&outcome, "p", "NOOP").count, 99);
    assert!(
        outcome.warnings.contains(&"p: 1101 of 1200 rounds were not done".to_owned()),
        "{:?}",
        outcome.warnings
    );
    assert!(outcome.warnings.contains(&"p: 1 of 1 clients gave up".to_owned()), "{:?}", outcome.warnings);
}
