//! [`Cursor`]: a position in a line of text.

/// The rest of a line. A parser that returns `None` may have consumed part of it: the line is invalid
/// then.
pub(super) struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(rest: &'a str) -> Self {
        Cursor { rest }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Takes exactly `tag`.
    pub(super) fn tag(&mut self, tag: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(tag)?;
        Some(())
    }

    /// Takes `word` in any case of letters.
    pub(super) fn keyword(&mut self, word: &str) -> Option<()> {
        let head = self.rest.get(..word.len())?;
        if !head.eq_ignore_ascii_case(word) {
            return None;
        }
        self.rest = &self.rest[word.len()..];
        Some(())
    }

    /// Takes spaces. Returns how many.
    pub(super) fn spaces(&mut self) -> usize {
        self.take_while(|c| matches!(c, ' ' | '\t')).len()
    }

    /// Takes characters as long as they fit.
    pub(super) fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// Takes one character.
    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    /// `1*DIGIT`; `None` if there is none or it does not fit.
    pub(super) fn number(&mut self) -> Option<u64> {
        self.take_while(|c| c.is_ascii_digit()).parse().ok()
    }
}
