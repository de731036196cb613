//! `sealpost queue` and `sealpost trace` on a queue that a node runs.

#[path = "support/run.rs"]
mod run;
#[path = "support/running_queue.rs"]
mod running_queue;

use run::{ACCOUNT, Home};
use running_queue::{NODE, RunningQueue};
use sealpost_queue::state::Flags;
use sealpost_server::sending::tls_sessions::{
    AppliedPolicy, PolicyKind, PolicySessions, SessionFailure, TlsDay,
};
use serde_json::Value;

fn started() -> (Home, RunningQueue) {
    let home = Home::with_account();
    let queue = RunningQueue::start(&home.path("data"));
    (home, queue)
}

fn ids(list: &Value) -> Vec<&str> {
    list["mails"].as_array().unwrap().iter().map(|mail| mail["id"].as_str().unwrap()).collect()
}

#[test]
fn each_mail_is_listed_with_why_it_waits() {
    let (home, queue) = started();
    let first = queue.accept(ACCOUNT, &["joe@one.example", "ann@two.example"], "<1@example.org>").to_string();
    let second = queue.accept("list@example.net", &["bob@one.example"], "<2@example.net>").to_string();
    let text = home.ok(&["queue", "list"]);
    assert_eq!(text.lines().count(), 2, "{text}");
    let line = text.lines().next().unwrap();
    for part in
        [&first, ACCOUNT, "joe@one.example, ann@two.example", "1 attempt", "one.example", "; until 20"]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
    let (list, _) = home.json(&["queue", "list"]);
    assert_eq!(list["mails"][0]["node"], NODE);
    assert!(list["mails"][0]["until"].is_string() && list["mails"][0]["left"] == 2);
    for (args, expected) in [
        (["--domain", "two.example"], vec![first.as_str()]),
        (["--domain", "one.example"], vec![&first, &second]),
        (["--sender", "@example.NET"], vec![&second]),
        (["--sender", "nobody@example.org"], vec![]),
        // Where the last attempt for a recipient failed.
        (["--site", "One.Example."], vec![&first, &second]),
        (["--site", "two.example"], vec![&first]),
        (["--site", "mx.two.example"], vec![]),
        ([&first, "Q99"], vec![&first]),
        ([&second, "--sender=@example.org"], vec![]),
        (["--limit", "1"], vec![&first]),
        (["--node", NODE], vec![&first, &second]),
    ] {
        let (list, _) = home.json(&[&["queue", "list"][..], &args].concat());
        assert_eq!(ids(&list), expected, "{args:?}");
        assert_eq!(list["has_more"], args[0] == "--limit");
    }
    assert!(home.ok(&["queue", "list", "--limit", "1"]).contains("the first 1 of 2 mails"));
    assert_eq!(home.status(&["queue", "list", "--node", "other"]), 3);
    // A variable that is not set must not select the reports, whose sender is empty.
    assert_eq!(home.status(&["queue", "remove", "--sender", ""]), 2);
    assert_eq!(home.status(&["queue", "suspend", "--domain", ""]), 2);

    let (summary, _) = home.json(&["queue", "list", "--summary"]);
    let counts: u64 = summary[0]["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|reason| reason["mails"].as_u64().unwrap())
        .sum();
    assert_eq!((counts, &summary[0]["accepted"], &summary[0]["node"]), (2, &2.into(), &NODE.into()));
    assert_eq!(summary[0]["domains"][0]["what"], "one.example");
    assert!(home.ok(&["queue", "list", "--summary"]).contains("the oldest since 20"));
}

#[test]
fn a_mail_is_shown_with_its_recipients_and_history() {
    let (home, queue) = started();
    let id = queue.accept(ACCOUNT, &["joe@one.example", "ann@two.example"], "<1@example.org>");
    queue.delivered(id, 1);
    let (shown, _) = home.json(&["queue", "show", &id.to_string()]);
    let mail = &shown[0];
    assert_eq!((&mail["from"], &mail["attempts"]), (&ACCOUNT.into(), &2.into()), "{mail}");
    assert_eq!(mail["recipients"][0]["state"], "left");
    assert!(mail["recipients"][0]["last"].as_str().unwrap().contains("one.example"));
    assert_eq!(mail["recipients"][1]["state"], "done");
    let steps: Vec<_> = mail["steps"].as_array().unwrap().iter().map(|step| step["what"].as_str()).collect();
    assert_eq!(steps, [Some("deferred"), Some("deferred"), Some("delivered")]);
    let text = home.ok(&["queue", "show", &id.to_string()]);
    for part in ["Message-ID  <1@example.org>", "  ann@two.example: done", "expires     20"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for criterion in ["--site=one.example", "--domain=one.example", &format!("--sender={ACCOUNT}")] {
        let (shown, _) = home.json(&["queue", "show", criterion]);
        assert_eq!(shown[0]["id"], id.to_string(), "{criterion}: {shown}");
    }
    assert_eq!(home.json(&["queue", "show", "--domain=three.example"]).0.as_array().map(Vec::len), Some(0));
    assert_eq!(home.status(&["queue", "show"]), 2, "which?");
    assert_eq!(home.status(&["queue", "show", "Q99"]), 3);
    assert_eq!(home.status(&["queue", "show", "99"]), 2);
}

#[test]
fn mail_is_held_released_bounced_and_removed() {
    let (home, queue) = started();
    let first = queue.accept(ACCOUNT, &["joe@one.example"], "<1@example.org>").to_string();
    let second = queue.accept(ACCOUNT, &["joe@two.example"], "<2@example.org>").to_string();
    let third = queue.accept("list@example.net", &["joe@two.example"], "<3@example.org>").to_string();
    let done = |args: &[&str], mails: u64| {
        let (asked, status) = home.json(&[&["queue"], args].concat());
        assert_eq!(
            (status, &asked[0]["came"], &asked[0]["mails"]),
            (0, &"done".into(), &mails.into()),
            "{asked}"
        );
    };
    let why = |id: &str| home.json(&["queue", "show", id]).0[0]["why"].as_str().unwrap().to_owned();
    done(&["hold", &first, "--for", "2h"], 1);
    assert_eq!(why(&first), "held by the operator");
    done(&["retry", "--all"], 3);
    assert_eq!(why(&first), "held by the operator", "to retry is not to release");
    done(&["release", &first], 1);
    assert_ne!(why(&first), "held by the operator");
    done(&["hold", "--domain", "two.example", "--sender", "list@example.net"], 1);
    assert!(why(&third).starts_with("held") && !why(&second).starts_with("held"));
    done(&["remove", "--sender", "list@example.net"], 1);
    // What was bounced is reported to its sender, by a mail in the same queue.
    done(&["bounce", "--domain", "one.example"], 1);
    assert_eq!(home.status(&["queue", "show", &first]), 3);
    let (list, _) = home.json(&["queue", "list", "--sender", "<>"]);
    assert_eq!(list["mails"][0]["recipients"][0], ACCOUNT);
    let text = home.ok(&["queue", "retry", &second]);
    assert_eq!(text, format!("{NODE}: sends 1 mail now, but for held mail\n"));

    for (wrong, status) in [
        (&["retry"][..], 2),
        (&["remove", "--all", "--domain", "x.example"], 2),
        (&["hold", &second, "--for", "31d"], 2),
        (&["hold", &second, "--for", "soon"], 2),
        (&["release", &first], 3),
    ] {
        assert_eq!(home.status(&[&["queue"], wrong].concat()), status, "{wrong:?}");
    }
}

#[test]
fn rules_hold_matching_mail_until_they_are_removed() {
    let (home, queue) = started();
    let first = queue.accept(ACCOUNT, &["joe@one.example"], "<1@example.org>");
    let note = ["--for", "1h", "--note", "they are down"];
    let (asked, status) = home.json(&[&["queue", "suspend", "--domain", "One.example"][..], &note].concat());
    assert_eq!((status, &asked[0]["rule"]), (0, &1.into()), "{asked}");
    home.ok(&["queue", "retry", &first.to_string()]);
    let held = |id: &str| home.json(&["queue", "show", id]).0[0]["why"] == "held by rule 1: they are down";
    // The rule holds what is queued when it is due.
    queue.until(|state| state.rows().get(first).unwrap().flags.has(Flags::HELD));
    assert!(held(&first.to_string()));
    let summary = home.ok(&["queue", "list", "--summary"]);
    assert!(summary.contains("rule 1: holds mail to one.example until 20"), "{summary}");
    assert_eq!(home.status(&["queue", "resume", "7"]), 3);
    assert_eq!(home.status(&["queue", "resume"]), 2);
    let resumed = home.ok(&["queue", "resume", "--domain", "one.example"]);
    assert!(resumed.contains("has withdrawn 1 rule"), "{resumed}");
    assert!(!held(&first.to_string()));
    assert_eq!(home.json(&["queue", "list", "--summary"]).0[0]["rules"], Value::Array(vec![]));
}

#[test]
fn the_whole_queue_is_held_and_released() {
    let (home, queue) = started();
    let id = queue.accept(ACCOUNT, &["joe@one.example"], "<1@example.org>").to_string();
    home.ok(&["queue", "hold", "--all", "--note", "looking"]);
    let shown = home.json(&["queue", "show", &id]).0;
    assert_eq!(shown[0]["why"], "the queue is on hold: looking");
    let listed = home.run(&["queue", "list"]);
    assert!(String::from_utf8_lossy(&listed.stderr).contains("the queue is on hold: looking"));
    assert_eq!(home.ok(&["queue", "release", "--all"]), format!("{NODE}: sends again\n"));
    assert!(home.json(&["queue", "list", "--summary"]).0[0]["on_hold"].is_null());
}

#[test]
fn a_mail_is_traced_after_delivery_and_restarts() {
    let (home, mut queue) = started();
    let first = queue.accept(ACCOUNT, &["joe@one.example"], "<1@example.org>");
    queue.delivered(first, 0);
    for n in 0..3 {
        queue.trim();
        queue.accept(ACCOUNT, &["ann@two.example"], &format!("<more{n}@example.org>"));
        queue.stop();
        queue = RunningQueue::start(&home.path("data"));
    }
    queue.stop();
    for wanted in ["joe@one.example", "<1@example.org>", "1@example.org", &first.to_string()] {
        let (trace, status) = home.json(&["trace", wanted]);
        assert_eq!((status, ids(&trace)), (0, vec![first.to_string().as_str()]), "{wanted}");
        let steps = trace["mails"][0]["steps"].as_array().unwrap();
        let what: Vec<_> = steps.iter().map(|step| step["what"].as_str().unwrap()).collect();
        assert_eq!((what, &trace["mails"][0]["queued"]), (vec!["deferred", "delivered"], &false.into()));
    }
    let text = home.ok(&["trace", "joe@one.example"]);
    let delivered =
        "joe@one.example: delivered to its server: mx.there.example replied: 250 2.0.0 queued as 7";
    assert!(text.contains("accepted (submission)") && text.contains(delivered), "{text}");
    let (trace, _) = home.json(&["trace", "@two.example", "--limit", "2"]);
    assert_eq!((ids(&trace).len(), &trace["has_more"]), (2, &true.into()));
    assert!(home.ok(&["trace", "ann@two.example"]).contains("still queued: "));
    assert_eq!(home.status(&["trace", "nobody@one.example"]), 3);
    assert_eq!((home.status(&["trace", "<>"]), home.status(&["trace", ""])), (3, 2), "no report was sent");
}

#[test]
fn a_node_that_does_not_run_is_reported() {
    let (home, queue) = started();
    let id = queue.accept(ACCOUNT, &["joe@one.example"], "<1@example.org>").to_string();
    queue.stop();
    let (asked, status) = home.json(&["queue", "remove", &id]);
    assert_eq!((status, &asked[0]["came"]), (75, &"waiting".into()), "{asked}");
    assert_eq!(home.json(&["queue", "list"]).0["queued"], 1);
    // It does it when it runs.
    let queue = RunningQueue::start(&home.path("data"));
    queue.until(sealpost_queue::State::is_empty);
}

#[test]
fn without_a_queue_or_its_key_that_is_said() {
    let home = Home::with_account();
    let none = home.run(&["queue", "list"]);
    assert_eq!(none.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&none.stderr).contains("there is no queue"), "{none:?}");
    RunningQueue::start(&home.path("data")).stop();
    assert_eq!(home.ok(&["queue", "list"]), "the queue is empty\n");
    std::fs::remove_file(home.path("data/mail.key")).unwrap();
    let missing = home.run(&["queue", "list"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("mail.key is missing"), "{missing:?}");
}

/// Changes a byte in the middle of an object.
fn damage(home: &Home, path: &str) {
    let database = rusqlite::Connection::open(home.path("data/objects.sqlite")).unwrap();
    let head: Vec<u8> =
        database.query_row("SELECT head FROM objects WHERE path = ?1", [path], |row| row.get(0)).unwrap();
    let mut damaged = head.clone();
    let at = damaged.len() / 2;
    damaged[at] ^= 4;
    database.execute("UPDATE objects SET head = ?2 WHERE path = ?1", (path, damaged)).unwrap();
}

/// The last object like `pattern`.
fn object(home: &Home, pattern: &str) -> String {
    let database = rusqlite::Connection::open(home.path("data/objects.sqlite")).unwrap();
    let query = "SELECT path FROM objects WHERE path LIKE ?1 ORDER BY path DESC LIMIT 1";
    database.query_row(query, [pattern], |row| row.get(0)).unwrap()
}

#[test]
fn check_reads_the_queue_and_names_damaged_objects() {
    for pattern in
        ["queue/%/log/%", "queue/%/history/%", "queue/%/segment/%", "queue/%/snap/%", "domains/%/dkim/%"]
    {
        let (home, queue) = started();
        home.ok(&["domain", "add", "example.org"]);
        queue.accept(ACCOUNT, &["joe@one.example"], "<1@example.org>");
        queue.trim();
        queue.accept(ACCOUNT, &["ann@two.example"], "<2@example.org>");
        queue.stop();
        let (found, status) = home.check();
        assert_eq!(
            (status, &found["checked"]["queues"], &found["checked"]["queued"]),
            (0, &1.into(), &2.into()),
            "{found}"
        );
        assert!(home.run(&["check"]).stdout.windows(20).any(|text| text == b"1 queue with 2 mails"));
        let path = object(&home, pattern);
        damage(&home, &path);
        let (found, status) = home.check();
        assert_eq!(status, 1, "{pattern}: {found}");
        let problems = found["problems"].to_string();
        assert!(problems.contains(&path), "{path}: {problems}");
    }
}

#[test]
fn check_says_that_the_mail_key_is_missing() {
    let (home, queue) = started();
    queue.accept(ACCOUNT, &["joe@one.example"], "<1@example.org>");
    queue.stop();
    std::fs::rename(home.path("data/mail.key"), home.path("mail.key")).unwrap();
    let (found, status) = home.check();
    assert!(status == 1 && found["problems"].to_string().contains("mail.key is missing"), "{found}");
}

#[test]
fn a_backup_of_a_queue_starts_on_hold() {
    let (home, queue) = started();
    let id = queue.accept(ACCOUNT, &["joe@one.example"], "<1@example.org>").to_string();
    home.ok(&["domain", "add", "example.org"]);
    home.ok(&["backup", "data", "copy"]);
    queue.stop();
    for key in ["server.key", "mail.key"] {
        std::fs::copy(home.path(&format!("data/{key}")), home.path(&format!("copy/{key}"))).unwrap();
    }
    let copy = RunningQueue::start(&home.path("copy"));
    let shown = home.json(&["queue", "show", &id, "--dir", "copy"]).0;
    let why = shown[0]["why"].as_str().unwrap();
    assert!(why.contains("on hold") && why.contains("restored from a backup"), "{why}");
    let keys = |dir| home.json(&["domain", "show", "example.org", "--dir", dir]).0["keys"].clone();
    assert_eq!((keys("copy").as_array().unwrap().len(), keys("copy")), (2, keys("data")));
    home.ok(&["queue", "release", "--all", "--dir", "copy"]);
    assert!(home.json(&["queue", "list", "--summary", "--dir", "copy"]).0[0]["on_hold"].is_null());
    copy.stop();
}

/// Sessions of one day, as a server writes them.
fn tls_sessions(home: &Home, day: &str) {
    let policy = |kind, text: &[&str], host: Option<&str>| AppliedPolicy {
        domain: "example.com".to_owned(),
        kind,
        text: text.iter().map(|line| (*line).to_owned()).collect(),
        host: host.map(str::to_owned),
    };
    let failure = SessionFailure {
        result: "validation-failure".to_owned(),
        reason: "mx-not-in-sts-policy".to_owned(),
        host: Some("mx2.example.com".to_owned()),
        address: Some("192.0.2.2".to_owned()),
        source: Some("192.0.2.9".to_owned()),
    };
    let lines = ["version: STSv1", "mode: testing", "mx: mx1.example.com", "mx: *.mx.example.com"];
    let mut sessions = TlsDay { others: (3, 1), ..TlsDay::default() };
    let of_sts = PolicySessions { successes: 5, failures: [(failure, 2)].into() };
    sessions.policies.insert(policy(PolicyKind::Sts, &lines, None), of_sts);
    let of_tlsa = PolicySessions { successes: 7, ..PolicySessions::default() };
    let record = policy(PolicyKind::Tlsa, &["3 1 1 00ff"], Some("mx1.example.com"));
    sessions.policies.insert(record, of_tlsa);
    let other =
        AppliedPolicy { domain: "other.example".to_owned(), ..policy(PolicyKind::NotFound, &[], None) };
    sessions.policies.insert(other, PolicySessions { successes: 1, ..PolicySessions::default() });
    let directory = home.path("data/tls-sessions");
    std::fs::create_dir_all(&directory).unwrap();
    let file = [&b"SPR\x01"[..], &minicbor::to_vec(&sessions).unwrap()].concat();
    std::fs::write(directory.join(day), file).unwrap();
}

#[test]
fn tls_sessions_become_reports_by_day_and_domain() {
    let home = Home::with_account();
    assert_eq!(home.ok(&["queue", "tls-report"]), "");
    tls_sessions(&home, "2026-11-26");
    tls_sessions(&home, "2026-11-27");
    let text = home.ok(&["queue", "tls-report", "--day", "2026-11-27"]);
    for line in [
        "2026-11-27  example.com: tlsa of mx1.example.com: 7 sessions succeeded, 0 failed",
        "2026-11-27  example.com: sts: 5 sessions succeeded, 2 failed",
        "    2 validation-failure (mx-not-in-sts-policy)  mx2.example.com 192.0.2.2",
        "2026-11-27  domains beyond the limit of a day: 3 sessions succeeded, 1 failed",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let (all, _) = home.json(&["queue", "tls-report"]);
    assert_eq!(all.as_array().unwrap().len(), 4);
    let (reports, _) = home.json(&["queue", "tls-report", "--day", "2026-11-26", "--domain", "Example.com."]);
    let [report] = &reports.as_array().unwrap()[..] else { panic!("{reports}") };
    // RFC 8460 §4.1, §4.4.
    assert_eq!(report["date-range"]["start-datetime"], "2026-11-26T00:00:00Z");
    assert_eq!(report["date-range"]["end-datetime"], "2026-11-26T23:59:59Z");
    for field in ["organization-name", "contact-info", "report-id"] {
        assert!(!report[field].as_str().unwrap().is_empty(), "{field}");
    }
    let [tlsa, sts] = &report["policies"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!(tlsa["policy"]["policy-type"], "tlsa");
    assert_eq!(tlsa["policy"]["policy-domain"], "mx1.example.com");
    assert_eq!(tlsa["summary"]["total-successful-session-count"], 7);
    assert!(tlsa.get("failure-details").is_none());
    assert_eq!(sts["policy"]["policy-type"], "sts");
    assert_eq!(sts["policy"]["policy-string"].as_array().unwrap().len(), 4);
    assert_eq!(sts["policy"]["mx-host"], serde_json::json!(["mx1.example.com", "*.mx.example.com"]));
    assert_eq!(sts["summary"]["total-failure-session-count"], 2);
    let failure = &sts["failure-details"][0];
    assert_eq!(
        (&failure["result-type"], &failure["failed-session-count"]),
        (&"validation-failure".into(), &2.into())
    );
    assert_eq!(failure["receiving-mx-hostname"], "mx2.example.com");
    assert_eq!(failure["sending-mta-ip"], "192.0.2.9");
    assert_eq!(home.status(&["queue", "tls-report", "--day", "27.11.2026"]), 2);
}
