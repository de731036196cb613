//! Commands with placeholders: `UID FETCH {uid:16} (FLAGS)`.

use std::io::Write as _;

use sealpost_base::{SeededRandom, suggest};

use super::super::text::quoted;
use crate::words;

/// The root of the bench's mailboxes in scenarios.
const ROOT: &str = "Bench";
/// Its name on the server: unlikely to exist otherwise, as everything below it is removed at the
/// end.
pub const MAILBOX: &str = "SealpostBench";

/// A command, cut at its placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// Below the bench's mailbox: text, or the number of the connection.
    Mailbox(Vec<Piece>),
    User,
    Connection,
    Round,
    Number(u32),
    Uid(u32),
    New,
    Batch,
    ModSeq,
    Word,
    Rare,
}

/// Names of placeholders, and their values.
pub const PLACEHOLDERS: [(&str, &str); 11] = [
    ("Bench/…", "a mailbox of the bench's own, as this server writes it"),
    ("user", "the name of the account"),
    ("connection", "the number of the connection, from 1"),
    ("round", "the number of the round, from 1"),
    ("n", "the number of any message of the selected mailbox; {n:16}: of sixteen in a row"),
    ("uid", "like n, as a UID"),
    ("new", "the UIDs of messages that came since this was last asked"),
    ("batch", "the messages whose turn it is, in a step with the key batch"),
    ("modseq", "the mod-sequence when the mailbox was last selected or {new} asked"),
    ("word", "a word that is in many messages"),
    ("rare", "a word that is in one of a hundred"),
];

/// The values of placeholders.
pub struct Values<'a> {
    /// The random numbers.
    pub random: &'a SeededRandom,
    /// The account.
    pub user: &'a str,
    /// Which connection, from 0.
    pub connection: usize,
    /// Which round, from 0.
    pub round: u64,
    /// Messages in the selected mailbox.
    pub exists: u32,
    /// Its UIDNEXT.
    pub uid_next: u32,
    /// UIDNEXT when `{new}` was last used.
    pub uid_seen: u32,
    /// The first and last message of the batch.
    pub batch: (u32, u32),
    /// HIGHESTMODSEQ then.
    pub mod_seq: u64,
    /// The server's syntax of mailbox names.
    pub names: &'a Names,
}

/// A server's syntax of mailbox names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The prefix of personal mailboxes, such as `INBOX.` (RFC 2342).
    pub prefix: String,
    /// The hierarchy delimiter.
    pub delimiter: char,
}

impl Default for Names {
    fn default() -> Self {
        Names { prefix: String::new(), delimiter: '/' }
    }
}

impl Names {
    /// The name of `mailbox` (levels divided by `/`), quoted if it must be.
    pub fn write(&self, mailbox: &str, out: &mut Vec<u8>) {
        let name =
            format!("{}{}", self.prefix, mailbox.replace('/', self.delimiter.encode_utf8(&mut [0; 4])));
        quoted(&name, out);
    }
}

impl Template {
    /// Parses it.
    ///
    /// # Errors
    /// The unknown placeholder.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let close = closing(&rest[open..]).ok_or("a { without its }")? + open;
            if open > 0 {
                pieces.push(Piece::Text(rest[..open].to_owned()));
            }
            pieces.push(Piece::parse(&rest[open + 1..close])?);
            rest = &rest[close + 1..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        if text.contains(['\r', '\n', '\0']) {
            return Err("a command is one line".into());
        }
        Ok(Template(pieces))
    }

    /// The command with everything filled in.
    pub fn render(&self, values: &Values<'_>, out: &mut Vec<u8>) {
        for piece in &self.0 {
            piece.render(values, out);
        }
    }

    /// The name of a mailbox of the bench below its root, as it is; the empty text for any other
    /// template.
    pub fn below_root(&self, values: &Values<'_>) -> String {
        let mut name = Vec::new();
        if let [Piece::Mailbox(pieces)] = &self.0[..] {
            pieces.iter().for_each(|piece| piece.render(values, &mut name));
        }
        String::from_utf8_lossy(&name).into_owned()
    }

    /// Whether it is one of the bench's own mailboxes and has no levels: a mailbox of JMAP.
    pub fn is_own_without_levels(&self) -> bool {
        let plain = |piece: &Piece| !matches!(piece, Piece::Text(text) if text.contains('/'));
        matches!(&self.0[..], [Piece::Mailbox(pieces)] if pieces.iter().all(plain))
    }

