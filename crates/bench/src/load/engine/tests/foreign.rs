//! Servers of another kind than expected, or without support for a scenario: one plain line reports
//! which.

use super::ends::{Reply, done, scripted};
use super::*;
use crate::load::scenario::{Action, Step};

/// A server that sends this greeting and reads.
fn greets(said: &'static str) -> Endpoint {
    let connect = move || {
        let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
        tokio::task::spawn_local(async move {
            let _ = theirs.write_all(said.as_bytes()).await;
            let mut buffer = [0; 4096];
            while let Ok(1..) = theirs.read(&mut buffer).await {}
        });
        Box::new(ours) as Box<dyn Io>
    };
    Endpoint { addr: TargetAddr::Inside(Arc::new(connect)), tls: None }
}

/// An SMTP server that greets and answers every line by `reply`.
fn smtp(reply: fn(&str) -> &'static str) -> Target {
    let connect = move || {
        let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
        tokio::task::spawn_local(async move {
            let _ = theirs.write_all(b"220 hello\r\n").await;
            let (mut input, mut buffer) = (Vec::new(), [0; 4096]);
            while let Ok(count @ 1..) = theirs.read(&mut buffer).await {
                input.extend_from_slice(&buffer[..count]);
                while let Some(end) = input.iter().position(|b| *b == b'\n') {
                    let line = String::from_utf8_lossy(&input[..end]).trim_end().to_owned();
                    input.drain(..=end);
                    let _ = theirs.write_all(format!("{}\r\n", reply(&line)).as_bytes()).await;
                }
            }
        });
        Box::new(ours) as Box<dyn Io>
    };
    let smtp = Endpoint { addr: TargetAddr::Inside(Arc::new(connect)), tls: None };
    Target { name: "x".into(), smtp: Some(smtp), users: vec![user("a")], ..Target::default() }
}

fn with_imap(imap: Endpoint) -> Target {
    Target { name: "x".into(), imap: Some(imap), users: vec![user("a")], ..Target::default() }
}

const NOOP: &str = "name = \"x\"\n[[phase]]\nname = \"p\"\nsteps = [\"NOOP\"]\n";
const DELIVER: &str =
    "name = \"x\"\n[[phase]]\nname = \"p\"\nprotocol = \"smtp\"\nauth = true\nsteps = [\"DELIVER tiny\"]\n";

#[test]
fn a_server_of_another_protocol_is_recognized_at_once() {
    let outcome = run_paused(&scenario(NOOP), with_imap(greets("220 mx.example ESMTP\r\n")));
    let warnings = outcome.warnings.join("\n");
    let wanted = "no client got in: this is no IMAP server, it says \"220 mx.example ESMTP\"";
    assert!(warnings.contains(wanted) && !warnings.contains("cannot be reached"), "{warnings}");
    assert!(outcome.phases[0].seconds() < 30.0, "no client waits for the timeout");
    let mailbox = scenario(&NOOP.replace("NOOP", "SELECT {Bench/m}"));
    let why = try_paused(&mailbox, with_imap(greets("220 mx.example ESMTP\r\n"))).unwrap_err().to_string();
    assert_eq!(why, "within the bench: this is no IMAP server, it says \"220 mx.example ESMTP\"");
}

#[test]
fn a_silent_server_may_expect_tls() {
    let imap = run_paused(&scenario(NOOP), with_imap(greets("")));
    let deliver = scenario(DELIVER);
    let smtp = run_paused(&deliver, Target { imap: None, smtp: Some(greets("")), ..with_imap(greets("")) });
    for outcome in [imap, smtp] {
        let failure = &command(&outcome, "p", "CONNECT").errors["timeout"];
        assert!(failure.example.contains("is this a port with implicit TLS"), "{failure:?}");
    }
}

