//! JMAP keywords (RFC 8621 §4.1.1) and the flags in the log, which IMAP shows.
//!
//! Four keywords are system flags. All others are keywords in the log too. Those that IANA registers are
//! stored in the registered spelling, since IMAP clients look for it.

use sealpost_account::{Flags, SystemFlags};
use sealpost_jmap::email::Keyword;
use sealpost_jmap::true_set::TrueSet;
use sealpost_mailbox::emails::EmailFlags;

/// The keywords that stand for system flags.
const SYSTEM: [(&str, SystemFlags); 4] = [
    ("$answered", SystemFlags::ANSWERED),
    ("$draft", SystemFlags::DRAFT),
    ("$flagged", SystemFlags::FLAGGED),
    ("$seen", SystemFlags::SEEN),
];

/// Keywords whose registered spelling has uppercase letters (the IANA registry of IMAP and JMAP keywords).
const REGISTERED: [&str; 12] = [
    "$Forwarded",
    "$Important",
    "$Junk",
    "$MDNSent",
    "$NotJunk",
    "$Phishing",
    "$SubmitPending",
    "$Submitted",
    "$MailFlagBit0",
    "$MailFlagBit1",
    "$MailFlagBit2",
    "$MuteConversation",
];

/// The JMAP keywords for flags. Leaves out IMAP keywords that are invalid in JMAP, and those spelled like the
/// JMAP keyword of a system flag.
pub(crate) fn keywords_of(flags: &EmailFlags) -> TrueSet<Keyword> {
    let system = SYSTEM.iter().filter(|(_, flag)| flags.system.contains(*flag)).map(|(name, _)| *name);
    let others = flags.keywords.iter().map(String::as_str).filter(|name| system_flag(name).is_none());
    TrueSet(system.chain(others).filter_map(Keyword::new).collect())
}

/// The flags for keywords.
pub(crate) fn flags_of<'a>(keywords: impl IntoIterator<Item = &'a Keyword>) -> Flags {
    let mut flags = Flags::default();
    for keyword in keywords {
        match system_flag(keyword.as_str()) {
            Some(flag) => flags.system = flags.system.with(flag),
            None => flags.keywords.push(stored_name(keyword.as_str()).to_owned()),
        }
    }
    flags
}

/// The system flag of a keyword, if any: a search has another criterion for it.
pub(super) fn searched_as(keyword: &Keyword) -> Option<SystemFlags> {
    system_flag(keyword.as_str())
}

/// The system flag of a keyword, ignoring case.
fn system_flag(keyword: &str) -> Option<SystemFlags> {
    SYSTEM.iter().find(|(name, _)| name.eq_ignore_ascii_case(keyword)).map(|(_, flag)| *flag)
}

/// The spelling in which a keyword is stored if no message has it yet.
fn stored_name(keyword: &str) -> &str {
    REGISTERED.iter().find(|name| name.eq_ignore_ascii_case(keyword)).copied().unwrap_or(keyword)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(system: SystemFlags, keywords: &[&str]) -> Vec<String> {
        let keywords = keywords.iter().map(|&keyword| keyword.to_owned()).collect();
        let set = keywords_of(&EmailFlags { system, keywords }).0;
        set.iter().map(|keyword| keyword.as_str().to_owned()).collect()
    }

    #[test]
    fn flags_and_keywords_lead_to_each_other() {
        let system = SystemFlags::SEEN.with(SystemFlags::FLAGGED);
        let keywords = ["$Forwarded", "$Junk", "work"];
        let names = shown(system, &keywords);
        assert_eq!(names, ["$flagged", "$forwarded", "$junk", "$seen", "work"]);
        let keywords: Vec<Keyword> = names.iter().filter_map(|name| Keyword::new(name)).collect();
        let flags = flags_of(&keywords);
        assert_eq!(
            (flags.system, flags.keywords),
            (system, ["$Forwarded", "$Junk", "work"].map(String::from).into())
        );
    }

    #[test]
    fn keywords_that_are_no_keywords_of_jmap_are_hidden() {
        assert_eq!(shown(SystemFlags::NONE, &["$Seen", "a]b", "\\Starred", ""]), [""; 0]);
        assert_eq!(shown(SystemFlags::DELETED, &["Work", "work"]), ["work"]);
    }
}