    /// How many of the bench's own mailboxes it names.
    pub fn mailboxes(&self) -> usize {
        self.0.iter().filter(|piece| matches!(piece, Piece::Mailbox(_))).count()
    }

    /// Whether it ends with one of them, like the target of a command.
    pub fn ends_with_mailbox(&self) -> bool {
        matches!(self.0.last(), Some(Piece::Mailbox(_)))
    }

    /// Whether it uses `{batch}`.
    pub fn asks_for_batch(&self) -> bool {
        self.0.contains(&Piece::Batch)
    }

    /// Whether it uses `{new}`.
    pub fn asks_for_new(&self) -> bool {
        self.0.contains(&Piece::New)
    }
}

impl Piece {
    fn parse(inner: &str) -> Result<Self, String> {
        if inner == ROOT {
            return Err("the mailbox Bench itself is not used; {Bench/…} is one below it".into());
        }
        if let Some(name) = inner.strip_prefix(ROOT).and_then(|rest| rest.strip_prefix('/')) {
            return Piece::mailbox(name);
        }
        let (name, argument) = inner.split_once(':').unwrap_or((inner, "1"));
        let count = || match argument.parse() {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(format!("{{{inner}}}: write the number of messages after the colon, 1 or more")),
        };
        let plain =
            |piece| if inner.contains(':') { Err(format!("{{{name}}} takes no number")) } else { Ok(piece) };
        match name {
            "n" => count().map(Piece::Number),
            "uid" => count().map(Piece::Uid),
            "user" => plain(Piece::User),
            "connection" => plain(Piece::Connection),
            "round" => plain(Piece::Round),
            "new" => plain(Piece::New),
            "batch" => plain(Piece::Batch),
            "modseq" => plain(Piece::ModSeq),
            "word" => plain(Piece::Word),
            "rare" => plain(Piece::Rare),
            _ => Err(unknown(name)),
        }
    }

    fn mailbox(name: &str) -> Result<Self, String> {
        let odd = |c: char| c.is_control() || !c.is_ascii() || "%*\"\\".contains(c);
        let levels_are_empty = name.split('/').any(str::is_empty);
        let pieces = Template::parse(name)?.0;
        let strange = |piece: &Piece| !matches!(piece, Piece::Text(_) | Piece::Connection | Piece::Round);
        if name.contains(odd) || levels_are_empty || pieces.iter().any(strange) {
            return Err(format!("{{{ROOT}/{name}}} is no name for a mailbox"));
        }
        Ok(Piece::Mailbox(pieces))
    }

    fn render(&self, values: &Values<'_>, out: &mut Vec<u8>) {
        let draw = |below: u32| values.random.below(u64::from(below.max(1))) as u32;
        let range = |first: u32, count: u32, end: u32, out: &mut Vec<u8>| {
            let last = first.saturating_add(count - 1).min(end.max(1));
            let _ = if last > first { write!(out, "{first}:{last}") } else { write!(out, "{first}") };
        };
        match self {
            Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Mailbox(pieces) => {
                let mut name = format!("{MAILBOX}/").into_bytes();
                pieces.iter().for_each(|piece| piece.render(values, &mut name));
                values.names.write(&String::from_utf8_lossy(&name), out);
            }
            Piece::User => quoted(values.user, out),
            Piece::Connection => drop(write!(out, "{}", values.connection + 1)),
            Piece::Round => drop(write!(out, "{}", values.round + 1)),
            Piece::Number(count) => {
                let room = values.exists.saturating_sub(count - 1);
                range(1 + draw(room), *count, values.exists, out);
            }
            Piece::Uid(count) => {
                let end = values.uid_next.saturating_sub(1);
                let room = end.saturating_sub(count - 1);
                range(1 + draw(room), *count, end, out);
            }
            Piece::New => drop(write!(out, "{}:*", values.uid_seen.max(1))),
            Piece::Batch => range(values.batch.0, 1 + values.batch.1 - values.batch.0, values.batch.1, out),
            Piece::ModSeq => drop(write!(out, "{}", values.mod_seq.max(1))),
            Piece::Word => out.extend_from_slice(words::frequent(draw(u32::MAX)).as_bytes()),
            Piece::Rare => out.extend_from_slice(words::RARE.as_bytes()),
        }
    }
}

