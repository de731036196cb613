use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use sealpost_base::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::LocalSet;

use super::*;
use crate::load::data::DataSet;
use crate::load::null;
use crate::load::scenario::Overrides;
use crate::load::target::{Endpoint, TargetAddr, User};
use crate::load::wire::Io;

/// Tokio's clock, which tests may pause and advance.
struct Paused(tokio::time::Instant);

impl Clock for Paused {
    fn now(&self) -> Timestamp {
        Timestamp(i64::try_from(self.monotonic().as_millis()).unwrap())
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

#[derive(Default)]
struct Quiet;

impl Observer for Quiet {
    fn begins(&mut self, _: &Phase, _: usize, _: usize) {}
    fn progress(&mut self, _: &Progress) {}
    fn ended(&mut self, _: &Phase, _: &result::Phase) {}
}

fn user(name: &str) -> User {
    User { name: name.into(), password: "secret word".into() }
}

fn scenario(text: &str) -> Scenario {
    Scenario::parse("test", text, &Overrides { users: 1, ..Overrides::default() })
        .unwrap_or_else(|e| panic!("{e}"))
}

/// Runs a scenario with paused time that advances only when all tasks wait.
fn run_paused(scenario: &Scenario, target: Target) -> Outcome {
    try_paused(scenario, target).unwrap()
}

fn try_paused(scenario: &Scenario, target: Target) -> Result<Outcome> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let clock = Arc::new(Paused(tokio::time::Instant::now()));
        run_here(scenario, target, &Options::default(), clock, &mut Quiet).await
    })
}

fn null_target() -> Target {
    Target {
        name: "null".into(),
        imap: Some(null::inside(Protocol::Imap)),
        smtp: Some(null::inside(Protocol::Smtp)),
        lmtp: Some(null::inside(Protocol::Lmtp)),
        submission: Some(null::inside(Protocol::Submission)),
        jmap: Some(null::inside(Protocol::Jmap)),
        users: vec![user("a@localhost"), user("b@localhost")],
    }
}

/// An IMAP server that records the input of every session, and answers after `pause`.
fn recording(
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
    pause: impl Fn(&str) -> Duration + Clone + Send + Sync + 'static,
) -> Target {
    let connect = move || {
        let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
        let (seen, pause) = (seen.clone(), pause.clone());
        let nth = {
            let mut all = seen.lock().unwrap();
            all.push(Vec::new());
            all.len() - 1
        };
        tokio::task::spawn_local(async move {
            theirs.write_all(b"* OK [CAPABILITY IMAP4rev1 LITERAL+] hello\r\n").await.unwrap();
            let mut buffer = [0; 4096];
            let (mut input, mut literal, mut pending) = (Vec::new(), 0, None);
            while let Ok(count @ 1..) = theirs.read(&mut buffer).await {
                seen.lock().unwrap()[nth].extend_from_slice(&buffer[..count]);
                input.extend_from_slice(&buffer[..count]);
                loop {
                    let skipped = input.len().min(literal);
                    input.drain(..skipped);
                    literal -= skipped;
                    let Some(end) = input.iter().position(|b| *b == b'\n').filter(|_| literal == 0) else {
                        break;
                    };
                    let command = String::from_utf8_lossy(&input[..end]).trim_end().to_owned();
                    input.drain(..=end);
                    let command = pending.take().unwrap_or(command);
                    if let Some(open) = command.strip_suffix("+}").and_then(|line| line.rfind('{')) {
                        literal = command[open + 1..command.len() - 2].parse().unwrap();
                        pending = Some(command[..open].to_owned());
                        continue;
                    }
                    let (tag, verb) = command.split_once(' ').unwrap();
                    tokio::time::sleep(pause(&command)).await;
                    let reply = match verb.split(' ').next().unwrap() {
                        "CHECK" => format!("{tag} NO not now\r\n"),
                        "CAPABILITY" => format!("* CAPABILITY IMAP4rev1 LITERAL+\r\n{tag} OK done\r\n"),
                        "SELECT" => format!("* 20 EXISTS\r\n* OK [UIDNEXT 31] -\r\n{tag} OK done\r\n"),
                        "FETCH" => format!(
                            "* 1 FETCH (BODY[] {{4}}\r\n\r\n\r\n)\r\n* 2 FETCH (UID 2)\r\n{tag} OK done\r\n"
                        ),
                        "XCLOSE" => return,
                        _ => format!("{tag} OK done\r\n"),
                    };
                    theirs.write_all(reply.as_bytes()).await.unwrap();
                }
            }
        });
        Box::new(ours) as Box<dyn Io>
    };
    let imap = Endpoint { addr: TargetAddr::Inside(Arc::new(connect)), tls: None };
    Target { name: "recording".into(), imap: Some(imap), users: vec![user("a")], ..Target::default() }
}

