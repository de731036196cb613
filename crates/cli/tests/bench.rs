//! `sealpost bench`: what it lists, runs, writes and refuses.

#[path = "support/run.rs"]
mod run;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use run::Home;
use serde_json::Value;

fn phase<'a>(document: &'a Value, name: &str) -> &'a Value {
    let phases = document["servers"][0]["phases"].as_array().unwrap();
    phases.iter().find(|phase| phase["name"] == name).unwrap_or_else(|| panic!("no {name}: {document}"))
}

fn count(document: &Value, of: &str, command: &str) -> u64 {
    let commands = phase(document, of)["commands"].as_array().unwrap();
    let command = commands
        .iter()
        .find(|c| c["name"] == command)
        .unwrap_or_else(|| panic!("no {command}: {commands:?}"));
    command["count"].as_u64().unwrap()
}

#[test]
fn scenarios_are_listed_shown_and_run_again_from_a_file() {
    let home = Home::new();
    let (list, status) = home.json(&["bench", "list"]);
    assert_eq!(status, 0);
    let names: Vec<_> =
        list["scenarios"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert!(names.len() == 24 && names.contains(&"thunderbird"), "{names:?}");
    assert!(home.ok(&["bench", "list"]).contains("mailbox-100"));
    let (shown, _) = home.json(&["bench", "show", "refresh"]);
    assert_eq!(shown["toml"].as_str().unwrap().trim_end(), home.ok(&["bench", "show", "refresh"]).trim_end());
    assert_eq!(shown["name"], "refresh");
    home.file("mine.toml", home.ok(&["bench", "show", "refresh"]));
    let (document, status) = home.json(&["bench", "run", "mine.toml", "--null", "--set", "repeat=3"]);
    assert_eq!((status, count(&document, "refresh", "CHECK")), (0, 3), "{document}");
    assert_eq!(document["title"], "refresh");
    assert_eq!(document["parameters"]["repeat"], "3");
}

#[test]
fn mistakes_are_explained() {
    let home = Home::new();
    home.file("wrong.toml", "name = \"x\"\n[[phase]]\nstepz = []\n");
    home.file("inbox.toml", "name = \"x\"\n[[phase]]\nsteps = [\"SELECT INBOX\", \"EXPUNGE\"]\n");
    home.file("users", "somebody:secret\n");
    let here = ["--imap", "127.0.0.1:9", "--users-file", "users"];
    for (args, why) in [
        (vec!["run", "fech", "--null"], "there is no scenario fech; is it fetch?"),
        (vec!["run", "wrong.toml", "--null"], "wrong.toml:3: a phase has no key stepz; is it steps?"),
        (vec!["run", "fetch", "--null", "--rate", "5"], "this scenario has no parameter rate"),
        ([&["run", "inbox.toml"][..], &here].concat(), "--write-inbox lets it"),
        (vec!["run", "fetch", "--imap", "127.0.0.1:9"], "no account was given: --users-file FILE"),
        ([&["run", "fetch"][..], &here].concat(), "127.0.0.1:9 cannot be reached: Connection refused"),
        (vec!["run", "login", "--null", "--connections", "0"], "connections is 0"),
        (vec!["run", "fetch", "--null", "--set", "count=0"], "count is 0"),
        (vec!["run", "login", "--sealpost", "--users", "0"], "invalid value '0' for '--users <N>'"),
        (vec!["run", "login", "--null", "--threads", "0"], "invalid value '0' for '--threads <N>'"),
        (vec!["run", "/dev/zero", "--null"], "/dev/zero: too large for a scenario"),
        (vec!["data", "tiny", "--count", "0", "--into", "x"], "0 is not in 1.."),
        ([&["run", "fetch", "--out", "users/report"][..], &here].concat(), "--out users/report"),
        (
            vec!["run", "smtp", "--smtp", "127.0.0.1:9", "--user", "me", "--set", "auth=true"],
            "--password-file",
        ),
        (vec!["run", "fetch", "--imap", "127.0.0.1:9", "--user", "me"], "--password-file"),
        ([&["run", "lmtp", "--write-inbox"][..], &here].concat(), "--lmtp HOST:PORT"),
        ([&["run", "fetch", "--timeout", "0s"][..], &here].concat(), "the timeout must be longer than zero"),
        (vec!["run", "fetch", "--imap", "here:99999", "--users-file", "users"], "is written HOST:PORT"),
        (vec!["run", "fetch", "--imap", ":143", "--users-file", "users"], "is written HOST:PORT"),
        (vec!["run", "fetch", "--null", "--set", "data=tini"], "there is no data set tini; is it tiny?"),
        (
            [&["run", "jmap-sync"][..], &here].concat(),
            "jmap-sync speaks JMAP: where is the server? --jmap URL",
        ),
        ([&["run", "jmap-sync", "--jmap", "127.0.0.1:9"][..], &here].concat(), "is written https://HOST or"),
        (
            [&["run", "jmap-sync", "--jmap", "http://192.0.2.1:9"][..], &here].concat(),
            "the password would cross the network in the clear",
        ),
        (
            [&["run", "jmap-webmail", "--jmap", "http://127.0.0.1:9"][..], &here].concat(),
            "Email/set + EmailSubmission/set",
        ),
        (vec!["compare", "users", "users"], "users: not the result of a benchmark"),
        (vec!["compare", "a,", "b"], "\"a,\": a file without a name"),
        (vec!["show", "nothing"], "there is no scenario nothing"),
        (vec!["data", "tini", "--into", "x"], "is it tiny?"),
    ] {
        let output = home.run(&[&["bench"][..], &args].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(why), "{args:?}: {stderr}");
        // 2: the request is wrong. 1: it could not be done.
        let failed = ["Connection refused", "--out users/report"].contains(&why.rsplit(": ").next().unwrap());
        assert_eq!(output.status.code(), Some(if failed { 1 } else { 2 }), "{args:?}: {stderr}");
        assert!(!stderr.contains("secret"));
    }
}

#[test]
fn data_sets_are_written_and_compared_runs_shown() {
    let home = Home::new();
    let (written, status) = home.json(&["bench", "data", "tiny", "--count", "25", "--into", "Maildir"]);
    assert_eq!((status, written["messages"].as_u64()), (0, Some(25)));
    assert_eq!(std::fs::read_dir(home.path("Maildir/cur")).unwrap().count(), 25);
    for out in ["a", "b"] {
        let text = home.ok(&[
            "bench",
            "run",
            "lmtp",
            "--null",
            "--set",
            "data=Maildir",
            "--set",
            "duration=0.2s",
            "--out",
            out,
        ]);
        assert!(text.contains("DELIVER"), "{text}");
        let page = std::fs::read_to_string(home.path(&format!("{out}/report.html"))).unwrap();
        assert!(page.contains("<svg"));
    }
    let text = home.ok(&["bench", "compare", "a/report.json", "b/report.json"]);
    assert!(text.contains("ratio"), "{text}");
    let text = home.ok(&["bench", "compare", "a/report.json,b/report.json", "b/report.json"]);
    assert!(text.contains("2 runs, medians"), "{text}");
    let twice = "a/report.json,a/report.json";
    let (compared, status) = home.json(&["bench", "compare", twice, "b/report.json"]);
    assert_eq!((status, compared["groups"][0]["runs"].as_u64()), (0, Some(1)), "{compared}");
    let warnings = compared["warnings"].to_string();
    assert!(warnings.contains("given before, and counts once"), "{warnings}");
    let time = compared["figures"].as_array().unwrap().iter().find(|f| f["figure"] == "time").unwrap();
    assert!(time["unit"] == "s" && time["ratios"][0] == 1.0, "{time}");
    home.ok(&["bench", "compare", "a/report.json", "b/report.json", "--out", "both"]);
    let page = std::fs::read_to_string(home.path("both/report.html")).unwrap();
    assert!(page.contains("(a/report.json)") && page.contains("(b/report.json)"), "{page}");
    assert!(home.path("both/report.json").exists());
    let output = home.run(&["bench", "compare", "a/report.json", "b/report.json", "--out", "a"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && stderr.contains("choose another directory"), "{stderr}");
    home.ok(&["bench", "run", "login", "--null", "--set", "repeat=1", "--out", "c"]);
    let output = home.run(&["bench", "compare", "a/report.json", "c/report.json"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && stderr.contains("the same scenario"), "{stderr}");
}

#[test]
fn the_null_server_has_as_many_messages_as_requested() {
    let args =
        ["bench", "run", "fetch", "--null", "--set", "count=10", "--set", "data=tiny", "--set", "distinct=5"];
    let (document, status) = Home::new().json(&args);
    assert_eq!((status, count(&document, "FETCH ALL", "FETCH 1:* ALL")), (0, 5), "{document}");
}

/// Processes that have `text` in their command line.
fn processes(text: &str) -> Vec<u32> {
    let all =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let has = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    all.filter_map(|name| name.parse().ok()).filter(has).collect()
}

#[test]
fn an_interrupted_run_reports_and_leaves_nothing() {
    let home = Home::new();
    home.file("tmp/here", "");
    home.file(
        "long.toml",
        "name = \"long\"\n[[phase]]\nname = \"short\"\nsteps = [\"NOOP\"]\n\
         [[phase]]\nname = \"long\"\nduration = \"10m\"\nthink = \"10ms\"\nsteps = [\"NOOP\"]\n",
    );
    let mut command = home.command(&["bench", "run", "long.toml", "--sealpost"]);
    command.env("TMPDIR", home.path("tmp")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut bench = command.spawn().unwrap();
    let mut notes = BufReader::new(bench.stderr.take().unwrap()).lines();
    assert!(notes.by_ref().any(|line| line.unwrap().starts_with("1/2 short")));
    let data = home.path("tmp/sealpost-bench-").display().to_string();
    let servers = processes(&data);
    assert_eq!(servers.len(), 1);
    // It hears nothing of a Ctrl-C at the bench's terminal.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", servers[0])).unwrap();
    let group = stat.rsplit_once(") ").unwrap().1.split(' ').nth(2).unwrap();
    assert_eq!(group, servers[0].to_string());
    let bench_id = i32::try_from(bench.id()).unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(bench_id).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    let said: Vec<_> = notes.map(Result::unwrap).collect();
    assert!(said.iter().any(|line| line.contains("stopping")), "{said:?}");
    let output = bench.wait_with_output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{report} {said:?}");
    assert!(report.contains("NOOP") && report.contains("stopped before its end"), "{report}");
    assert!(processes(&data).is_empty());
    let left: Vec<_> = std::fs::read_dir(home.path("tmp")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["here"]);
}

#[test]
fn a_server_that_ends_is_reported_and_fails_memory_bounds() {
    let home = Home::new();
    let phase = |name, seconds| {
        format!(
            "[[phase]]\nname = \"{name}\"\nprotocol = \"lmtp\"\nconnections = 0\nduration = \"{seconds}s\"\n\
             bars = [\"peak <= 900MiB\"]\n"
        )
    };
    home.file("quiet.toml", format!("name = \"quiet\"\n{}{}{}", phase("a", 1), phase("b", 4), phase("c", 1)));
    let mut server = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let (pid, out) = (server.id().to_string(), ["--out", "report"]);
    let args =
        ["bench", "run", "quiet.toml", "--lmtp", "127.0.0.1:1", "--user", "me@localhost", "--pid", &pid];
    let mut command = home.command(&[&args[..], &out].concat());
    let mut bench = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut notes = BufReader::new(bench.stderr.take().unwrap()).lines();
    assert!(notes.by_ref().any(|line| line.unwrap().starts_with("1/3 a")));
    // That phase is over, the next has begun. Nothing waits for the server: its remains have no
    // memory, and are no server.
    server.kill().unwrap();
    let said: Vec<_> = notes.map(Result::unwrap).collect();
    let output = bench.wait_with_output().unwrap();
    server.wait().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{report} {said:?}");
    assert!(report.contains("s after the run began, in b: CPU and memory are those until then"), "{report}");
    assert!(report.contains("missed: b: peak <= 900MiB (is not known") && report.contains("missed: c: peak"));
    assert!(!report.contains("missed: a:"), "{report}");
    let document = std::fs::read_to_string(home.path("report/report.json")).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    assert!(self::phase(&document, "a")["server_ended"].is_null(), "{document}");
    assert!(self::phase(&document, "b")["server_ended"].is_number(), "{document}");
    assert!(
        self::phase(&document, "c")["peak_bytes"].is_null() && document["servers"][0]["ended"].is_number()
    );
}

#[test]
fn a_study_needs_its_accounts() {
    let output = Home::new().run(&["bench", "seeds", "--null", "--users", "3"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("16 accounts take part; 3 were given"), "{stderr}");
    assert_eq!(output.status.code(), Some(2));
}

/// Against a server of its own, with all that a scenario may do.
#[test]
fn a_server_of_its_own_is_measured_and_thrown_away() {
    let home = Home::new();
    let common = ["--sealpost", "--users", "2"];
    let run = |args: &[&str]| {
        let (document, status) = home.json(&[&["bench", "run"], args, &common].concat());
        assert_eq!(status, 0, "{document}");
        document
    };
    let fetch = run(&[
        "fetch",
        "--set",
        "data=tiny",
        "--set",
        "count=50",
        "--set",
        "distinct=5",
        "--set",
        "repeat=2",
    ]);
    assert_eq!(count(&fetch, "FETCH BODY[]", "FETCH 1:* BODY.PEEK[]"), 2);
    assert!(phase(&fetch, "FETCH BODY[]")["cpu_seconds"].is_number(), "its processes were watched");
    let idle = run(&["idle", "--connections", "4", "--ramp", "0s", "--set", "still=0s"]);
    assert_eq!(count(&idle, "deliver", "notification"), 4, "two accounts, each with two in IDLE");
    let moved = run(&["reorganize", "--set", "count=20", "--tls", "starttls"]);
    assert_eq!(count(&moved, "move", "MOVE back"), 5);
    let mix = run(&[
        "thunderbird",
        "--set",
        "count=20",
        "--set",
        "data=tiny",
        "--set",
        "think=5ms",
        "--duration",
        "2s",
        "--ramp",
        "0s",
        "--set",
        "arriving=20",
    ]);
    assert!(count(&mix, "people", "LOGIN") >= 4);
}

/// JMAP clients, over the server's HTTP; emails are sent where the server sends.
#[test]
fn jmap_clients_measure_a_server_of_its_own() {
    let home = Home::new();
    let run = |args: &[&str]| {
        let (document, status) =
            home.json(&[&["bench", "run"], args, &["--sealpost", "--users", "2"]].concat());
        assert_eq!(status, 0, "{document}");
        document
    };
    let set = ["--set", "count=25", "--set", "page=10"];
    let sync = run(&[&["jmap-sync", "--duration", "2s"], &set[..]].concat());
    assert_eq!(phase(&sync, "first sync")["messages"], 50);
    assert_eq!(count(&sync, "first sync", "Email/query + Email/get"), 6, "three pages of two accounts");
    assert!(count(&sync, "changes", "Email/changes + Email/get") > 0);
    assert!(count(&sync, "changes", "APPEND, other client") + count(&sync, "changes", "Email/query") > 0);
    let webmail = run(&[&["jmap-webmail", "--set", "repeat=2"], &set[..]].concat());
    for name in
        ["Mailbox/get", "Thread/get + Email/get", "Email/set, move", "Email/query + Email/get, search"]
    {
        assert_eq!(count(&webmail, "webmail", name), 4, "{name}");
    }
    let sending = "Email/set + EmailSubmission/set";
    if !webmail.to_string().contains(&format!("{sending} was left out")) {
        assert_eq!(count(&webmail, "webmail", sending), 4);
    }
    let idle = run(&["jmap-idle", "--connections", "4", "--ramp", "0s", "--set", "still=0s"]);
    assert_eq!(count(&idle, "deliver", "notification"), 4, "two accounts, each with two streams");
}

/// All that real clients were seen to send, beside a writer; and every client's first synchronization.
#[test]
fn commands_of_real_clients_are_answered_completely() {
    let home = Home::new();
    let args = ["bench", "trace", "--messages", "40", "--runs", "2", "--writes", "50"];
    let (document, status) = home.json(&args);
    assert_eq!(status, 0, "{document}");
    let lines = document["trace"].as_array().unwrap();
    assert_eq!(lines.len(), 52);
    for line in lines {
        let times = ["first_ms", "warm_ms", "beside_ms"].map(|state| line[state].is_number());
        assert_eq!(times, [true; 3], "{line}");
    }
    assert_eq!(
        document["servers"][0]["phases"].as_array().unwrap().len(),
        4,
        "the writer is no phase of its own"
    );
    let beside = phase(&document, "40 messages, beside a writer")["commands"].as_array().unwrap();
    assert!(beside.iter().any(|command| command["name"] == "MOVE, writer"), "{beside:?}");
    for client in ["thunderbird", "apple-mail", "k9", "mbsync", "outlook", "gmail"] {
        let args = ["bench", "run", &format!("sync-{client}"), "--sealpost", "--set", "count=30"];
        let (document, status) = home.json(&args);
        assert_eq!(
            (status, &phase(&document, "first sync")["messages"]),
            (0, &Value::from(30)),
            "{client}: {document}"
        );
    }
}

#[test]
fn a_null_trace_measures_the_load_generator_alone() {
    let home = Home::new();
    let (document, status) = home.json(&["bench", "trace", "--null", "--messages", "20", "--runs", "1"]);
    assert_eq!((status, document["trace"].as_array().unwrap().len()), (0, 52), "{document}");
    assert_eq!(home.status(&["bench", "trace", "--null", "--messages", "0"]), 2);
    assert_eq!(home.status(&["bench", "trace", "--null", "--writes", "-1"]), 2);
}

#[test]
fn a_server_that_runs_is_left_as_it_was() {
    let home = Home::with_account();
    let server = home.serve();
    let at = |protocol: &str| format!("127.0.0.1:{}", server.port(protocol));
    let (imap, lmtp) = (at("imap"), at("lmtp"));
    let account = ["--user", run::ACCOUNT, "--password-file", "password"];
    let args = ["bench", "run", "flags", "--imap", &imap, "--set", "count=10", "--set", "repeat=2"];
    let (document, status) = home.json(&[&args[..], &account].concat());
    assert_eq!(status, 0, "{document}");
    assert!(!document.to_string().contains("one and two"), "the password is in no report");
    let args = [
        "bench",
        "run",
        "smtp",
        "--smtp",
        &at("smtp"),
        "--duration",
        "0.3s",
        "--set",
        "data=tiny",
        "--write-inbox",
    ];
    assert_eq!(home.json(&[&args[..], &account].concat()).1, 0);
    let args = [
        "bench",
        "run",
        "submission",
        "--submission",
        &at("submission"),
        "--duration",
        "0.5s",
        "--set",
        "data=tiny",
        "--set",
        "connections=1",
        "--rate",
        "20",
        "--write-inbox",
    ];
    let (document, status) = home.json(&[&args[..], &account].concat());
    assert_eq!(status, 0, "{document}");
    let commands = document["servers"][0]["phases"][0]["commands"].as_array().unwrap();
    for name in ["CONNECT", "AUTH", "MAIL", "RCPT", "DATA", "(message)"] {
        let command = commands.iter().find(|command| command["name"] == name).expect(name);
        assert!(command["count"].as_u64().unwrap() > 0, "{name}");
    }
    let args = [
        "bench",
        "run",
        "lmtp",
        "--lmtp",
        &lmtp,
        "--duration",
        "0.3s",
        "--set",
        "data=tiny",
        "--write-inbox",
    ];
    // LMTP has no logins.
    assert_eq!(home.json(&[&args[..], &account[..2]].concat()).1, 0);
    let jmap = format!("http://127.0.0.1:{}", server.port("http"));
    let args = ["bench", "run", "jmap-sync", "--jmap", &jmap, "--set", "count=10", "--duration", "0.5s"];
    let (document, status) = home.json(&[&args[..], &account].concat());
    assert_eq!(status, 0, "{document}");
    let login = [
        "bench",
        "run",
        "login",
        "--imap",
        &imap,
        "--tls",
        "starttls",
        "--set",
        "repeat=1",
        "--connections",
        "1",
    ];
    let output = home.run(&[&login[..], &account].concat());
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!output.status.success() && said.contains("--ca FILE") && said.contains("--insecure"), "{said}");
    let trusted = [&login[..], &account, &["--ca", "data/tls-certificate.pem"]].concat();
    assert_eq!(home.json(&trusted).1, 0);
    drop(server);
    let (stats, _) = home.json(&["stats", "--account", run::ACCOUNT, "--password-file", "password"]);
    let mailboxes = stats["per_account"][0]["mailboxes"].to_string();
    assert!(!mailboxes.contains("SealpostBench"), "{mailboxes}");
}
