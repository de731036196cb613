use std::collections::BTreeMap;

use super::*;
use crate::load::data::NAMES;

fn with(users: usize, set: &[(&str, &str)]) -> Overrides {
    let set: BTreeMap<_, _> =
        set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Overrides { set, users }
}

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse("x.toml", text, &with(3, &[]))
}

fn built_in(name: &str, overrides: &Overrides) -> Scenario {
    Scenario::parse(name, find(name).unwrap().text, overrides).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn the_built_in_ones_are_sound() {
    for BuiltIn { name, text } in BUILT_IN {
        let scenario = built_in(name, &with(5, &[]));
        assert_eq!(scenario.name, *name);
        assert!(!scenario.about.is_empty() && scenario.about.len() < 120, "{name}");
        assert!(text.contains("[[phase]]"));
        let known = |data: &String| NAMES.iter().any(|(name, _)| name == data);
        assert!(scenario.data().iter().all(known), "{name}");
        let writes = scenario.writes_elsewhere();
        let delivers = ["fill-lmtp", "lmtp", "smtp", "submission", "idle", "jmap-webmail"].contains(name);
        assert_eq!(!writes.is_empty(), delivers, "{name}: {writes:?}");
    }
}

#[test]
fn parameters_change_a_scenario() {
    let scenario = built_in("fill", &with(16, &[("count", "7"), ("rate", "2.5"), ("data", "tiny")]));
    let append = &scenario.phases[1];
    assert_eq!((append.connections, append.extent, append.rate), (16, Extent::Each(7), Some(2.5)));
    assert_eq!(scenario.set.iter().find(|(key, _)| key == "connections").unwrap().1, "16");
    let Action::Append { data, .. } = &append.steps[0].actions[0] else { panic!("no APPEND") };
    assert_eq!(data, "tiny");
}

#[test]
fn a_phase_is_read_whole() {
    let scenario = parse(
        r#"
        name = "x"
        about = "y"
        [[phase]]
        name = "p"
        connections = 4
        duration = "1.5s"
        rate = 10
        arrivals = "constant"
        ramp = "1s"
        pipeline = 8
        first = ["LOGIN", "SELECT {Bench/a}"]
        steps = [
            { do = "UID FETCH {uid:5} (FLAGS)", weight = 3, name = "flags", expect = "5 FETCH" },
            { do = ["NOOP", "WAIT 1s..2s"], weight = 1, times = 2, think = "about 1s", accept = "NO" },
        ]
        last = ["LOGOUT"]
        bars = ["flags p99 <= 250ms"]
        "#,
    )
    .unwrap();
    let phase = &scenario.phases[0];
    assert!(phase.is_weighted());
    assert_eq!((phase.extent, phase.pipeline), (Extent::Time(Duration::from_millis(1500)), 8));
    assert_eq!(phase.steps[0].expect, Some(Expect { count: 5, word: "FETCH".into() }));
    assert_eq!((phase.steps[1].actions.len(), phase.steps[1].times, phase.steps[1].accept_no), (2, 2, true));
    assert_eq!((phase.first.len(), phase.last.len(), phase.bars.len()), (2, 1, 1));
    assert_eq!(scenario.most_connections(), 4);
}

#[test]
fn every_mistake_is_reported_with_its_line() {
    let all = parse("nam = \"x\"\n[[phase]]\nconections = 3\nrepeat = \"often\"\nsteps = [\n  \"SELET INBOX\",\n  \"NOOP\",\n]\n").unwrap_err();
    assert_eq!(
        all.lines().collect::<Vec<_>>(),
        [
            "x.toml:1: a scenario has a name: name = \"…\"",
            "x.toml:1: a scenario has no key nam; is it name?",
            "x.toml:3: a phase has no key conections; is it connections?",
            "x.toml:4: repeat is \"often\"; it should be a whole number such as 1000",
            "x.toml:6: \"SELET INBOX\": there is no command SELET; is it SELECT?",
        ]
    );
}

#[test]
fn each_mistake_has_its_message() {
    let phase = |lines: &str| format!("name = \"x\"\n[[phase]]\n{lines}\n");
    let step = |step: &str| phase(&format!("steps = ['{step}']"));
    let jmap = |step: &str| phase(&format!("protocol = \"jmap\"\nsteps = ['{step}']"));
    for (text, why) in [
        ("name = ".to_owned(), "x.toml:1: "),
        ("name = \"x\"\n".to_owned(), "at least one [[phase]]"),
        ("name = \"x\"\n[phase]\n".to_owned(), "in two pairs of brackets"),
        (phase("protocol = \"pop3\""), "protocol is \"pop3\"; it should be imap or smtp or lmtp"),
        (phase("connections = 1000000"), "from 0 to 100000"),
        (phase("repeat = 1\nduration = \"1s\""), "only one of them"),
        (phase("rate = 0"), "rounds a second"),
        (phase("rate = 5\nthink = \"1s\""), "only one of them"),
        (phase("think = \"often\""), "a mean such as \"about 30s\""),
        (phase("hold = true\nduration = \"1s\""), "clients that hold"),
        (phase("auth = true"), "auth is for"),
        (phase("hold = \"yes\""), "true or false"),
        (phase("alongside = true"), "cannot be alongside"),
        (phase("steps = \"NOOP\""), "steps is a list"),
        (phase("steps = [{ weight = 1 }]"), "says what to do"),
        (phase("steps = [{ do = \"NOOP\", weight = 1 }, \"CHECK\"]"), "either all steps have a weight"),
        (phase("first = [{ do = \"NOOP\", weight = 1 }]"), "only `steps` are drawn"),
        (phase("steps = [{ do = \"NOOP\", expect = \"some\" }]"), "such as \"1000 FETCH\""),
        (phase("bars = [\"quick\"]"), "a bar is written as"),
        (step("IDLE"), "never ends"),
        (step("IDLE soon"), "a time such as"),
        (step("LOGIN me secret"), "LOGIN stands alone"),
        (step("STARTTLS"), "cannot be sent as a line"),
        (step("DELIVER tiny"), "needs `protocol"),
        (step("FILL {Bench/x} many tiny"), "FILL is written as"),
        (step("APPEND {Bench/x}"), "which data set?"),
        (step("APPEND {Bench/x} tiny Seen"), "in parentheses"),
        (step("FETCH {uidd} FLAGS"), "is it {uid}?"),
        (step("a1 NOOP"), "A1 is no command"),
        (step("SELECT {5}"), "literal"),
        (phase("protocol = \"lmtp\"\nsteps = [\"NOOP\"]"), "NOOP is nothing a client of lmtp does"),
        (jmap("FILL INBOX 1 tiny"), "one of the bench's own"),
        (jmap("APPEND {Bench/a/b} tiny"), "without levels: {Bench/x}"),
        (jmap("FILL {Bench/a} 10 tiny distinct 5"), "no `distinct`"),
        (jmap("NOOP"), "NOOP is nothing a client of jmap does here"),
        (jmap("DELIVER tiny"), "with IMAP and JMAP it is APPEND"),
        (jmap("EVENTS"), "EVENTS never ends"),
        (
            jmap(r#"[["Email/query", {"limit": {limit}}]]"#),
            "{position} and {limit} need the step's key batch",
        ),
        (phase("protocol = \"jmap\"\npipeline = 2"), "pipeline is for"),
        ("name = \"x\"\n[set]\nuid = 3\n[[phase]]\n".to_owned(), "uid cannot be the name of a parameter"),
        ("name = \"x\"\n[[phase]]\nname = \"a\"\n[[phase]]\nname = \"a\"\n".to_owned(), "two phases"),
    ] {
        let error = parse(&text).expect_err(&text);
        assert!(error.contains(why), "{text}\n{error}");
    }
    let error =
        Scenario::parse("fill", find("fill").unwrap().text, &with(1, &[("conections", "3")])).unwrap_err();
    assert_eq!(error, "fill:1: this scenario has no parameter conections; is it connections?");
}

#[test]
fn changes_to_existing_mail_are_reported() {
    let writes = |steps: &str| {
        parse(&format!("name = \"x\"\n[[phase]]\nname = \"p\"\nsteps = {steps}\n"))
            .unwrap()
            .writes_elsewhere()
    };
    for harmless in [
        "['SELECT INBOX', 'FETCH 1:* (FLAGS BODY.PEEK[] RFC822.SIZE)', 'UID SEARCH ALL', 'UNSELECT']",
        "['EXAMINE INBOX', 'FETCH 1 BODY[]']",
        "['SELECT {Bench/a}', 'STORE 1:* +FLAGS (x)', 'EXPUNGE', 'CLOSE', 'FETCH 1 BODY[]', 'COPY 1 {Bench/b}']",
        "['FRESH {Bench/a}', 'FILL {Bench/a} 10 tiny', 'APPEND {Bench/a} tiny', 'RENAME {Bench/a} {Bench/b}']",
    ] {
        assert_eq!(writes(harmless), [""; 0], "{harmless}");
    }
    for (harmful, what) in [
        ("['SELECT INBOX', 'STORE 1:* +FLAGS (x)']", "STORE 1:* +FLAGS (x)"),
        ("['SELECT INBOX', 'CLOSE']", "CLOSE"),
        ("['SELECT INBOX', 'UID FETCH 1 BODY[]']", "UID FETCH 1 BODY[]"),
        ("['SELECT INBOX', 'MOVE 1 {Bench/b}']", "MOVE 1 {Bench/b}"),
        ("['SELECT {Bench/a}', 'COPY 1 INBOX']", "COPY 1 INBOX"),
        ("['DELETE Archive']", "DELETE Archive"),
        ("['RENAME INBOX {Bench/a}']", "RENAME INBOX {Bench/a}"),
        ("['APPEND INBOX tiny']", "APPEND into a mailbox that is not the bench's"),
        ("['FRESH INBOX']", "FRESH into a mailbox that is not the bench's"),
        ("['SETACL INBOX fred lrs']", "SETACL INBOX fred lrs"),
        ("['XSOMETHING new']", "XSOMETHING new"),
    ] {
        assert_eq!(writes(harmful), [format!("phase \"p\": {what}")], "{harmful}");
    }
}

#[test]
fn mail_arrives_where_mailboxes_were_filled() {
    for (users, connections, accounts) in [(16, "6", 6), (2, "6", 2)] {
        let scenario = built_in("thunderbird", &with(users, &[("connections", connections)]));
        let clients =
            |name: &str| scenario.phases.iter().find(|phase| phase.name == name).unwrap().connections;
        assert_eq!((clients("fill"), clients("mail arrives")), (accounts, accounts));
        assert_eq!(clients("people").to_string(), connections);
    }
    let taken = parse("name = \"x\"\n[set]\naccounts = 1\n[[phase]]\nsteps = []\n").unwrap_err();
    assert!(taken.contains("accounts cannot be the name of a parameter"), "{taken}");
    let delivers = built_in("smtp", &with(1, &[]));
    assert!(!delivers.logs_in() && built_in("smtp", &with(1, &[("auth", "true")])).logs_in());
}