fn command<'a>(outcome: &'a Outcome, phase: &str, name: &str) -> &'a result::Command {
    let phase = outcome.phases.iter().find(|p| p.name == phase).unwrap();
    phase.command(name).unwrap_or_else(|| {
        panic!("no {name} in {:?}", phase.commands.iter().map(|c| &c.name).collect::<Vec<_>>())
    })
}

#[test]
fn an_open_loop_charges_a_stall_to_all_due_rounds() {
    // Due every 10 ms; each takes 1 ms except the fifth, which takes a second.
    let count = Arc::new(AtomicU64::new(0));
    let pause = move |command: &str| match command.split(' ').nth(1) {
        Some("NOOP") if count.fetch_add(1, Ordering::SeqCst) == 4 => Duration::from_secs(1),
        Some("NOOP") => Duration::from_millis(1),
        _ => Duration::ZERO,
    };
    let text =
        |rate| format!("name = \"x\"\n[[phase]]\nname = \"p\"\n{rate}\nrepeat = 200\nsteps = [\"NOOP\"]\n");
    let open = scenario(&text("rate = 100\narrivals = \"constant\""));
    let outcome = run_paused(&open, recording(Arc::default(), pause.clone()));
    let noop = &command(&outcome, "p", "NOOP").latency;
    assert_eq!(command(&outcome, "p", "NOOP").count, 200);
    // About a hundred were due while the server stalled, and waited for half a second on average.
    let late = noop.buckets.iter().filter(|(us, _)| *us > 100_000).map(|(_, count)| count).sum::<u64>();
    assert!((90..=120).contains(&late), "{late}: {noop:?}");
    assert!((990_000..1_010_000).contains(&noop.max_us), "{noop:?}");

    let count = Arc::new(AtomicU64::new(0));
    let pause = move |command: &str| match command.split(' ').nth(1) {
        Some("NOOP") if count.fetch_add(1, Ordering::SeqCst) == 4 => Duration::from_secs(1),
        Some("NOOP") => Duration::from_millis(1),
        _ => Duration::ZERO,
    };
    let closed = run_paused(&scenario(&text("")), recording(Arc::default(), pause));
    let noop = &command(&closed, "p", "NOOP").latency;
    let late = noop.buckets.iter().filter(|(us, _)| *us > 100_000).map(|(_, count)| count).sum::<u64>();
    assert_eq!(late, 1, "a closed loop sends after the answer");
}

#[test]
fn the_same_seed_sends_the_same_bytes() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nconnections = 3\nrepeat = 20\nthink = \"about 1s\"\n\
                first = [\"LOGIN\", \"SELECT {Bench/a}\"]\n\
                steps = [{ do = \"UID FETCH {uid:3} (FLAGS)\", weight = 2 }, { do = \"APPEND {Bench/a} tiny\", weight = 1 },\n\
                { do = \"UID SEARCH BODY {word}\", weight = 1 }]\n";
    let bytes = |seed: u64| {
        let seen: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let target = recording(seen.clone(), |_| Duration::from_millis(3));
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let clock = Arc::new(Paused(tokio::time::Instant::now()));
            let options = Options { seed, ..Options::default() };
            run_here(&scenario(text), target, &options, clock, &mut Quiet).await.unwrap();
        });
        let mut all = seen.lock().unwrap().clone();
        all.sort();
        all
    };
    let sent = bytes(7);
    assert!(sent.iter().map(Vec::len).sum::<usize>() > 3000, "{}", String::from_utf8_lossy(&sent.concat()));
    assert_eq!(bytes(7), bytes(7));
    assert_ne!(bytes(7), bytes(8));
}

#[test]
fn replies_are_judged() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nrepeat = 2\nsteps = [\"CHECK\", { do = \"CHECK\", name = \"may\", accept = \"NO\" },\n\
                { do = \"FETCH 1:2 BODY.PEEK[]\", name = \"two\", expect = \"2 FETCH\" }, { do = \"FETCH 1:3 BODY.PEEK[]\", name = \"three\", expect = \"3 FETCH\" },\n\
                \"XCLOSE\"]\n";
    let outcome = run_paused(&scenario(text), recording(Arc::default(), |_| Duration::ZERO));
    let check = command(&outcome, "p", "CHECK");
    assert_eq!((check.count, check.errors["NO"].count, &*check.errors["NO"].example), (0, 2, "NO not now"));
    assert_eq!(command(&outcome, "p", "may").count, 2);
    assert_eq!(command(&outcome, "p", "two").count, 2);
    assert_eq!(command(&outcome, "p", "two").bytes_received, 2 * 61);
    assert_eq!(command(&outcome, "p", "three").errors["wrong"].example, "2 FETCH responses instead of 3");
    assert_eq!(command(&outcome, "p", "XCLOSE").errors["closed"].count, 2);
    assert_eq!(command(&outcome, "p", "LOGIN").count, 2, "it connects again");
}

