//! Servers that say BYE, never complete an answer, or are not there.

use std::collections::BTreeSet;

use super::*;

/// A server's reply to a line.
pub(super) enum Reply {
    Say(String),
    /// Then closes.
    Bye(&'static str),
    /// This line every second, for a day, and then the completion.
    GoOn(&'static str),
}

/// An IMAP server whose sessions behave as `session`, a new one for each.
pub(super) fn scripted<S>(greeting: &'static str, session: impl Fn() -> S + Send + Sync + 'static) -> Target
where
    S: FnMut(&str) -> Reply + 'static,
{
    let connect = move || {
        let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
        let mut session = session();
        tokio::task::spawn_local(async move {
            if greeting.is_empty() {
                go_on(&mut theirs, "x").await;
            }
            let _ = theirs.write_all(format!("* OK [CAPABILITY IMAP4rev1{greeting}] -\r\n").as_bytes()).await;
            let (mut input, mut buffer) = (Vec::new(), [0; 4096]);
            while let Ok(count @ 1..) = theirs.read(&mut buffer).await {
                input.extend_from_slice(&buffer[..count]);
                while let Some(end) = input.iter().position(|b| *b == b'\n') {
                    let line = String::from_utf8_lossy(&input[..end]).trim_end().to_owned();
                    input.drain(..=end);
                    let (tag, command) = line.split_once(' ').unwrap();
                    let said = match session(command) {
                        Reply::Say(said) => said.replace("TAG", tag),
                        Reply::Bye(said) => {
                            let _ = theirs.write_all(said.as_bytes()).await;
                            return;
                        }
                        Reply::GoOn(said) => {
                            go_on(&mut theirs, said).await;
                            format!("{tag} OK done\r\n")
                        }
                    };
                    let _ = theirs.write_all(said.as_bytes()).await;
                }
            }
        });
        Box::new(ours) as Box<dyn Io>
    };
    let imap = Endpoint { addr: TargetAddr::Inside(Arc::new(connect)), tls: None };
    Target { name: "scripted".into(), imap: Some(imap), users: vec![user("a")], ..Target::default() }
}

async fn go_on(to: &mut (impl tokio::io::AsyncWrite + Unpin), said: &str) {
    for _ in 0..86_400 {
        if to.write_all(said.as_bytes()).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

pub(super) fn done() -> Reply {
    Reply::Say("TAG OK done\r\n".into())
}

/// As Dovecot does: deleting the selected mailbox ends the session.
fn throws_out(mailboxes: &Arc<Mutex<BTreeSet<String>>>) -> impl FnMut(&str) -> Reply + use<> {
    let (mailboxes, mut selected) = (mailboxes.clone(), String::new());
    move |command| {
        let (verb, name) = command.split_once(' ').unwrap_or((command, ""));
        let mut mailboxes = mailboxes.lock().unwrap();
        let fine = match verb {
            "CREATE" => mailboxes.insert(name.into()),
            "DELETE" if name == selected => {
                mailboxes.remove(name);
                return Reply::Bye("* BYE Selected mailbox was deleted\r\n");
            }
            "DELETE" => mailboxes.remove(name),
            "LIST" => return Reply::Say("* LIST () \"/\" \"\"\r\nTAG OK done\r\n".into()),
            "SELECT" | "EXAMINE" => {
                selected = name.into();
                name == "INBOX" || mailboxes.contains(name)
            }
            "UNSELECT" => {
                selected.clear();
                true
            }
            _ => true,
        };
        Reply::Say(format!("TAG {} -\r\n", if fine { "OK" } else { "NO" }))
    }
}

#[test]
fn a_mailbox_is_closed_before_it_is_recreated() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nrepeat = 5\n\
                steps = [\"FRESH {Bench/m}\", \"SELECT {Bench/m}\", \"NOOP\"]\n";
    for greeting in [" ", " UNSELECT"] {
        let mailboxes = Arc::default();
        let outcome = run_paused(&scenario(text), scripted(greeting, move || throws_out(&mailboxes)));
        assert_eq!(command(&outcome, "p", "NOOP").count, 5, "{greeting}");
        assert_eq!(command(&outcome, "p", "LOGIN").count, 1, "{greeting}");
        assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
    }
}

#[test]
fn lost_connections_and_undone_rounds_are_reported() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nrepeat = 3\nsteps = [\"FRESH {Bench/m}\", \"NOOP\"]\n";
    let session = || {
        |command: &str| {
            if command.starts_with("CREATE") { Reply::Bye("* BYE no more\r\n") } else { done() }
        }
    };
    let outcome = run_paused(&scenario(text), scripted(" ", session));
    let lost = &command(&outcome, "p", "(connection)").errors["closed"];
    assert_eq!((lost.count, lost.example.trim()), (3, "BYE no more"));
    assert!(
        outcome.warnings.iter().any(|w| w.contains("3 of 3 rounds were not done")),
        "{:?}",
        outcome.warnings
    );
}

#[test]
fn the_timeout_is_for_a_whole_command() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nsteps = [\"NOOP\"]\n";
    let session =
        || |command: &str| if command == "NOOP" { Reply::GoOn("* OK still working\r\n") } else { done() };
    let outcome = run_paused(&scenario(text), scripted(" ", session));
    assert_eq!(command(&outcome, "p", "NOOP").errors["timeout"].count, 1);
    assert!((60.0..62.0).contains(&outcome.phases[0].seconds()), "{}", outcome.phases[0].seconds());
}

#[test]
fn a_greeting_that_never_ends_is_a_timeout() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nsteps = [\"NOOP\"]\n";
    let outcome = run_paused(&scenario(text), scripted("", || |_: &str| done()));
    assert!(outcome.phases[0].seconds() < 62.0, "{}", outcome.phases[0].seconds());
    let phase = &outcome.phases[0];
    assert_eq!(phase.commands.iter().map(|c| c.count).sum::<u64>(), 0, "{:?}", phase.commands);
    assert_eq!(phase.commands[0].errors["timeout"].count, 1);
}

#[test]
fn a_phase_ends_after_its_duration_and_the_timeout() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nduration = \"3s\"\n\
                steps = [{ do = \"NOOP\", times = 1000 }]\n";
    let pause = |line: &str| if line.ends_with("NOOP") { Duration::from_secs(1) } else { Duration::ZERO };
    let outcome = run_paused(&scenario(text), recording(Arc::default(), pause));
    assert!((62.0..65.0).contains(&outcome.phases[0].seconds()), "{}", outcome.phases[0].seconds());
    assert_eq!(command(&outcome, "p", "NOOP").errors["timeout"].count, 1);
}

/// A server that completes ten rounds a second of the hundred that are due.
fn overloaded(options: &Options) -> Outcome {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nrate = 100\narrivals = \"constant\"\nduration = \"3s\"\nsteps = [\"NOOP\"]\n";
    let pause = |line: &str| if line.ends_with("NOOP") { Duration::from_millis(100) } else { Duration::ZERO };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let clock = Arc::new(Paused(tokio::time::Instant::now()));
        run_here(&scenario(text), recording(Arc::default(), pause), options, clock, &mut Quiet).await.unwrap()
    })
}

#[test]
fn an_excessive_rate_ends_in_time_and_reports_undone_rounds() {
    let outcome = overloaded(&Options::default());
    assert!(outcome.phases[0].seconds() < 3.3, "{}", outcome.phases[0].seconds());
    let all = outcome.warnings.join("\n");
    assert!(all.contains("of 300 rounds were not done"), "{all}");
    assert!(all.contains("does not keep up with the rate") && !all.contains("bottleneck"), "{all}");
    let null = overloaded(&Options { null: true, ..Options::default() }).warnings.join("\n");
    assert!(null.contains("the bench was the bottleneck") && !null.contains("does not keep up"), "{null}");
}

#[test]
fn a_server_that_is_not_there_cannot_be_reached() {
    let text = "name = \"x\"\n[[phase]]\nname = \"p\"\nrate = 100\nrepeat = 50\nconnections = 4\nsteps = [\"NOOP\"]\n";
    let addr = TargetAddr::Unix("/nowhere/at/all".into());
    let imap = Some(Endpoint { addr, tls: None });
    let target = Target { imap, users: vec![user("a")], ..Target::default() };
    let warnings = run_paused(&scenario(text), target.clone()).warnings.join("\n");
    assert!(warnings.contains("the server cannot be reached: No such file"), "{warnings}");
    assert!(!warnings.contains("keep up"), "{warnings}");
    let text = text.replace("NOOP", "SELECT {Bench/m}");
    let why = try_paused(&scenario(&text), target).unwrap_err().to_string();
    assert!(why.starts_with("/nowhere/at/all cannot be reached: No such file"), "{why}");
}
