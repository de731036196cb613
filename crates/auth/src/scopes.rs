//! What a client of OAuth may do with an account: the interoperable scopes of
//! draft-ietf-mailmaint-oauth-public §5.1.3. Passwords, app passwords and web logins may do all.

use std::fmt;

/// One scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Mail: IMAP, submission, and JMAP for mail.
    Mail,
    /// Contacts.
    Contacts,
}

/// A set of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scopes(u32);

impl Scope {
    /// All of them.
    pub const ALL: [Scope; 2] = [Scope::Mail, Scope::Contacts];

    /// Its registered name.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Mail => "urn:ietf:params:oauth:scope:mail",
            Scope::Contacts => "urn:ietf:params:oauth:scope:contacts",
        }
    }

    fn bit(self) -> u32 {
        match self {
            Scope::Mail => 1,
            Scope::Contacts => 2,
        }
    }
}

impl Scopes {
    /// None.
    pub const NONE: Scopes = Scopes(0);
    /// Everything that an account has, also what no scope names.
    pub const EVERYTHING: Scopes = Scopes(u32::MAX);

    /// Those named in a list with spaces between them (RFC 6749 §3.3). Names that are unknown here are
    /// left out: a client may ask for more than a server has.
    pub fn parse(text: &str) -> Self {
        let known = |name: &str| Scope::ALL.into_iter().find(|scope| scope.name() == name);
        text.split(' ').filter_map(known).fold(Scopes::NONE, Scopes::with)
    }

    /// The same with one more.
    #[must_use]
    pub fn with(self, scope: Scope) -> Self {
        Scopes(self.0 | scope.bit())
    }

    /// Those that are in both.
    #[must_use]
    pub fn and(self, other: Scopes) -> Self {
        Scopes(self.0 & other.0)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this scope is among them.
    pub fn has(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Whether all of `other` are among them.
    pub fn covers(self, other: Scopes) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those among them that have a name.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.has(*scope))
    }

    /// As tokens have them.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// Those of a token: never [`Scopes::EVERYTHING`].
    pub(crate) fn of_bits(bits: u32) -> Self {
        let all = Scope::ALL.into_iter().fold(Scopes::NONE, Scopes::with);
        Scopes(bits).and(all)
    }
}

impl fmt::Display for Scopes {
    /// Names with a space between them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, scope) in self.iter().enumerate() {
            write!(f, "{}{}", if n > 0 { " " } else { "" }, scope.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_scopes_are_read_and_others_left_out() {
        let mail = Scopes::NONE.with(Scope::Mail);
        let text = "openid urn:ietf:params:oauth:scope:mail  offline_access";
        assert_eq!(Scopes::parse(text), mail);
        assert_eq!(Scopes::parse("urn:ietf:params:oauth:scope:MAIL mail"), Scopes::NONE);
        let both = mail.with(Scope::Contacts);
        assert_eq!(Scopes::parse(&both.to_string()), both);
        assert!(both.covers(mail) && !mail.covers(both) && Scopes::EVERYTHING.covers(both));
        assert_eq!(Scopes::of_bits(u32::MAX), both, "no token is for everything");
    }
}
