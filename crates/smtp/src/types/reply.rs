//! Replies (RFC 5321 §4.2) with enhanced status codes (RFC 2034, RFC 3463).

use std::borrow::Cow;
use std::fmt;

/// `class.subject.detail` (RFC 3463 §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Enhanced {
    /// 2 success, 4 temporary, 5 permanent.
    pub class: u8,
    /// The subject: addressing, mailbox, mail system, …
    pub subject: u16,
    /// The condition.
    pub detail: u16,
}

impl Enhanced {
    /// The code `class.subject.detail`.
    pub const fn new(class: u8, subject: u16, detail: u16) -> Self {
        Enhanced { class, subject, detail }
    }

    /// Splits `2.1.5 text` into its code and the text; `None` if it does not begin with a code.
    pub fn split(text: &str) -> Option<(Self, &str)> {
        let (code, rest) = text.split_once(' ').unwrap_or((text, ""));
        let mut numbers = code.split('.');
        let mut number = |longest: usize| {
            numbers.next().filter(|n| n.len() <= longest && n.bytes().all(|b| b.is_ascii_digit()))
        };
        let class = number(1)?.parse().ok().filter(|class| matches!(class, 2 | 4 | 5))?;
        let subject = number(3)?.parse().ok()?;
        let detail = number(3)?.parse().ok()?;
        numbers.next().is_none().then_some((Enhanced { class, subject, detail }, rest))
    }
}

impl fmt::Display for Enhanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.class, self.subject, self.detail)
    }
}

/// A reply of one or several lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The three-digit code, 200 to 599.
    pub code: u16,
    /// The enhanced code, repeated on every line.
    pub enhanced: Option<Enhanced>,
    /// The text of each line; never empty.
    pub lines: Vec<Cow<'static, str>>,
}

impl Reply {
    /// A reply of one line.
    pub fn new(code: u16, text: impl Into<Cow<'static, str>>) -> Self {
        Reply { code, enhanced: None, lines: vec![text.into()] }
    }

    /// A reply of one line with an enhanced code given as three numbers.
    pub fn status(
        code: u16,
        (class, subject, detail): (u8, u16, u16),
        text: impl Into<Cow<'static, str>>,
    ) -> Self {
        Reply::new(code, text).with_enhanced(Enhanced::new(class, subject, detail))
    }

    /// The same reply with an enhanced code.
    #[must_use]
    pub fn with_enhanced(mut self, enhanced: Enhanced) -> Self {
        self.enhanced = Some(enhanced);
        self
    }

    /// The same reply with one more line.
    #[must_use]
    pub fn with_line(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.lines.push(text.into());
        self
    }

    /// 2xx: done (RFC 5321 §4.2.1).
    pub fn is_positive(&self) -> bool {
        self.code / 100 == 2
    }

    /// 3xx: the server waits for more.
    pub fn is_intermediate(&self) -> bool {
        self.code / 100 == 3
    }

    /// 4xx: try again later.
    pub fn is_transient(&self) -> bool {
        self.code / 100 == 4
    }

    /// 4xx or 5xx.
    pub fn is_error(&self) -> bool {
        matches!(self.code / 100, 4 | 5)
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if let Some(enhanced) = self.enhanced {
            write!(f, " {enhanced}")?;
        }
        write!(f, " {}", self.lines.join(" / "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enhanced_codes_are_split_from_text() {
        assert_eq!(Enhanced::split("2.1.5 ok then"), Some((Enhanced::new(2, 1, 5), "ok then")));
        assert_eq!(Enhanced::split("5.7.999"), Some((Enhanced::new(5, 7, 999), "")));
        for text in ["ok", "3.1.5 x", "2.1 x", "2.1.5.1 x", "2.1.1000 x", "2.1.+1 x", ""] {
            assert_eq!(Enhanced::split(text), None, "{text}");
        }
    }
}
