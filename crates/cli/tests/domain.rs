//! `sealpost domain`: keys and records, through the binary. What DNS says is tested in `cmd/domain/check/tests.rs`.

#[path = "support/run.rs"]
mod run;

use run::{ACCOUNT, Home};
use serde_json::Value;

const CONFIG: [&str; 2] = ["--config", "mail.toml"];

fn home() -> Home {
    let home = Home::with_account();
    home.file("mail.toml", "hostname = \"mx.example.org\"\n");
    home
}

fn json(home: &Home, args: &[&str]) -> (Value, i32) {
    home.json(&[&CONFIG[..], &["domain"], args].concat())
}

fn of<'a>(plan: &'a Value, purpose: &str) -> Vec<&'a Value> {
    plan["records"].as_array().unwrap().iter().filter(|record| record["purpose"] == purpose).collect()
}

fn stages(keys: &Value) -> Vec<&str> {
    let mut stages: Vec<&str> =
        keys.as_array().unwrap().iter().map(|key| key["stage"].as_str().unwrap()).collect();
    stages.sort_unstable();
    stages
}

#[test]
fn a_domain_gets_keys_and_the_records_to_publish() {
    let home = home();
    let (plan, status) = json(&home, &["add", "Example.ORG"]);
    assert_eq!(
        (status, &plan["domain"], stages(&plan["keys"])),
        (0, &"example.org".into(), vec!["signing"; 2])
    );
    assert_eq!(of(&plan, "MX")[0]["value"], "10 mx.example.org.");
    let dkim = of(&plan, "DKIM");
    let rsa = dkim.iter().find(|record| record["value"].as_str().unwrap().contains("k=rsa")).unwrap();
    let pieces: String =
        rsa["pieces"].as_array().unwrap().iter().map(|piece| piece.as_str().unwrap()).collect();
    assert_eq!((dkim.len(), rsa["value"].as_str().unwrap()), (2, pieces.as_str()));
    assert!(rsa["name"].as_str().unwrap().ends_with("._domainkey.example.org"));
    for purpose in ["SPF", "DMARC", "TLS-RPT", "MTA-STS"] {
        assert_eq!(of(&plan, purpose).len(), 1, "{purpose}");
    }
    assert_eq!(json(&home, &["show", "example.org"]).0["records"], plan["records"]);
    let zone = home.ok(&[&CONFIG[..], &["domain", "show", "example.org", "--zone"]].concat());
    assert_eq!(zone.lines().filter(|line| line.contains(" 3600 IN ")).count(), 7, "{zone}");
    let text = home.ok(&[&CONFIG[..], &["domain", "show", "example.org"]].concat());
    for part in
        ["PTR: each of these addresses", "mode: testing", "(optional)", "sealpost domain check example.org"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(home.status(&["domain", "add", "example.org"]), 1, "it has keys");
    // The names of its keys' records would have more than 253 bytes.
    let long = format!("{}example.org", "abcdefghi.".repeat(22));
    let wrong =
        ["localhost", "not a domain", "a@example.org", "", ".", "a..b.example", "-a.example", "a-.example"];
    for wrong in wrong.into_iter().chain(["192.0.2.1", "_dmarc.example.org", "*.example.org", &long]) {
        assert_eq!(home.status(&["domain", "add", wrong]), 2, "{wrong:?}");
    }
    assert_eq!(home.check().1, 0, "check knows the objects");
}

#[test]
fn a_domain_without_accounts_is_reported_as_not_served() {
    let home = home();
    let added = home.run(&[&CONFIG[..], &["domain", "add", "shop.example"]].concat());
    let told = String::from_utf8_lossy(&added.stderr);
    assert!(added.status.success() && told.contains("no account or alias is in shop.example yet"), "{told}");
    home.ok(&["alias", "add", "info@example.org", ACCOUNT]);
    let (list, _) = json(&home, &["list"]);
    assert_eq!(
        (&list[0]["domain"], &list[0]["accounts"], &list[0]["aliases"]),
        (&"example.org".into(), &1.into(), &1.into())
    );
    let text = home.ok(&["domain", "list"]);
    assert_eq!(
        text,
        "example.org: 1 account, 1 alias; its mail is not signed\n\
         shop.example: no accounts, not served; signed with 2 keys\n"
    );
    let default = home.run(&["domain", "show", "shop.example"]);
    assert!(String::from_utf8_lossy(&default.stderr).contains("`hostname` is not set"), "{default:?}");
}

#[test]
fn keys_are_rotated_in_two_steps() {
    let home = home();
    let (plan, _) = json(&home, &["add", "example.org"]);
    let first = plan["keys"].clone();
    let (made, status) = json(&home, &["rotate", "example.org"]);
    assert_eq!((status, &made["done"], stages(&made["keys"])), (0, &"made".into(), vec!["waiting"; 2]));
    assert_eq!(made["records"].as_array().unwrap().len(), 2);
    let (active, _) = json(&home, &["rotate", "example.org", "--now"]);
    assert_eq!(active["done"], "activated");
    assert_eq!(stages(&active["keys"]), ["retired", "retired", "signing", "signing"]);
    let new = active["keys"].as_array().unwrap().iter().filter(|key| key["stage"] == "signing");
    assert!(
        new.into_iter().all(|key| first
            .as_array()
            .unwrap()
            .iter()
            .all(|old| old["selector"] != key["selector"]))
    );
    let (plan, _) = json(&home, &["show", "example.org"]);
    assert_eq!(of(&plan, "DKIM").len(), 4, "old records stay for a week");
    assert!(
        home.ok(&["domain", "show", "example.org"]).contains("signs no more; its record may go after 20")
    );

    home.ok(&["domain", "remove", "example.org"]);
    assert_eq!(json(&home, &["show", "example.org"]).0["keys"], Value::Array(vec![]));
    for gone in ["remove", "rotate"] {
        assert_eq!(home.status(&["domain", gone, "example.org"]), 3, "{gone}");
    }
}

#[test]
fn a_lost_mail_key_is_not_replaced_by_another() {
    let home = home();
    json(&home, &["add", "example.org"]);
    std::fs::remove_file(home.path("data/mail.key")).unwrap();
    let refused = home.run(&["domain", "add", "shop.example"]);
    assert!(!refused.status.success() && !home.path("data/mail.key").exists());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("mail.key is missing"), "{refused:?}");
}
