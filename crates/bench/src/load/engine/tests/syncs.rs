//! The exact commands of the first synchronisations, to a mailbox of 20 messages.

use super::*;
use crate::load::scenario::find;

/// One transcript after the other, each below the name of its scenario.
const TRANSCRIPTS: &str = include_str!("syncs.txt");

/// The commands that `name` sends, without their tags. Of successive ones that differ only in
/// numbers the first and the last are shown, and how many there were.
fn sent(name: &str) -> Vec<String> {
    let overrides =
        Overrides { set: [("count".to_owned(), "20".to_owned())].into_iter().collect(), users: 1 };
    let mut scenario = Scenario::parse(name, find(name).unwrap().text, &overrides).unwrap();
    scenario.phases.retain(|phase| !phase.setup);
    let seen: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    run_paused(&scenario, recording(seen.clone(), |_| Duration::from_millis(1)));
    let all = seen.lock().unwrap();
    let session = all.iter().find(|session| memchr::memmem::find(session, b" SELECT ").is_some()).unwrap();
    let lines: Vec<String> = String::from_utf8_lossy(session)
        .lines()
        .filter_map(|line| Some(line.split_once(' ')?.1.to_owned()))
        .collect();
    let alike = |a: &String, b: &String| {
        let words = |line: &str| line.replace(|c: char| c.is_ascii_digit(), "0").replace("00", "0");
        a.contains("FETCH ") && words(a) == words(b)
    };
    let runs = lines.chunk_by(alike).flat_map(|run| match run {
        [first, .., last] => vec![first.clone(), format!("… {} such, the last: {last}", run.len())],
        _ => run.to_vec(),
    });
    runs.collect()
}

#[test]
fn first_syncs_send_the_commands_of_their_clients() {
    let mut transcripts: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in TRANSCRIPTS.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(name) => transcripts.push((name, Vec::new())),
            None => transcripts.last_mut().unwrap().1.push(line),
        }
    }
    assert_eq!(transcripts.len(), 6);
    for (name, expected) in transcripts {
        assert_eq!(sent(name), expected, "{name}");
    }
}

#[test]
fn a_first_sync_reports_messages_a_second() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nmessages = 20\nrepeat = 3\nfirst = [\"LOGIN\", \"SELECT {Bench/a}\"]\n\
                steps = [{ do = \"UID FETCH {batch} (UID)\", batch = 8, name = \"f\" }]\n";
    let outcome = run_paused(&scenario(text), recording(Arc::default(), |_| Duration::from_millis(10)));
    let phase = &outcome.phases[0];
    assert_eq!((phase.messages, command(&outcome, "p", "f").count), (Some(60), 9));
    assert!(phase.messages_rate().unwrap() > 100.0, "{:?}", phase.messages_rate());
}
