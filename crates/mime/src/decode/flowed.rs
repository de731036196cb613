//! format=flowed (RFC 3676): joins broken lines to the original paragraphs.
//!
//! A line that ends in a space continues in the next one of the same quote depth (§4.1, §4.5), with
//! DelSp=yes without that space (§4.3). Quote marks and stuffed spaces (§4.4) are not part of the
//! text. The signature separator `-- ` is a line of its own.

/// Joins the lines of one text that arrives in pieces.
#[derive(Debug)]
pub struct Flowed {
    /// DelSp=yes.
    delete_space: bool,
    state: State,
    /// Quote marks of the previous line, if it continues.
    goes_on: Option<usize>,
    quotes: usize,
    /// A space that may be the one at the end of the line.
    space: bool,
    cr: bool,
}

/// The position of the next character in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Among the quote marks.
    Quotes,
    /// After them and the stuffed space, and so many characters of the signature separator.
    Signature(usize),
    Text,
}

const SIGNATURE: &str = "-- ";

impl Flowed {
    /// `delete_space`: DelSp=yes.
    pub fn new(delete_space: bool) -> Self {
        Flowed { delete_space, state: State::Quotes, goes_on: None, quotes: 0, space: false, cr: false }
    }

    /// Appends the text of the next piece.
    pub fn push(&mut self, piece: &str, out: &mut String) {
        for c in piece.chars() {
            if std::mem::take(&mut self.cr) && c != '\n' {
                // A CR alone is text.
                self.step('\r', out);
            }
            match c {
                '\r' => self.cr = true,
                '\n' => self.end_line(out),
                c => self.step(c, out),
            }
        }
    }

    /// Ends the text.
    pub fn finish(mut self, out: &mut String) {
        if std::mem::take(&mut self.cr) {
            self.step('\r', out);
        }
        if self.state != State::Quotes || self.quotes > 0 {
            self.begin_text(out);
        }
        if self.space {
            out.push(' ');
        }
    }

    fn step(&mut self, c: char, out: &mut String) {
        match self.state {
            State::Quotes => match c {
                '>' => self.quotes += 1,
                ' ' => self.state = State::Signature(0),
                _ => {
                    self.state = State::Signature(0);
                    self.step(c, out);
                }
            },
            State::Signature(at) if SIGNATURE[at..].starts_with(c) => self.state = State::Signature(at + 1),
            State::Signature(_) => {
                self.begin_text(out);
                self.text(c, out);
            }
            State::Text => self.text(c, out),
        }
    }

    fn text(&mut self, c: char, out: &mut String) {
        if std::mem::replace(&mut self.space, c == ' ') {
            out.push(' ');
        }
        if c != ' ' {
            out.push(c);
        }
    }

    /// The held part of the line is text: it continues the previous line, or begins a new one.
    fn begin_text(&mut self, out: &mut String) {
        self.join(out);
        if let State::Signature(at) = std::mem::replace(&mut self.state, State::Text) {
            SIGNATURE[..at].chars().for_each(|c| self.text(c, out));
        }
    }

    /// Ends the previous line, if it would continue but not in this one.
    fn join(&mut self, out: &mut String) {
        if self.goes_on.take().is_some_and(|quotes| quotes != self.quotes) {
            out.push('\n');
        }
    }

    fn end_line(&mut self, out: &mut String) {
        if self.state == State::Signature(SIGNATURE.len()) {
            if self.goes_on.take().is_some() {
                out.push('\n');
            }
            out.push_str(SIGNATURE);
            out.push('\n');
        } else {
            // An empty line ends the previous one as well: it has no space at its end.
            self.begin_text(out);
            if std::mem::take(&mut self.space) {
                if !self.delete_space {
                    out.push(' ');
                }
                self.goes_on = Some(self.quotes);
            } else {
                out.push('\n');
            }
        }
        self.state = State::Quotes;
        self.quotes = 0;
        self.space = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flowed(delete_space: bool, pieces: &[&str]) -> String {
        let mut flowed = Flowed::new(delete_space);
        let mut out = String::new();
        pieces.iter().for_each(|piece| flowed.push(piece, &mut out));
        flowed.finish(&mut out);
        out
    }

    #[test]
    fn lines_that_end_in_a_space_continue() {
        for (text, expected) in [
            ("the quick \r\nbrown fox\r\n", "the quick brown fox\n"),
            ("> the quick \r\n> brown\r\n> fox", "the quick brown\nfox"),
            (">> a \r\n> b \r\nc", "a \nb \nc"),
            (">>a \n>> b\n > c", "a b\n> c"),
            ("was \r\n From here", "was From here"),
            ("  indented\n", " indented\n"),
            ("a\n\n b \n\nc", "a\n\nb \nc"),
            ("a \n-- \nb \n--\n", "a \n-- \nb --\n"),
            ("> -- \n> x", "-- \nx"),
            ("--- x \n-- y", "--- x -- y"),
            ("a  \nb", "a  b"),
            ("a\rb \rc", "a\rb \rc"),
            ("", ""),
            ("a ", "a "),
            ("-- ", "-- "),
            (">", ""),
        ] {
            assert_eq!(flowed(false, &[text]), expected, "{text:?}");
        }
    }

    #[test]
    fn the_space_goes_with_delsp() {
        for (text, expected) in [
            ("Donaudampf \r\nschiff\r\n", "Donaudampfschiff\n"),
            ("two words  \nhere", "two words here"),
            ("> a \nb", "a\nb"),
            ("end \n-- \nname", "end\n-- \nname"),
        ] {
            assert_eq!(flowed(true, &[text]), expected, "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn cuts_do_not_matter(pieces in proptest::collection::vec("[>a \r\n-]{0,5}", 0..6), delete_space: bool) {
            let parts: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(flowed(delete_space, &parts), flowed(delete_space, &[&pieces.concat()]));
        }
    }
}