/// As Cyrus does: a mailbox deleted a moment ago cannot be deleted again, and an existing one
/// cannot be created.
fn deletes_once(
    mailboxes: &Arc<Mutex<Vec<(String, u32)>>>,
    deleted: &Arc<AtomicU64>,
) -> impl FnMut(&str) -> Reply + use<> {
    let (mailboxes, deleted) = (mailboxes.clone(), deleted.clone());
    let (mut selected, mut flagged) = (String::new(), false);
    move |line| {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let name = rest.trim_matches('"').to_owned();
        let mut mailboxes = mailboxes.lock().unwrap();
        let at = mailboxes.iter().position(|(other, _)| *other == name);
        let there =
            |name: &str| mailboxes.iter().find(|(other, _)| other == name).map_or(0, |(_, count)| *count);
        match (verb, at) {
            ("CREATE", Some(_)) => return Reply::Say("TAG NO Mailbox already exists\r\n".into()),
            ("CREATE", None) if !name.contains("forbidden") => mailboxes.push((name, 7)),
            ("CREATE", None) => return Reply::Say("TAG NO Permission denied\r\n".into()),
            ("DELETE", Some(at)) if deleted.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) => {
                mailboxes.remove(at);
            }
            ("DELETE", _) => return Reply::Say("TAG NO not so soon\r\n".into()),
            ("SELECT", None) => return Reply::Say("TAG NO no such mailbox\r\n".into()),
            ("SELECT", Some(_)) => {
                selected.clone_from(&name);
                return Reply::Say(format!("* {} EXISTS\r\nTAG OK -\r\n", there(&name)));
            }
            ("STORE", _) => flagged = rest == "1:* +FLAGS.SILENT (\\Deleted)",
            ("EXPUNGE", _) if flagged => {
                mailboxes.iter_mut().filter(|(name, _)| *name == selected).for_each(|(_, count)| *count = 0);
            }
            ("LIST", _) if rest.contains('*') => {
                let lines = mailboxes.iter().map(|(name, _)| format!("* LIST () \"/\" {name}\r\n"));
                return Reply::Say(format!("{}TAG OK -\r\n", lines.collect::<String>()));
            }
            ("LIST", _) => return Reply::Say("* LIST () \"/\" \"\"\r\nTAG OK -\r\n".into()),
            _ => {}
        }
        done()
    }
}

#[test]
fn a_mailbox_that_cannot_be_deleted_is_emptied() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nrepeat = 5\nsteps = [\"FRESH {Bench/m}\", \"NOOP\"]\n";
    let (mailboxes, deleted) = (Arc::default(), Arc::new(AtomicU64::new(1)));
    let there: Arc<Mutex<Vec<(String, u32)>>> = Arc::clone(&mailboxes);
    let outcome = run_paused(&scenario(text), scripted(" ", move || deletes_once(&mailboxes, &deleted)));
    assert_eq!(command(&outcome, "p", "FRESH").count, 5, "{:?}", outcome.phases[0].commands);
    // Created, found undeletable and emptied, deleted and created again, and so on.
    assert_eq!(*there.lock().unwrap(), [("SealpostBench/m".to_owned(), 7)]);
    let text = text.replace("repeat = 5", "repeat = 2");
    let (mailboxes, deleted) = (Arc::default(), Arc::new(AtomicU64::new(1)));
    let there: Arc<Mutex<Vec<(String, u32)>>> = Arc::clone(&mailboxes);
    run_paused(&scenario(&text), scripted(" ", move || deletes_once(&mailboxes, &deleted)));
    assert_eq!(*there.lock().unwrap(), [("SealpostBench/m".to_owned(), 0)]);
}

#[test]
fn a_refused_create_is_reported_with_its_reason() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nsteps = [\"FRESH {Bench/forbidden}\"]\n";
    let (mailboxes, deleted) = (Arc::default(), Arc::default());
    let outcome = run_paused(&scenario(text), scripted(" ", move || deletes_once(&mailboxes, &deleted)));
    let failure = &command(&outcome, "p", "FRESH").errors["NO"];
    assert_eq!(failure.example, "CREATE SealpostBench/forbidden: Permission denied");
}

#[test]
fn leftover_mailboxes_are_retried_then_reported() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nsteps = [\"FRESH {Bench/m}\", \"NOOP\"]\n";
    let mut cleaned = scenario(text);
    cleaned.phases[0].steps.push(Step::plain(Action::Clean));
    let (mailboxes, deleted) = (Arc::default(), Arc::new(AtomicU64::new(1)));
    let there: Arc<Mutex<Vec<(String, u32)>>> = Arc::clone(&mailboxes);
    let outcome = run_paused(&cleaned, scripted(" ", move || deletes_once(&mailboxes, &deleted)));
    assert_eq!(*there.lock().unwrap(), []);
    assert!(outcome.phases[0].commands.iter().all(|c| c.errors() == 0), "{:?}", outcome.phases[0].commands);
    let never = || {
        |line: &str| match line.split(' ').next() {
            Some("LIST") => Reply::Say("* LIST () \"/\" SealpostBench/m\r\nTAG OK -\r\n".into()),
            Some("DELETE") => Reply::Say("TAG NO never\r\n".into()),
            _ => done(),
        }
    };
    let outcome = run_paused(&cleaned, scripted(" NAMESPACE", never));
    let said = format!("{:?}", outcome.phases[0].commands);
    assert!(said.contains("a mailbox is left: DELETE SealpostBench/m: never"), "{said}");
}

