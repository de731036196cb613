//! Accounts, their secrets, and aliases, through the binary.

#[path = "support/run.rs"]
mod run;

use std::io::{Read, Write};
use std::net::TcpStream;

use run::{ACCOUNT, Home, Server};

/// The answer to an HTTP request on a connection of its own.
fn http(server: &Server, line: &str, fields: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", u16::try_from(server.port("http")).unwrap())).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let length = body.len();
    let head =
        format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n");
    write!(stream, "{head}{fields}\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Logs a browser in; its field with the cookie.
fn web_login(server: &Server, password: &str) -> String {
    let body = format!("{{\"username\":\"{ACCOUNT}\",\"password\":\"{password}\"}}");
    let answer = http(server, "POST /login", "Content-Type: application/json\r\n", &body);
    let lower = answer.to_lowercase();
    let start = lower.find("set-cookie: ").unwrap_or_else(|| panic!("{answer}")) + "set-cookie: ".len();
    format!("Cookie: {}\r\n", answer[start..].split(';').next().unwrap())
}

#[test]
fn an_account_is_made_removed_and_brought_back() {
    let home = Home::with_account();
    home.ok(&["account", "app-password", "add", ACCOUNT, "a phone", "--password-file", "password"]);
    let (list, _) = home.json(&["account", "list"]);
    assert_eq!(list[0]["account"], ACCOUNT);
    assert_eq!(home.status(&["account", "add", ACCOUNT, "--password-file", "password"]), 1, "it exists");
    assert_eq!(home.json(&["account", "show", ACCOUNT]).0["recovery"], false);

    home.ok(&["account", "remove", ACCOUNT]);
    assert_eq!(home.status(&["account", "show", ACCOUNT]), 3);
    assert!(home.json(&["account", "list"]).0[0]["removed"].is_string());
    // It would be back with the account.
    home.ok(&["account", "app-password", "revoke", ACCOUNT, "a phone"]);
    assert_eq!(home.json(&["account", "app-password", "list", ACCOUNT]).0, serde_json::json!([]));
    home.ok(&["account", "undelete", ACCOUNT]);
    assert_eq!(home.json(&["account", "app-password", "list", ACCOUNT]).0, serde_json::json!([]));
    assert_eq!(home.json(&["account", "show", ACCOUNT]).1, 0);
    assert_eq!(home.status(&["account", "undelete", ACCOUNT]), 1, "it was not removed");
}

#[test]
fn a_quota_is_set_shown_and_kept() {
    let home = Home::with_account();
    let quota = ["account", "quota", ACCOUNT];
    assert!(home.json(&quota).0["storage"]["limit"].is_null());
    home.ok(&[&quota[..], &["--storage", "5GiB", "--messages", "1"]].concat());
    let shown = home.json(&[&quota[..], &["--mailboxes", "20"]].concat()).0;
    assert_eq!((&shown["storage"]["limit"], &shown["messages"]["limit"]), (&(5u64 << 30).into(), &1.into()));
    assert_eq!(shown["mailboxes"]["limit"], 20);
    let shown = home.json(&["account", "show", ACCOUNT]).0;
    assert_eq!((&shown["quota_messages"], &shown["quota_mailboxes"]), (&1.into(), &20.into()), "{shown}");
    assert!(home.ok(&["account", "show", ACCOUNT]).contains("5.00 GiB, 1 message, 20 mailboxes"));
    home.ok(&["account", "add", "joe@example.org", "--password-file", "password"]);
    home.ok(&["account", "quota", "joe@example.org", "--messages", "3"]);
    let list = home.json(&["account", "list"]).0;
    let joe = list.as_array().unwrap().iter().find(|shown| shown["account"] == "joe@example.org").unwrap();
    assert_eq!((&joe["quota"], &joe["quota_messages"]), (&serde_json::Value::Null, &3.into()));
    home.file("a.mbox", "From a\nSubject: 1\n\nx\n\nFrom b\nSubject: 2\n\ny\n");
    let (summary, status) = home.import("a.mbox");
    assert_eq!((&summary["imported"], status), (&1.into(), 1), "{summary}");
    assert!(home.json(&[&quota[..], &["--storage", "none"]].concat()).0["storage"]["limit"].is_null());
    assert_eq!(home.status(&[&quota[..], &["--messages", "many"]].concat()), 2);
    assert_eq!(home.status(&["account", "quota", "nobody@example.org"]), 3);
}

/// They would look like another account's, or like nothing.
#[test]
fn names_have_no_characters_that_cannot_be_seen() {
    let home = Home::with_account();
    for hidden in ["\u{200b}", "\u{202e}", "\u{ad}", "\u{2066}", "\u{feff}"] {
        let name = format!("ja{hidden}ne@example.org");
        let added = home.run(&["account", "add", &name, "--password-file", "password"]);
        let told = String::from_utf8_lossy(&added.stderr);
        assert!(!added.status.success() && told.contains("U+"), "{hidden:?}: {told}");
        assert_ne!(home.status(&["alias", "add", &name, ACCOUNT]), 0);
    }
    home.ok(&["account", "add", "jané@example.org", "--password-file", "password"]);
}

#[test]
fn nothing_is_made_by_looking() {
    let home = Home::new();
    assert_eq!(home.status(&["account", "list"]), 3);
    assert!(!home.path("data").exists());
}

#[test]
fn a_password_is_no_argument_and_must_be_right() {
    let home = Home::with_account();
    home.file("wrong", "three");
    home.file("new", "new");
    let passwd = ["account", "passwd", ACCOUNT, "--new-password-file", "new", "--password-file"];
    assert_eq!(home.status(&[&passwd[..], &["wrong"]].concat()), 4);
    assert_eq!(home.status(&["account", "add", "joe@example.org", "--password", "secret"]), 2);
    // Without a terminal there is no prompt, and the error names the alternative.
    assert_eq!(home.status(&["account", "add", "joe@example.org"]), 2);
    let refused = home.run(&["account", "passwd", ACCOUNT, "--password-file", "password"]);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains(" --new-password-file names a file"),
        "{refused:?}"
    );
}

#[test]
fn passwords_change_and_the_mail_stays() {
    let home = Home::with_account();
    home.file("mail.eml", "Subject: kept\n\nhello\n");
    assert_eq!(home.import("mail.eml").0["imported"], 1);
    let changed = home.run_with(&["account", "passwd", ACCOUNT, "--password-stdin"], "one and two\nthree\n");
    assert!(changed.status.success(), "{changed:?}");
    assert_eq!(home.status(&["import", "mail.eml", "--account", ACCOUNT, "--password-file", "password"]), 4);
    home.file("password", "three\n");
    assert_eq!(home.import("mail.eml").0["present"], 1);
    assert_eq!(home.check().1, 0);
}

#[test]
fn a_recovery_code_sets_a_password_without_a_login() {
    let home = Home::with_account();
    let (made, _) = home.json(&["account", "recovery", ACCOUNT, "--password-file", "password"]);
    let code = made["recovery_code"].as_str().unwrap();
    home.file("code", code);
    home.file("mail.eml", "Subject: a\n\nb\n");
    let import = ["import", "mail.eml", "--account", ACCOUNT, "--password-file", "code"];
    assert_eq!(home.status(&import), 4, "a recovery code is not for logging in");
    home.file("new", "a new one");
    let args = ["account", "passwd", ACCOUNT, "--new-password-file", "new", "--password-file", "code"];
    assert_eq!(home.status(&args), 4, "it is no password");
    home.ok(&[&args[..], &["--recovery"]].concat());
    home.file("password", "a new one");
    assert_eq!(home.import("mail.eml").1, 0);
    assert_eq!(home.json(&["account", "show", ACCOUNT]).0["recovery"], true);
    // A new code replaces the old one.
    home.ok(&["account", "recovery", ACCOUNT, "--password-file", "password"]);
    assert_eq!(home.status(&[&args[..], &["--recovery"]].concat()), 4);
}

#[test]
fn a_running_server_accepts_app_passwords_until_they_are_revoked() {
    let home = Home::with_account();
    let server = home.serve();
    assert!(server.logs_in("one and two"));
    let token =
        home.ok(&["account", "app-password", "add", ACCOUNT, "my phone", "--password-file", "password"]);
    let token = token.trim();
    assert!(server.logs_in(token));
    home.file("token", token);
    let add = ["account", "app-password", "add", ACCOUNT, "another", "--password-file", "token"];
    assert_eq!(home.status(&add), 4, "an app password makes no others");
    let (tokens, _) = home.json(&["account", "app-password", "list", ACCOUNT]);
    assert_eq!(tokens[0]["label"], "my phone");
    assert!(tokens[0].get("app_password").is_none());
    home.ok(&["account", "app-password", "revoke", ACCOUNT, "my phone"]);
    assert!(!server.logs_in(token));
    assert_eq!(home.status(&["account", "app-password", "revoke", ACCOUNT, "my phone"]), 3);

    let passwd = home.run_with(&["account", "passwd", ACCOUNT, "--password-stdin"], "one and two\nthree\n");
    assert!(passwd.status.success());
    assert!(server.logs_in("three"));
    assert!(!server.logs_in("one and two"));
}

#[test]
fn aliases_are_added_to_replaced_and_removed() {
    let home = Home::with_account();
    home.ok(&["account", "add", "joe@example.org", "--password-file", "password"]);
    let (alias, _) = home.json(&["alias", "add", "Info@Example.org", ACCOUNT]);
    assert_eq!(
        (&alias["alias"], &alias["added"]),
        (&"info@example.org".into(), &serde_json::json!([ACCOUNT]))
    );
    let (alias, _) = home.json(&["alias", "add", "info@example.org", "joe@example.org"]);
    assert_eq!(alias["targets"], serde_json::json!([ACCOUNT, "joe@example.org"]));
    assert_eq!(
        (&alias["added"], &alias["removed"]),
        (&serde_json::json!(["joe@example.org"]), &serde_json::json!([]))
    );

    let said = home.ok(&["alias", "set", "info@example.org", "joe@example.org"]);
    assert_eq!(said, "info@example.org -> joe@example.org\nno longer to jane@example.org\n");
    let (alias, _) = home.json(&["alias", "set", "info@example.org", ACCOUNT]);
    assert_eq!(alias["removed"], serde_json::json!(["joe@example.org"]));
    home.ok(&["alias", "add", "info@example.org", "joe@example.org"]);
    let (alias, _) = home.json(&["alias", "remove", "info@example.org", ACCOUNT]);
    assert_eq!(alias["targets"], serde_json::json!(["joe@example.org"]));

    home.ok(&["alias", "add", "@example.org", ACCOUNT]);
    assert_eq!(home.json(&["alias", "list"]).0.as_array().unwrap().len(), 2);
    for (args, status) in [
        (&["add", ACCOUNT, "joe@example.org"][..], 1),
        (&["add", "more@example.org", "joe@elsewhere.example"], 3),
        (&["add", "more@elsewhere.example", "nobody@elsewhere.example"], 3),
        (&["add", "info@example.org", "info@example.org"], 1),
        (&["add", "two words@example.org", ACCOUNT], 2),
        (&["add", "more@example.org", "two words"], 2),
        (&["remove", "info@example.org", "other@example.org"], 3),
        (&["remove", "info@example.org", "joe@example.org"], 1),
        (&["remove", "none@example.org"], 3),
    ] {
        assert_eq!(home.status(&[&["alias"][..], args].concat()), status, "{args:?}");
    }
    home.ok(&["alias", "remove", "@example.org"]);
    assert_eq!(home.status(&["alias", "remove", "@example.org"]), 3);
    assert_eq!(home.json(&["alias", "list"]).0.as_array().unwrap().len(), 1);
}

#[test]
fn aliases_forward_to_other_servers_if_sending_is_on() {
    let home = Home::with_account();
    let add = ["alias", "add", "info@example.org", ACCOUNT, "Ann@Elsewhere.example"];
    let off = home.run(&add);
    let said = String::from_utf8_lossy(&off.stderr).into_owned();
    assert!(off.status.code() == Some(3) && said.contains("sending.enabled = \"on\""), "{said}");

    home.file("on.toml", "[sending]\nenabled = \"on\"\n");
    let with = |args: &[&str]| home.run(&[&["--config", "on.toml"], args].concat());
    let added = with(&add);
    let said = String::from_utf8_lossy(&added.stderr).into_owned();
    assert!(said.contains("mail for info@example.org leaves this server"), "{said}");
    let said = String::from_utf8_lossy(&added.stdout).into_owned();
    assert_eq!(said, "info@example.org -> jane@example.org, Ann@Elsewhere.example (another server)\n");
    let listed = home.json(&["alias", "list"]).0;
    assert_eq!(listed[0]["targets"], serde_json::json!([ACCOUNT, "Ann@Elsewhere.example"]));
    assert_eq!(
        (&listed[0]["outside"], &listed[0]["works"]),
        (&serde_json::json!(["Ann@Elsewhere.example"]), &true.into())
    );
    // Mistakes in a domain of this server are none that lead outside.
    assert_eq!(with(&["alias", "add", "info@example.org", "nobody@example.org"]).status.code(), Some(3));
    home.ok(&["alias", "remove", "info@example.org", "ann@elsewhere.example"]);
    assert_eq!(home.json(&["alias", "list"]).0[0]["outside"], serde_json::json!([]));
}

#[test]
fn removing_an_account_names_aliases_without_targets() {
    let home = Home::with_account();
    home.ok(&["alias", "add", "info@example.org", ACCOUNT]);
    home.ok(&["alias", "add", "more@example.org", "info@example.org"]);
    let (removed, _) = home.json(&["account", "remove", ACCOUNT]);
    assert_eq!(removed["useless_aliases"], serde_json::json!(["info@example.org"]));
    let listed = home.json(&["alias", "list"]).0;
    assert!(listed.as_array().unwrap().iter().all(|alias| alias["works"] == false), "{listed}");
    assert!(home.ok(&["alias", "list"]).contains("leads to no account"));
    home.ok(&["account", "undelete", ACCOUNT]);
    let listed = home.json(&["alias", "list"]).0;
    assert!(listed.as_array().unwrap().iter().all(|alias| alias["works"] == true), "{listed}");
    let (removed, _) = home.json(&["alias", "remove", "info@example.org"]);
    assert_eq!(removed["useless_aliases"], serde_json::json!(["more@example.org"]));
}

#[test]
fn a_suspended_account_refuses_logins_and_accepts_mail() {
    let home = Home::with_account();
    let server = home.serve();
    assert!(server.logs_in("one and two"));
    let said = home.ok(&["account", "suspend", ACCOUNT]);
    assert!(said.contains("its mail still arrives"), "{said}");
    assert!(!server.logs_in("one and two"));
    server.deliver(ACCOUNT, "Subject: meanwhile\r\n\r\n");
    assert!(home.ok(&["account", "list"]).contains("(suspended "));
    assert!(home.ok(&["account", "show", ACCOUNT]).contains("\nsuspended "));
    let (list, _) = home.json(&["account", "list"]);
    assert!(list[0]["suspended"].is_string(), "{list}");
    assert!(home.ok(&["account", "suspend", ACCOUNT]).contains("already"));
    assert_eq!(home.json(&["account", "resume", ACCOUNT]).0["done"], "resumed");
    assert!(home.ok(&["account", "resume", ACCOUNT]).contains("was not suspended"));
    assert!(server.logs_in("one and two"));
    server.commands(&["SELECT INBOX", "FETCH 1 FLAGS"]);
    assert_eq!(home.status(&["account", "suspend", "nobody@example.org"]), 3);
}

#[test]
fn names_are_looked_at_before_they_are_completed() {
    let home = Home::with_account();
    let add = |name: &str, more: &[&str]| {
        let added = home.run(&[&["account", "add", name, "--password-file", "password"], more].concat());
        (added.status.code().unwrap(), String::from_utf8_lossy(&added.stderr).into_owned())
    };
    let (status, said) = add("not an address", &[]);
    assert!(status == 2 && said.contains("a space is not allowed before the @"), "{said}");
    let (status, said) = add("joe", &[]);
    assert!(status == 2 && said.contains("joe@example.org, or set `domain`"), "{said}");
    home.file("s.toml", "hostname = \"mail.example.org\"\ndomain = \"example.org\"\n");
    assert_eq!(add("joe", &["--config", "s.toml"]).0, 0);
    assert_eq!(home.json(&["account", "show", "joe@example.org"]).1, 0);
    home.ok(&["--config", "s.toml", "alias", "add", "info", "joe", "jane"]);
    assert_eq!(
        home.json(&["alias", "list"]).0[0]["targets"],
        serde_json::json!([ACCOUNT, "joe@example.org"])
    );
    for (text, key) in [
        ("domain = \"two words\"", "domain"),
        ("hostname = \"a..b\"", "hostname"),
        ("postmaster = \"jane\"", "postmaster"),
        ("domain = \"x.org\"\npostmaster = \"<jane>\"", "postmaster"),
    ] {
        home.file("s.toml", text);
        let (status, said) = add("ann@example.org", &["--config", "s.toml"]);
        assert!(status == 2 && said.contains(&format!(": {key}: ")), "{text}: {said}");
    }
}

#[test]
fn expunged_messages_come_back() {
    let home = Home::with_account();
    home.file("mail.eml", "Subject: a\n\nb\n");
    home.import("mail.eml");
    let undelete = ["account", "undelete", ACCOUNT, "--messages", "--password-file", "password"];
    assert_eq!(home.json(&undelete).0["restored"], 0);
    home.serve().commands(&["SELECT INBOX", "STORE 1 +FLAGS (\\Deleted)", "EXPUNGE"]);
    let (stats, _) = home.json(&["stats", "--account", ACCOUNT, "--password-file", "password"]);
    assert_eq!(stats["per_account"][0]["expunged"], 1);
    let (restored, _) = home.json(&[&undelete[..], &["--since", "1h"]].concat());
    assert_eq!((&restored["restored"], &restored["mailbox"]), (&1.into(), &"Recovered".into()));
    assert_eq!(home.json(&undelete).0["restored"], 0);
    home.export("mbox", "out");
    assert!(std::fs::read_to_string(home.path("out/Recovered.mbox")).unwrap().contains("Subject: a\n\nb\n"));
    assert_eq!(home.check().1, 0);
}

#[test]
fn so_do_those_of_shared_mailboxes_each_once() {
    let home = Home::with_account();
    home.ok(&["account", "add", "joe@example.org", "--password-file", "password"]);
    let undelete = ["account", "undelete", ACCOUNT, "--messages", "--password-file", "password"];
    home.serve().commands(&[
        "CREATE Team",
        "APPEND Team {19+}\r\nSubject: one\r\n\r\n1\r\n",
        "APPEND Team {19+}\r\nSubject: two\r\n\r\n2\r\n",
        "SETACL Team joe@example.org lr",
    ]);
    assert_eq!(home.json(&undelete).0["restored"], 0, "what went into the share is not gone");
    home.serve().commands(&["SELECT Team", "STORE 1 +FLAGS (\\Deleted)", "EXPUNGE"]);
    assert_eq!(home.json(&undelete).0["restored"], 1);
    assert_eq!(home.json(&undelete).0["restored"], 0, "it is back already");
    home.serve().commands(&["DELETE Team"]);
    assert_eq!(home.json(&undelete).0["restored"], 1, "the other one");
    assert_eq!(home.json(&undelete).0["restored"], 0);
    home.export("mbox", "out");
    let mbox = std::fs::read_to_string(home.path("out/Recovered.mbox")).unwrap();
    assert_eq!((mbox.matches("Subject: one").count(), mbox.matches("Subject: two").count()), (1, 1));
    assert_eq!(home.check().1, 0);
}

#[test]
fn a_missing_server_key_is_reported_and_not_replaced() {
    let home = Home::with_account();
    let key = home.path("data/server.key");
    let kept = std::fs::read(&key).unwrap();
    std::fs::remove_file(&key).unwrap();
    let refused = home.run(&["serve"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("server.key is missing"), "{refused:?}");
    for command in [&["account", "list"][..], &["check"]] {
        let refused = home.run(command);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("server.key is missing"), "{refused:?}");
    }
    assert!(!key.exists());
    std::fs::write(&key, kept).unwrap();
    home.ok(&["account", "list"]);
}

#[test]
fn another_installations_server_key_is_refused() {
    let (home, other) = (Home::with_account(), Home::with_account());
    let key = home.path("data/server.key");
    let kept = std::fs::read(&key).unwrap();
    std::fs::copy(other.path("data/server.key"), &key).unwrap();
    for command in [&["serve"][..], &["account", "list"], &["account", "remove", "jane@example.org"]] {
        let refused = home.run(command);
        assert!(!refused.status.success(), "{refused:?}");
        let says = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(says.contains("copy server.key from another node"), "{says}");
    }
    std::fs::write(&key, kept).unwrap();
    home.ok(&["account", "list"]);
    assert_eq!(home.check().1, 0);
}

#[test]
fn the_server_key_is_replaced() {
    let home = Home::with_account();
    let key = home.path("data/server.key");
    let first = std::fs::read(&key).unwrap();
    let message = home.file("message.eml", "Subject: x\n\nfrom before\n").display().to_string();
    let password = ["--account", "jane@example.org", "--password-file", "password"];
    home.ok(&[&["import", &message][..], &password].concat());
    let check_messages = [&["check"][..], &password].concat();
    let roles = || {
        let keys = home.json(&["server", "key", "list"]).0["keys"].clone();
        let role = |key: &serde_json::Value| key["role"].as_str().unwrap().to_owned();
        keys.as_array().unwrap().iter().map(role).collect::<Vec<_>>()
    };
    assert_eq!(roles(), ["current"]);
    // On one node.
    let (rotated, status) = home.json(&["server", "key", "rotate"]);
    assert_eq!((status, &rotated["records"]), (0, &rotated["again"]), "{rotated}");
    assert_eq!(roles(), ["current", "retired"]);
    assert_eq!(home.check().1, 0);
    let server = home.serve();
    assert!(server.logs_in("one and two"));
    drop(server);
    let second = std::fs::read(&key).unwrap();
    std::fs::write(&key, first).unwrap();
    assert_ne!(home.status(&["account", "list"]), 0, "the old key does not count any more");
    // On several, one after the other.
    std::fs::write(&key, &second).unwrap();
    home.ok(&["server", "key", "rotate", "--prepare"]);
    assert_eq!(roles(), ["current", "next", "retired"]);
    let prepared = std::fs::read(&key).unwrap();
    home.ok(&["server", "key", "rotate"]);
    assert_eq!(roles(), ["current", "older", "retired"]);
    let rotated = std::fs::read(&key).unwrap();
    for node in [&prepared, &rotated] {
        std::fs::write(&key, node).unwrap();
        home.ok(&["account", "quota", "jane@example.org", "--storage", "1GiB"]);
    }
    home.ok(&["server", "key", "rotate", "--finish"]);
    assert_eq!(roles(), ["current", "retired", "retired"]);
    assert_eq!(home.check().1, 0);
    home.ok(&check_messages);
}

#[test]
fn a_changed_password_and_a_new_key_end_web_logins() {
    let home = Home::with_account();
    let code = home.json(&["account", "recovery", ACCOUNT, "--password-file", "password"]).0;
    home.file("code", code["recovery_code"].as_str().unwrap());
    home.file("new", "three");
    home.file("newer", "four");
    let server = home.serve();
    let status = |cookie: &str| http(&server, "GET /login", cookie, "")[9..12].to_owned();
    let passwd = ["account", "passwd", ACCOUNT];
    for (args, password) in [
        (
            [&passwd[..], &["--password-file", "password", "--new-password-file", "new"]].concat(),
            "one and two",
        ),
        (vec!["account", "rekey", ACCOUNT, "--password-file", "new"], "three"),
        (
            [&passwd[..], &["--recovery", "--password-file", "code", "--new-password-file", "newer"]]
                .concat(),
            "three",
        ),
    ] {
        let cookies = [web_login(&server, password), web_login(&server, password)];
        assert_eq!(cookies.each_ref().map(|cookie| status(cookie)), ["200", "200"]);
        let (done, failed) = home.json(&args);
        assert_eq!((&done["ended"], failed), (&2.into(), 0), "{args:?} {done}");
        assert_eq!(cookies.each_ref().map(|cookie| status(cookie)), ["401", "401"], "{args:?}");
    }
    let args = ["--password-file", "newer", "--new-password-file", "new"];
    assert!(home.ok(&[&passwd[..], &args].concat()).contains("OAuth grants and web logins ended: 0"));
}

#[test]
fn a_rekeyed_account_keeps_its_mail_and_its_secrets() {
    let home = Home::with_account();
    let token =
        home.ok(&["account", "app-password", "add", run::ACCOUNT, "phone", "--password-file", "password"]);
    let token = token.split_whitespace().find(|word| word.starts_with("sp_")).unwrap();
    let server = home.serve();
    server.deliver(run::ACCOUNT, "Subject: before\r\n\r\none\r\n");
    server.commands(&["SELECT INBOX", "FETCH 1 BODY[]", "CREATE Kept", "COPY 1 Kept"]);
    for epoch in 2..4 {
        let rekeyed = home.json(&["account", "rekey", run::ACCOUNT, "--password-file", "password"]);
        assert_eq!((rekeyed.1, &rekeyed.0["epoch"]), (0, &epoch.into()));
        assert_eq!(rekeyed.0["ended"], 0, "OAuth grants and web logins");
        server.deliver(run::ACCOUNT, "Subject: after\r\n\r\ntwo\r\n");
        // The server has it loaded with the key before.
        server.commands(&[
            "SELECT INBOX",
            &format!("FETCH {epoch} BODY[]"),
            "STORE 1:* +FLAGS (\\Seen)",
            "SELECT Kept",
        ]);
        assert!(server.logs_in(token));
    }
    server.stop();
    let (found, status) = home.check();
    assert_eq!(status, 0, "{found}");
    assert_eq!(home.export("mbox", "mail.mbox").1, 0);
    let wrong = home.file("wrong", "three and four").display().to_string();
    assert_ne!(home.status(&["account", "rekey", run::ACCOUNT, "--password-file", &wrong]), 0);
}

#[test]
fn an_account_may_send_as_others_and_to_so_many() {
    let home = Home::with_account();
    let allow = |args: &[&str]| home.json(&[&["account", "allow-from", ACCOUNT], args].concat());
    assert_eq!(allow(&["--list"]).0["allowed"], serde_json::json!([]));
    allow(&["Info@Example.org"]);
    assert_eq!(
        allow(&["@shop.example"]).0["allowed"],
        serde_json::json!(["info@example.org", "@shop.example"])
    );
    assert!(home.ok(&["account", "allow-from", ACCOUNT, "info@example.org"]).contains("already"));
    assert_eq!(allow(&["info@example.org", "--remove"]).0["allowed"], serde_json::json!(["@shop.example"]));
    assert_eq!(home.status(&["account", "allow-from", ACCOUNT, "*@shop.example"]), 2, "it is @shop.example");
    let allow = ["account", "allow-from", ACCOUNT];
    assert_eq!(home.status(&[&allow[..], &["info@example.org", "--remove"]].concat()), 3);
    assert_eq!(home.status(&[&allow[..], &["not an address"]].concat()), 2);
    assert_eq!(home.status(&allow), 2);

    let limit = |args: &[&str]| home.json(&[&["account", "limit", ACCOUNT], args].concat()).0;
    let shown = limit(&[]);
    assert_eq!((&shown["hour"]["limit"], &shown["hour"]["is_default"]), (&200.into(), &true.into()));
    assert!(shown["hour"]["sent"].is_null(), "there is no queue that counts");
    limit(&["--hour", "5"]);
    let shown = limit(&["--day", "50"]);
    assert_eq!((&shown["hour"]["limit"], &shown["day"]["limit"]), (&5.into(), &50.into()));
    let text = home.ok(&["account", "show", ACCOUNT]);
    assert!(text.contains("may send as    @shop.example\n"), "{text}");
    assert!(text.contains("sends to       5 recipients in an hour, 50 recipients in a day"), "{text}");
    assert_eq!(limit(&["--default"])["day"]["is_default"], true);
    assert!(home.json(&["account", "show", ACCOUNT]).0["limit_hour"].is_null());
    assert_eq!(home.status(&["account", "limit", ACCOUNT, "--hour", "-1"]), 2);
    assert_eq!(home.status(&["account", "limit", "nobody@example.org"]), 3);
}
