//! The names of objects. One flipped bit in a name moves an object away from its account: objects
//! of no account and no kind have to be reported, or the last entry of a log could be missing
//! unnoticed.

use sealpost_base::{AccountId, ObjectId};
use sealpost_journal::{Ballot, EntryName, is_mark};

/// Folders at the top that others look through, or that hold nothing that lasts.
const FOLDERS: [&str; 10] =
    ["accounts", "aliases", "server", "shares", "usage", "vacations", "logins", "spool", "probe", "store"];

/// Whether something of Sealpost has such a name.
pub fn is_known(path: &str) -> bool {
    let mut parts = path.split('/');
    let (top, rest) = (parts.next().unwrap_or_default(), parts.collect::<Vec<_>>());
    match (top, rest.as_slice()) {
        ("acct", [id, kind, rest @ ..]) => id.parse::<AccountId>().is_ok() && is_of_kind(kind, rest),
        ("queue", [node, rest @ ..]) => node.parse::<AccountId>().is_ok() && is_of_queue(rest),
        ("domains", [_, kind, _]) => matches!(*kind, "dkim" | "active" | "retired"),
        ("push", ["key"]) => true,
        ("push", ["keys", number]) => is_hex(number, 2),
        ("push", ["accounts", id, version]) => id.parse::<AccountId>().is_ok() && is_hex(version, 16),
        (top, [_, ..]) => FOLDERS.contains(&top),
        _ => false,
    }
}

fn is_hex(name: &str, digits: usize) -> bool {
    name.len() == digits && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_of_kind(kind: &str, rest: &[&str]) -> bool {
    let is_position =
        |name: &str| EntryName::parse(name).is_some_and(|place| place == EntryName::plain(place.position));
    match (kind, rest) {
        ("log", [name]) => EntryName::parse(name).is_some(),
        ("manifest", [name]) => is_position(name) || is_mark(name) || Ballot::of_file(name).is_some(),
        ("snap", [position, _]) => is_position(position),
        ("msg" | "thin" | "upload" | "vacation", [name]) => name.parse::<ObjectId>().is_ok(),
        ("idx", ["summary" | "text", _]) | ("pack", ["message" | "structure", _]) => true,
        _ => false,
    }
}

fn is_of_queue(rest: &[&str]) -> bool {
    match rest {
        [kind @ ("log" | "manifest" | "snap"), rest @ ..] => is_of_kind(kind, rest),
        ["body" | "segment", name] => name.parse::<ObjectId>().is_ok(),
        ["requests" | "history", name] => name.len() == 33,
        ["copy"] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_flipped_bit_is_not_known() {
        let id = "0123456789abcdef0123456789abcdef";
        for known in [
            format!("acct/{id}/log/0000000000000001"),
            format!("acct/{id}/snap/0000000000000001/mailboxes"),
            format!("acct/{id}/manifest/s0000000000000001-0123456789abcdef"),
            format!("acct/{id}/manifest/k0123456789abcdef"),
            format!("acct/{id}/msg/{id}"),
            format!("acct/{id}/upload/{id}"),
            format!("acct/{id}/vacation/{id}"),
            format!("vacations/{id}/0000000000000001"),
            format!("acct/{id}/idx/summary/x"),
            format!("queue/{id}/log/0000000000000001"),
            format!("queue/{id}/snap/0000000000000001/queue"),
            format!("queue/{id}/segment/{id}"),
            format!("queue/{id}/history/0000000000000001-0000000000000009"),
            format!("queue/{id}/copy"),
            "domains/example.org/dkim/rsa-20261126bcdf".to_owned(),
            "push/key".to_owned(),
            "push/keys/0f".to_owned(),
            format!("push/accounts/{id}/0000000000000001"),
            "accounts/jane@example.org/0000000000000001".to_owned(),
            "store/appends/conditional".to_owned(),
        ] {
            assert!(is_known(&known), "{known}");
        }
        for strange in [
            format!("acct/{id}/log/000000000000000!"),
            format!("acct/{id}/mog/0000000000000001"),
            format!("acct/{id}x/log/0000000000000001"),
            format!("acct/{id}/log0000000000000001"),
            format!("acct/{id}/msg/{id}/x"),
            format!("queue/{id}/msg/{id}"),
            "domains/example.org/dkin/rsa-20261126bcdf".to_owned(),
            "push/kex".to_owned(),
            "push/keys/0F".to_owned(),
            "push/keys/ffffffffffffffff".to_owned(),
            format!("push/accounts/{id}/00000000000000zz"),
            format!("push/accountr/{id}/0000000000000001"),
            format!("aCct/{id}/log/0000000000000001"),
            format!("salvaged/7/acct/{id}/log/0000000000000001"),
            "alone".to_owned(),
        ] {
            assert!(!is_known(&strange), "{strange}");
        }
    }
}