#[test]
fn idle_clients_leave_when_the_phase_ends() {
    let text = |step: &str| {
        format!(
            "name = \"x\"\n[[phase]]\nname = \"p\"\nconnections = 3\nduration = \"10s\"\nsteps = [\"NOOP\", \"{step}\"]\n"
        )
    };
    for step in ["IDLE 8s", "IDLE 30s until notified", "IDLE until notified", "WAIT 30s"] {
        let outcome = run_paused(&scenario(&text(step)), null_target());
        let seconds = outcome.phases[0].seconds();
        assert!((9.9..10.5).contains(&seconds), "{step}: {seconds}");
        let ended = outcome.phases[0].command("DONE").map_or(0, |done| done.count);
        assert_eq!(
            ended,
            if step == "IDLE 8s" { 3 } else { 0 },
            "who is sent away together measures nothing"
        );
    }
}

#[test]
fn a_server_that_does_nothing_takes_all_that_is_appended() {
    let text =
        "name = \"x\"\n[[phase]]\nname = \"p\"\nrepeat = 10\nsteps = [\"APPEND {Bench/m} mailbox-100\"]\n";
    let data = DataSet::open("mailbox-100", 1).unwrap();
    let bytes: usize = (0..10).map(|nth| data.message(nth).len()).sum();
    let outcome = run_paused(&scenario(text), null_target());
    let append = command(&outcome, "p", "APPEND");
    assert!(append.bytes_sent > bytes as u64, "{} of {bytes}", append.bytes_sent);
}

#[test]
fn an_append_answered_early_is_an_error() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nsteps = [\"APPEND {Bench/m} tiny\"]\n";
    let list = |line: &str| match line.split(' ').next() {
        Some("LIST") => Reply::Say("* LIST () \"/\" \"\"\r\nTAG OK -\r\n".into()),
        _ => done(),
    };
    let outcome = run_paused(&scenario(text), scripted(" ", move || list));
    let failure = &command(&outcome, "p", "APPEND").errors["wrong"];
    assert_eq!(failure.example, "it was answered before all of it was sent: OK done");
}

#[test]
fn smtp_login_failures_name_the_reason() {
    let said = |reply: fn(&str) -> &'static str| {
        let outcome = run_paused(&scenario(DELIVER), smtp(reply));
        let errors = &command(&outcome, "p", "CONNECT").errors;
        let (kind, failure) = errors.iter().next().unwrap();
        format!("{kind}: {}", failure.example)
    };
    let none = said(|_| "250 fine");
    assert_eq!(
        none,
        "denied: the server does not offer AUTH PLAIN; perhaps it does with TLS (--tls starttls)"
    );
    let refused = |line: &str| if line.starts_with("AUTH") { "535 no" } else { "250 AUTH LOGIN PLAIN" };
    assert_eq!(said(refused), "denied: AUTH: 535 no");
    let later = |line: &str| if line.starts_with("AUTH") { "454 not now" } else { "250 AUTH=PLAIN" };
    assert_eq!(said(later), "later: AUTH: 454 not now");
    let other = |line: &str| if line.starts_with("AUTH") { "235 in" } else { "250 AUTH CRAM-MD5 PLAINER" };
    assert!(said(other).contains("does not offer AUTH PLAIN"));
}

#[test]
fn missing_idle_notifications_do_not_block_a_run() {
    let text = "name = \"x\"\n[[phase]]\nname = \"idle\"\nconnections = 40\nsteps = [\"IDLE\"]\nhold = true\n\
                [[phase]]\nname = \"deliver\"\nprotocol = \"lmtp\"\ntotal = 40\nsteps = [{ do = \"DELIVER tiny\", notified = true }]\n";
    let users = (0..40).map(|nth| user(&format!("user{nth}"))).collect();
    let outcome = run_paused(&scenario(text), Target { users, ..null_target() });
    assert_eq!(command(&outcome, "deliver", "notification").errors["timeout"].count, 5);
    assert!(outcome.phases[1].seconds() < 60.0, "{}", outcome.phases[1].seconds());
    let warnings = outcome.warnings.join("\n");
    assert!(warnings.contains("deliver: 36 of 40 rounds were not done"), "{warnings}");
}

#[test]
fn a_thread_waiting_for_a_processor_is_a_bottleneck() {
    let second = Duration::from_secs(1);
    let said = |cpu: f64, waited: f64| {
        let busy = Busy { cpu: second.mul_f64(cpu), waited: second.mul_f64(waited) };
        bottleneck(&[Busy::default(), busy], second).unwrap_or_default()
    };
    assert!(said(0.95, 0.0).contains("busy 95% of the time (--threads"));
    assert!(said(0.4, 0.5).contains("had work 90% of the time and a processor 40% of it"));
    assert_eq!(said(0.4, 0.4), "");
}
