//! The changes of a scenario outside the bench's own mailboxes.
//!
//! A user may point the bench at an account with real mail. So every command that is not known to
//! be harmless counts as a change, and commands that work on the selected mailbox count for every
//! mailbox that their phase selects.

use super::step::Action;
use super::template::Template;
use super::{Phase, Scenario};

/// Commands that change nothing, whatever their arguments.
const HARMLESS: [&str; 24] = [
    "CAPABILITY",
    "NOOP",
    "CHECK",
    "UNSELECT",
    "SEARCH",
    "SELECT",
    "EXAMINE",
    "LIST",
    "LSUB",
    "STATUS",
    "NAMESPACE",
    "ENABLE",
    "ID",
    "SORT",
    "THREAD",
    "GETQUOTA",
    "GETQUOTAROOT",
    "GETACL",
    "LISTRIGHTS",
    "MYRIGHTS",
    "GETMETADATA",
    "NOTIFY",
    "ESEARCH",
    "UIDBATCHES",
];

/// Commands that change the selected mailbox only.
const SELECTED: [&str; 3] = ["STORE", "EXPUNGE", "CLOSE"];

pub(super) fn writes_elsewhere(scenario: &Scenario) -> Vec<String> {
    let mut found = Vec::new();
    for phase in &scenario.phases {
        for action in phase.actions() {
            if let Some(what) = writes(action, selects_elsewhere(phase)) {
                let line = format!("phase {:?}: {what}", phase.name);
                if !found.contains(&line) {
                    found.push(line);
                }
            }
        }
    }
    found
}

/// Whether the phase selects a mailbox for writing that is not the bench's own.
fn selects_elsewhere(phase: &Phase) -> bool {
    phase.actions().any(|action| match action {
        Action::Command(template, text) => {
            let verb = text.split_whitespace().next();
            verb.is_some_and(|verb| verb.eq_ignore_ascii_case("SELECT")) && template.mailboxes() == 0
        }
        _ => false,
    })
}

/// What `action` changes outside the bench's mailboxes.
fn writes(action: &Action, elsewhere: bool) -> Option<String> {
    match action {
        Action::Deliver(_) => Some("deliveries go into the INBOX of every account".into()),
        Action::Fresh(_) | Action::Fill(_) | Action::Append { .. } => {
            let own = action.templates().all(|template| template.mailboxes() == 1);
            (!own).then(|| format!("{} into a mailbox that is not the bench's", action.name()))
        }
        Action::Request(request) => request.changes_elsewhere().then(|| request.name().to_owned()),
        Action::Command(template, text) => command_writes(template, text, elsewhere).then(|| text.clone()),
        _ => None,
    }
}

fn command_writes(template: &Template, text: &str, elsewhere: bool) -> bool {
    let upper = text.to_ascii_uppercase();
    let words: Vec<&str> = upper.split_whitespace().collect();
    let words = if words.first() == Some(&"UID") { &words[1..] } else { &words[..] };
    let Some(verb) = words.first() else { return false };
    let last_is_own = template.ends_with_mailbox();
    match *verb {
        verb if HARMLESS.contains(&verb) => false,
        verb if SELECTED.contains(&verb) => elsewhere,
        // BODY[] without PEEK, RFC822 and RFC822.TEXT set \Seen (RFC 3501 §6.4.5).
        "FETCH" => {
            let sets_seen =
                upper.replace("BODY.PEEK[", "").replace("RFC822.SIZE", "").replace("RFC822.HEADER", "");
            elsewhere
                && (sets_seen.contains("BODY[")
                    || sets_seen.contains("RFC822")
                    || sets_seen.contains("BINARY["))
        }
        "COPY" => !last_is_own,
        "MOVE" => elsewhere || !last_is_own,
        "CREATE" | "DELETE" | "SUBSCRIBE" | "UNSUBSCRIBE" => !last_is_own,
        "RENAME" => template.mailboxes() < 2,
        _ => true,
    }
}
