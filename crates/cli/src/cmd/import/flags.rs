//! Flags as an archive has them, as the account can keep them.

use sealpost_account::{Flags, SystemFlags};
use sealpost_base::limits;

/// System flags and keywords; what cannot be either (`\Recent`, an empty or endless word) is left out.
pub fn flags(names: &[String]) -> Flags {
    let mut flags = Flags::default();
    for name in names {
        if let Some(system) = SystemFlags::named(name) {
            flags.system = flags.system.with(system);
        } else if is_keyword(name) && flags.keywords.len() < limits::FLAG_SET_KEYWORDS {
            flags.keywords.push(name.clone());
        }
    }
    flags
}

/// RFC 3501 §9: `flag-keyword` is an atom.
fn is_keyword(word: &str) -> bool {
    let atom = |b: u8| b.is_ascii_graphic() && !b"(){%*\"\\]".contains(&b);
    !word.is_empty() && word.len() <= limits::KEYWORD_BYTES && word.bytes().all(atom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept() {
        let names = ["\\Seen", "\\Recent", "$Forwarded", "a b", "", "\\flagged"].map(str::to_owned);
        let kept = flags(&names);
        assert_eq!(kept.system, SystemFlags::SEEN.with(SystemFlags::FLAGGED));
        assert_eq!(kept.keywords, ["$Forwarded"]);
    }
}