/// The position of the brace that closes the one at the beginning of `text`.
pub(super) fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

fn unknown(name: &str) -> String {
    if name.eq_ignore_ascii_case("inbox") {
        return "write INBOX without braces; braces are for values that the bench fills in".into();
    }
    let names = PLACEHOLDERS.iter().map(|(name, _)| *name);
    match suggest::nearest(name, names.clone()) {
        Some(near) => format!("there is no {{{name}}}; is it {{{near}}}?"),
        None => {
            let all: Vec<_> = names.map(|name| format!("{{{name}}}")).collect();
            format!("there is no {{{name}}}: neither a parameter in [set] nor one of {}", all.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str, values: &Values<'_>) -> String {
        let mut out = Vec::new();
        Template::parse(text).unwrap().render(values, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn values<'a>(random: &'a SeededRandom, names: &'a Names) -> Values<'a> {
        let (exists, uid_next) = (100, 201);
        Values {
            random,
            user: "a b",
            connection: 0,
            round: 6,
            exists,
            uid_next,
            uid_seen: 190,
            batch: (21, 40),
            mod_seq: 7,
            names,
        }
    }

    #[test]
    fn placeholders_are_filled_in() {
        let (random, names) = (SeededRandom::new(1), Names::default());
        let values = values(&random, &names);
        assert_eq!(render("LOGIN {user} {connection} {round}", &values), "LOGIN \"a b\" 1 7");
        assert_eq!(
            render("UID FETCH {new} (FLAGS) (CHANGEDSINCE {modseq})", &values),
            "UID FETCH 190:* (FLAGS) (CHANGEDSINCE 7)"
        );
        assert_eq!(render("UID FETCH {batch} (FLAGS)", &values), "UID FETCH 21:40 (FLAGS)");
        for _ in 0..200 {
            let n: u32 = render("{n}", &values).parse().unwrap();
            assert!((1..=100).contains(&n));
            let uids = render("{uid:16}", &values);
            let (first, last) = uids.split_once(':').unwrap();
            let (first, last): (u32, u32) = (first.parse().unwrap(), last.parse().unwrap());
            assert!(first >= 1 && last == first + 15 && last <= 200, "{uids}");
        }
    }

    #[test]
    fn mailboxes_are_written_as_the_server_does() {
        let random = SeededRandom::new(1);
        let dots = Names { prefix: "INBOX.".into(), delimiter: '.' };
        assert_eq!(render("SELECT {Bench/a}", &values(&random, &dots)), "SELECT INBOX.SealpostBench.a");
        let names = Names::default();
        assert_eq!(
            render("SELECT {Bench/a-{connection}}", &values(&random, &names)),
            "SELECT SealpostBench/a-1"
        );
        assert_eq!(
            render("SELECT {Bench/two words}", &values(&random, &names)),
            "SELECT \"SealpostBench/two words\""
        );
    }

    #[test]
    fn an_empty_mailbox_has_no_message_zero() {
        let (random, names) = (SeededRandom::new(1), Names::default());
        let empty = Values { exists: 0, uid_next: 1, ..values(&random, &names) };
        assert_eq!(render("{n} {n:5} {uid} {uid:5}", &empty), "1 1 1 1");
    }

    #[test]
    fn errors_name_the_cause() {
        for (text, why) in [
            ("FETCH {uidd}", "there is no {uidd}; is it {uid}?"),
            ("FETCH {n", "a { without its }"),
            ("FETCH {n:0}", "{n:0}: write the number of messages after the colon, 1 or more"),
            ("X {user:3}", "{user} takes no number"),
            ("SELECT {INBOX}", "write INBOX without braces; braces are for values that the bench fills in"),
            ("SELECT {Bench/*}", "{Bench/*} is no name for a mailbox"),
            ("a\r\nb", "a command is one line"),
        ] {
            assert_eq!(Template::parse(text), Err(why.to_owned()));
        }
        let error = Template::parse("{frobnicate}").unwrap_err();
        assert!(error.contains("neither a parameter in [set] nor one of {Bench/…} {user}"), "{error}");
    }
}