#[test]
fn clients_of_a_silent_server_time_out_and_give_up() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nrepeat = 100\nsteps = [\"NOOP\"]\n";
    let target = recording(Arc::default(), |command| {
        if command.ends_with("NOOP") { Duration::from_secs(3600) } else { Duration::ZERO }
    });
    let outcome = run_paused(&scenario(text), target);
    assert_eq!(command(&outcome, "p", "NOOP").errors["timeout"].count, 5);
    assert!(outcome.warnings.iter().any(|w| w.contains("1 of 1 clients gave up")), "{:?}", outcome.warnings);
}

#[test]
fn every_built_in_scenario_succeeds_against_the_null_server() {
    for built_in in super::super::scenario::BUILT_IN {
        if ["idle", "jmap-idle"].contains(&built_in.name) {
            // The null server sends no notifications.
            continue;
        }
        // Paused time advances only when all tasks wait: a closed loop would run forever in it.
        let mut set = std::collections::BTreeMap::new();
        if built_in.text.contains("\ndata = ") {
            set.insert("data".to_owned(), "tiny".to_owned());
        }
        if ["lmtp", "smtp", "submission"].contains(&built_in.name) {
            set.insert("rate".to_owned(), "50".to_owned());
        }
        let scenario = Scenario::parse(built_in.name, built_in.text, &Overrides { set, users: 2 }).unwrap();
        let outcome = run_paused(&scenario, null_target());
        let errors: Vec<_> =
            outcome.phases.iter().flat_map(|p| &p.commands).filter(|c| c.errors() > 0).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", built_in.name);
        let done: u64 = outcome.phases.iter().flat_map(|p| &p.commands).map(|c| c.count).sum();
        assert!(done > 0, "{}", built_in.name);
    }
}

#[test]
fn pipelined_commands_are_answered_in_one_round_trip() {
    let text = |pipeline| {
        format!(
            "name = \"x\"\n[[phase]]\nname = \"p\"\npipeline = {pipeline}\nrepeat = 4\nsteps = [{{ do = \"NOOP\", times = 16 }}]\n"
        )
    };
    let took = |pipeline| {
        let outcome =
            run_paused(&scenario(&text(pipeline)), recording(Arc::default(), |_| Duration::from_millis(10)));
        assert_eq!(command(&outcome, "p", "NOOP").count, 64);
        command(&outcome, "p", "NOOP").latency.mean_us
    };
    // This server processes one command at a time, so that later ones wait.
    assert!(took(8) > 4.0 * took(1));
}

#[test]
fn clients_in_idle_stay_while_the_next_phases_run() {
    let text = "name = \"x\"\n[[phase]]\nname = \"idle\"\nconnections = 50\nsteps = [\"IDLE\"]\nhold = true\n\
                [[phase]]\nname = \"still\"\nconnections = 0\nduration = \"10s\"\n\
                [[phase]]\nname = \"more\"\nsteps = [\"NOOP\"]\n";
    let outcome = run_paused(&scenario(text), null_target());
    assert_eq!(command(&outcome, "idle", "IDLE").count, 50);
    let connections: Vec<_> = outcome.phases.iter().map(|p| p.connections).collect();
    assert_eq!(connections, [50, 50, 51]);
    assert!((9.9..10.5).contains(&outcome.phases[1].seconds()), "{}", outcome.phases[1].seconds());
}

#[test]
fn a_failed_setup_phase_ends_the_measurement() {
    let text = "name = \"x\"\n[[phase]]\nname = \"fill\"\nsetup = true\nrepeat = 2\nsteps = [\"CHECK\"]\n\
                [[phase]]\nname = \"p\"\nsteps = [\"NOOP\"]\n";
    let seen: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let target = recording(seen.clone(), |_| Duration::ZERO);
    let why = try_paused(&scenario(text), target).unwrap_err().to_string();
    assert_eq!(
        why,
        "the preparations failed: fill: 2 errors, such as CHECK: NO: NO not now; nothing was measured"
    );
    assert!(!String::from_utf8_lossy(&seen.lock().unwrap().concat()).contains("NOOP"));
}

#[test]
fn no_more_clients_than_are_wanted_are_there_at_once() {
    let text = |at_once| {
        format!(
            "name = \"x\"\n[[phase]]\nname = \"p\"\nconnections = 50\n{at_once}\nthink = \"1s\"\nsteps = [\"NOOP\"]\n"
        )
    };
    let phase = |at_once| {
        let outcome = run_paused(&scenario(&text(at_once)), null_target());
        assert_eq!(command(&outcome, "p", "NOOP").count, 50);
        outcome.phases[0].clone()
    };
    let (all, few) = (phase(""), phase("at_once = 4"));
    assert_eq!((all.connections, few.connections), (50, 4));
    assert!(all.seconds() < 2.0, "{}", all.seconds());
    assert!((13.0..14.0).contains(&few.seconds()), "{}", few.seconds());
    let bad = text("at_once = 4").replace("steps", "rate = 5\nsteps").replace("think = \"1s\"\n", "");
    assert!(Scenario::parse("test", &bad, &Overrides::default()).unwrap_err().contains("at_once is for"));
}

mod ends;
mod foreign;
mod jmap;
mod syncs;
mod waits;
