//! What clients say, at random: every command with every extension, mostly right.

use sealpost_base::SeededRandom;

/// A part of a command.
pub enum Piece {
    /// As it is.
    Text(Vec<u8>),
    Literal {
        bytes: Vec<u8>,
        /// The client waits for the server before it sends it.
        wait: bool,
        /// A literal8 (RFC 3516).
        binary: bool,
    },
}

pub struct Grammar {
    /// Messages are mostly named by UID: numbers are refused (RFC 9586).
    pub uid_only: bool,
    random: SeededRandom,
}

const MAILBOXES: &[&str] = &[
    "INBOX",
    "inbox",
    "Archive",
    "Drafts",
    "Work",
    "Work/a",
    "Work/b",
    "Shared",
    "Shared/x",
    "\"two words\"",
    "&AOQ-",
    "nowhere",
    "\"Other Users/me@localhost/Shared\"",
    "\"Other Users/you@localhost/Shared\"",
    "\"Other Users/she@localhost/Work\"",
    "\"Other Users/me@localhost/Shared/x\"",
    "\"Other Users/x\"",
    "Work/",
    "\"\"",
];
const WHO: &[&str] =
    &["me@localhost", "you@localhost", "she@localhost", "anyone", "-you@localhost", "nobody@localhost"];
const RIGHTS: &[&str] =
    &["lr", "lrs", "lrswi", "lrswipkxtea", "+i", "-r", "-l", "\"\"", "k", "+xte", "lrswitekx", "z"];
const FLAGS: &[&str] = &[
    "\\Seen",
    "\\Deleted",
    "\\Flagged",
    "\\Answered",
    "\\Draft",
    "$One",
    "$Forwarded",
    "Work",
    "\\Recent",
    "$Important",
];
const SETS: &[&str] = &[
    "1",
    "1:*",
    "*",
    "2:4",
    "1,3",
    "4:2",
    "1:4294967295",
    "$",
    "7",
    "1:3,5:*",
    "4294967295",
    "*:1",
    "1:2",
    "2",
];
const ITEMS: &[&str] = &[
    "FLAGS",
    "UID",
    "ALL",
    "FULL",
    "ENVELOPE",
    "BODYSTRUCTURE",
    "BODY",
    "RFC822.SIZE",
    "INTERNALDATE",
    "BODY[]",
    "BODY.PEEK[]",
    "BODY[HEADER]",
    "BODY.PEEK[HEADER.FIELDS (Subject From)]",
    "BODY[TEXT]<0.10>",
    "BODY[1]",
    "BODY.PEEK[1.MIME]",
    "MODSEQ",
    "PREVIEW",
    "PREVIEW (LAZY)",
    "SAVEDATE",
    "EMAILID",
    "THREADID",
    "BINARY[1]",
    "BINARY.PEEK[1]<0.5>",
    "BINARY.SIZE[1]",
    "RFC822",
    "RFC822.HEADER",
    "BODY[9.9.TEXT]",
    "BODY.PEEK[HEADER.FIELDS.NOT (To)]<2.3>",
];
const KEYS: &[&str] = &[
    "ALL",
    "SEEN",
    "UNSEEN",
    "DELETED",
    "NEW",
    "OLD",
    "RECENT",
    "FLAGGED",
    "ANSWERED",
    "DRAFT",
    "1:*",
    "UID 1:3",
    "$",
    "SUBJECT x",
    "FROM a",
    "TEXT body",
    "BODY part",
    "HEADER Subject \"\"",
    "LARGER 10",
    "SMALLER 1000",
    "SINCE 1-Jan-2020",
    "BEFORE 1-Jan-2030",
    "ON 2-Feb-2022",
    "SENTSINCE 1-Jan-2000",
    "KEYWORD $One",
    "UNKEYWORD Work",
    "MODSEQ 1",
    "MODSEQ \"/flags/\\\\Seen\" all 1",
    "YOUNGER 100",
    "OLDER 5",
    "FUZZY SUBJECT hello",
    "FILTER mine",
    "SAVEDBEFORE 1-Jan-2030",
    "SAVEDATESUPPORTED",
    "EMAILID M1",
    "THREADID T1",
    "CC b",
    "BCC c",
    "BODY \"\"",
    "YOUNGER 7",
];
const RETURNS: &[&str] = &[
    "",
    "MIN",
    "MAX",
    "ALL",
    "COUNT",
    "SAVE",
    "MIN MAX",
    "UPDATE",
    "CONTEXT",
    "PARTIAL 1:2",
    "PARTIAL -1:-3",
    "ALL SAVE",
    "UPDATE PARTIAL 1:2",
    "ALL COUNT",
    "COUNT SAVE ALL MIN MAX",
];
const SORTS: &[&str] = &[
    "ARRIVAL",
    "REVERSE DATE",
    "SUBJECT",
    "FROM",
    "TO",
    "CC",
    "SIZE",
    "DISPLAYFROM",
    "REVERSE DISPLAYTO",
    "DATE SIZE",
];
const STATUS: &[&str] = &[
    "MESSAGES",
    "UIDNEXT UIDVALIDITY",
    "UNSEEN",
    "RECENT",
    "SIZE",
    "HIGHESTMODSEQ",
    "DELETED DELETED-STORAGE",
    "MAILBOXID",
    "APPENDLIMIT",
];
const EVENTS: &[&str] = &[
    "MessageNew (UID FLAGS) MessageExpunge",
    "MessageNew MessageExpunge FlagChange",
    "MailboxName SubscriptionChange",
    "MailboxMetadataChange ServerMetadataChange",
    "MessageNew",
    "AnnotationChange",
    "NONE",
];
const ENABLES: &[&str] =
    &["CONDSTORE", "QRESYNC", "IMAP4rev2", "UTF8=ACCEPT", "METADATA", "METADATA-SERVER", "X"];
const ENTRIES: &[&str] = &[
    "/private/comment",
    "/shared/comment",
    "/private/vendor/x/y",
    "/private/specialuse",
    "/shared/admin",
    "/private/filters/values/mine",
    "/shared/filters/values/mine",
    "/private",
    "bad",
];
const ODD: &[&str] = &[
    "(",
    ")",
    "\"",
    "{",
    "}",
    "\\",
    "*",
    "%",
    "[",
    "]",
    "<",
    ">",
    " ",
    "\t",
    "\0",
    "\u{e4}",
    "NIL",
    "~",
    "+",
    "4294967296",
    "()",
];
/// Commands that are invalid, or invalid in this state.
const NONSENSE: &[&str] = &[
    "",
    "NOOP x",
    "FOO",
    "UID",
    "UID FOO 1",
    "SELECT",
    "LOGIN",
    "LOGIN a b",
    "AUTHENTICATE",
    "AUTHENTICATE X",
    "(((((((((((",
    "FETCH",
    "SEARCH",
    "STORE 1",
    "LIST",
    "IDLE x",
    "DONE",
    "ENABLE",
    "APPEND",
    "APPEND INBOX",
    "EXAMINE INBOX (X)",
    "SEARCH NOT",
    "\"",
    "FETCH 1 (BODY[",
    "STORE 1 FLAGS (",
    "SELECT INBOX (QRESYNC (",
    "UID FETCH 1 FLAGS (CHANGEDSINCE 0)",
    "COPY 1",
    "MOVE $ $",
];

impl Grammar {
    pub fn new(seed: u64) -> Self {
        Grammar { uid_only: false, random: SeededRandom::new(seed) }
    }

    fn below(&self, n: usize) -> usize {
        self.random.below(n as u64) as usize
    }

    fn chance(&self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    fn one<'a>(&self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// Several, with spaces between.
    fn some(&self, of: &[&str], most: usize) -> String {
        let some: Vec<&str> = (0..1 + self.below(most)).map(|_| self.one(of)).collect();
        some.join(" ")
    }

    /// A command without its tag and line end.
    pub fn command(&self) -> Vec<Piece> {
        let pieces = match self.below(40) {
            0 => return vec![self.text(self.one(&["IDLE", "idle"]))],
            1 => return vec![self.text(self.one(&["AUTHENTICATE PLAIN", "AUTHENTICATE OAUTHBEARER"]))],
            2 => return vec![self.text("UNAUTHENTICATE")],
            _ => self.attended(),
        };
        let wait = |piece| match piece {
            Piece::Literal { bytes, binary, .. } => Piece::Literal { bytes, binary, wait: self.chance(2) },
            text => text,
        };
        pieces.into_iter().map(wait).collect()
    }

    /// One that needs no answer to anything: its literals do not wait.
    pub fn unattended(&self) -> Vec<Piece> {
        self.attended()
    }

    fn attended(&self) -> Vec<Piece> {
        match self.below(20) {
            0 | 1 => self.append(),
            2 => self.replace(),
            3 => self.with_literals(&self.line()),
            4 => vec![self.text(&self.spoilt(&self.line()))],
            5 if self.chance(3) => vec![self.text(self.one(NONSENSE))],
            _ => vec![self.text(&self.line())],
        }
    }

    /// Nothing that would begin a literal behind the end of the line.
    fn text(&self, line: &str) -> Piece {
        let line = line.replace(['\r', '\n'], "");
        Piece::Text(if line.ends_with('}') { format!("{line} ") } else { line }.into_bytes())
    }

    /// The beginning of something.
    pub fn half(&self) -> Vec<u8> {
        let line = format!("h {}", self.line());
        let cut = line.floor_char_boundary(self.below(line.len() + 1));
        match self.below(4) {
            0 => b"h APPEND INBOX {1000+}\r\nSubject: half of".to_vec(),
            1 => b"h IDLE\r\n".to_vec(),
            2 => format!("{line}\r\n").into_bytes(),
            _ => line.as_bytes()[..cut].to_vec(),
        }
    }

    /// Some bytes in it are others.
    fn spoilt(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for _ in 0..1 + self.below(3) {
            let at = line.floor_char_boundary(self.below(line.len() + 1));
            match self.below(3) {
                0 => line.insert_str(at, self.one(ODD)),
                1 => line.truncate(at),
                _ => drop(line.drain(at..).next()),
            }
        }
        // What begins to speak otherwise is tried elsewhere.
        let begins = ["COMPRESS", "STARTTLS", "IDLE", "AUTHENTICATE"];
        if begins.iter().any(|name| line.to_uppercase().contains(name)) { "NOOP".to_owned() } else { line }
    }

    /// Its first quoted string or name comes as a literal.
    fn with_literals(&self, line: &str) -> Vec<Piece> {
        let mut words = line.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some(verb), Some(name), rest) if !name.contains(['(', '"', '*', '%', '$']) => {
                let bytes = name.as_bytes().to_vec();
                let mut pieces = vec![
                    Piece::Text(format!("{verb} ").into_bytes()),
                    Piece::Literal { bytes, wait: false, binary: false },
                ];
                let rest = rest.map(|rest| format!(" {rest}")).unwrap_or_default();
                pieces.push(self.text(&rest));
                pieces
            }
            _ => vec![self.text(line)],
        }
    }

    fn message(&self) -> Vec<u8> {
        let n = self.below(100);
        let subject = self.one(&["hello", "Re: hello", "x", "=?utf-8?q?=C3=A4?=", "\u{e4}", ""]);
        let id = format!("Message-ID: <{n}@x>\r\nReferences: <{}@x>\r\n", self.below(100));
        let body = match self.below(6) {
            0 => "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\npart one\r\n--b\r\n\
                  Content-Transfer-Encoding: base64\r\n\r\naGVsbG8=\r\n--b--\r\n"
                .to_owned(),
            1 => "Content-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\ninner body\r\n".to_owned(),
            2 => format!("\r\n{}\r\n", "body ".repeat(self.below(3000))),
            3 => String::new(),
            _ => "\r\nbody\r\n".to_owned(),
        };
        format!("From: a{n}@x.org\r\nTo: \"B\" <b@x>, c@y\r\nSubject: {subject}\r\n{id}{body}").into_bytes()
    }

    fn literal(&self) -> Piece {
        Piece::Literal { bytes: self.message(), wait: false, binary: self.chance(8) }
    }

    fn append(&self) -> Vec<Piece> {
        let mut pieces = vec![self.text(&format!("APPEND {}", self.one(MAILBOXES)))];
        for _ in 0..1 + self.below(12) / 10 {
            let flags = if self.chance(2) { format!(" ({})", self.some(FLAGS, 3)) } else { String::new() };
            let date = if self.chance(4) { " \" 1-Jan-2020 10:00:00 +0100\"" } else { "" };
            match self.below(8) {
                0 => {
                    let url = self.one(&[
                        "/INBOX/;UID=1",
                        "/INBOX;UIDVALIDITY=1/;UID=2",
                        "/Shared/;UID=1/;SECTION=TEXT",
                    ]);
                    pieces.push(self.text(&format!("{flags}{date} CATENATE (URL \"{url}\" TEXT ")));
                    pieces.push(self.literal());
                    pieces.push(self.text(")"));
                }
                1 => {
                    pieces.push(self.text(&format!("{flags} UTF8 (")));
                    pieces.push(Piece::Literal { bytes: self.message(), wait: false, binary: true });
                    pieces.push(self.text(")"));
                }
                _ => {
                    pieces.push(self.text(&format!("{flags}{date} ")));
                    pieces.push(self.literal());
                }
            }
        }
        if self.chance(12) {
            pieces.push(self.text(self.one(ODD)));
        }
        pieces
    }

    fn replace(&self) -> Vec<Piece> {
        let uid = self.one(&["", "UID "]);
        let head = format!("{uid}REPLACE {} {} ", self.one(SETS), self.one(MAILBOXES));
        vec![self.text(&head), self.literal()]
    }

    fn search_keys(&self) -> String {
        let key = || match self.below(8) {
            0 => format!("NOT {}", self.one(KEYS)),
            1 => format!("OR {} {}", self.one(KEYS), self.one(KEYS)),
            2 => format!("({})", self.some(KEYS, 3)),
            _ => self.one(KEYS).to_owned(),
        };
        let keys: Vec<String> = (0..1 + self.below(3)).map(|_| key()).collect();
        keys.join(" ")
    }

    fn returns(&self) -> String {
        if self.chance(2) { format!("RETURN ({}) ", self.one(RETURNS)) } else { String::new() }
    }

    fn line(&self) -> String {
        let (mailbox, set, uid) = (self.one(MAILBOXES), self.one(SETS), self.one(&["", "UID "]));
        let uid = if self.uid_only && !self.chance(20) { "UID " } else { uid };
        let set = if self.chance(40) { self.one(&["0", "1:2:3", "x"]) } else { set };
        match self.below(44) {
            0..=5 => {
                let parameters = match self.below(6) {
                    0 => " (CONDSTORE)".to_owned(),
                    1 => format!(" (QRESYNC ({} {}))", 1 + self.below(9), 1 + self.below(50)),
                    2 => format!(" (QRESYNC (123 5 {set} ({set} {set})))"),
                    _ => String::new(),
                };
                let often = if self.chance(2) { self.one(&["INBOX", "Shared", MAILBOXES[12]]) } else { mailbox };
                format!("{} {often}{parameters}", self.one(&["SELECT", "SELECT", "EXAMINE"]))
            }
            6..=10 => {
                let items = format!("({})", self.some(&ITEMS[..29], 4).replace("ALL", "UID").replace("FULL", "FLAGS"));
                let items = if self.chance(6) { self.one(ITEMS).to_owned() } else { items };
                let modifiers = match self.below(10) {
                    0 => " (CHANGEDSINCE 3)",
                    1 => " (CHANGEDSINCE 3 VANISHED)",
                    2 => " (PARTIAL 1:2)",
                    _ => "",
                };
                format!("{uid}FETCH {set} {items}{modifiers}")
            }
            11..=14 => {
                let modifier = if self.chance(6) { "(UNCHANGEDSINCE 5) " } else { "" };
                let sign = self.one(&["+", "-", ""]);
                let silent = self.one(&["", ".SILENT"]);
                format!("{uid}STORE {set} {modifier}{sign}FLAGS{silent} ({})", self.some(FLAGS, 3))
            }
            15 | 16 => format!("{uid}COPY {set} {mailbox}"),
            17 | 18 => format!("{uid}MOVE {set} {mailbox}"),
            19 => self.one(&["EXPUNGE", "UID EXPUNGE 1:*", "CLOSE", "UNSELECT", "CHECK"]).to_owned(),
            20..=22 => format!("{uid}SEARCH {}{}", self.returns(), self.search_keys()),
            23 => format!("{uid}SORT {}({}) UTF-8 {}", self.returns(), self.some(SORTS, 3), self.search_keys()),
            24 => {
                let algorithm = self.one(&["REFERENCES", "ORDEREDSUBJECT"]);
                format!("{uid}THREAD {algorithm} US-ASCII {}", self.search_keys())
            }
            25 => {
                let source = self.one(&["selected", "personal", "subscribed", "inboxes"]);
                let scope = if self.chance(2) { source.to_owned() } else { format!("subtree ({mailbox})") };
                format!("ESEARCH IN ({scope}) {}{}", self.returns(), self.search_keys())
            }
            26 => format!("STATUS {mailbox} ({})", self.some(STATUS, 3)),
            27 => {
                let options = self.one(&["", "(SUBSCRIBED) ", "(REMOTE RECURSIVEMATCH SUBSCRIBED) ", "(SPECIAL-USE) "]);
                let pattern = self.one(&["*", "%", "Work/%", "\"Other Users/*\"", "(INBOX Work*)", "\"\""]);
                let returns = self.one(&[
                    "", " RETURN (CHILDREN)", " RETURN (STATUS (MESSAGES SIZE))", " RETURN (MYRIGHTS SUBSCRIBED)",
                    " RETURN (METADATA (\"/private/comment\") SPECIAL-USE)",
                ]);
                format!("LIST {options}\"\" {pattern}{returns}")
            }
            28 => format!("LSUB \"\" {}", self.one(&["*", "%", "Work*"])),
            29 | 30 => match self.below(5) {
                0 => format!("CREATE {mailbox} (USE (\\Junk))"),
                1 => format!("DELETE {mailbox}"),
                2 => format!("RENAME {mailbox} {}", self.one(MAILBOXES)),
                _ => format!("CREATE {mailbox}"),
            },
            31 => format!("{} {mailbox}", self.one(&["SUBSCRIBE", "UNSUBSCRIBE"])),
            32..=34 => {
                let shared = if self.chance(3) { mailbox } else { "Shared" };
                match self.below(6) {
                    0 => format!("DELETEACL {shared} {}", self.one(WHO)),
                    1 => format!("GETACL {shared}"),
                    2 => format!("LISTRIGHTS {shared} {}", self.one(WHO)),
                    3 => format!("MYRIGHTS {mailbox}"),
                    _ => format!("SETACL {shared} {} {}", self.one(WHO), self.one(RIGHTS)),
                }
            }
            35 => format!("ENABLE {}", self.some(ENABLES, 2)),
            36 => match self.below(3) {
                0 => "NOTIFY NONE".to_owned(),
                1 => format!("NOTIFY SET (SELECTED-DELAYED ({}))", self.one(EVENTS)),
                _ => {
                    let scope = self.one(&["personal", "subscribed", "inboxes", "subtree Work", "mailboxes (INBOX Shared)"]);
                    let status = self.one(&["", "STATUS "]);
                    format!("NOTIFY SET {status}(selected ({})) ({scope} ({}))", self.one(EVENTS), self.one(EVENTS))
                }
            },
            37 => format!("SETMETADATA {mailbox} ({} {})", self.one(ENTRIES), self.one(&["\"value\"", "NIL", "UNSEEN"])),
            38 => {
                let options = self.one(&["", "(MAXSIZE 3) ", "(DEPTH infinity) "]);
                format!("GETMETADATA {options}{mailbox} ({})", self.some(ENTRIES, 2))
            }
            39 => match self.below(4) {
                0 => format!("GETQUOTA {}", self.one(WHO)),
                1 => "SETQUOTA you@localhost (STORAGE 10)".to_owned(),
                _ => format!("GETQUOTAROOT {mailbox}"),
            },
            40 => match self.below(3) {
                0 => "GENURLAUTH \"imap://me@localhost/INBOX/;uid=1;urlauth=anonymous\" INTERNAL".to_owned(),
                1 => format!("RESETKEY {mailbox}"),
                _ => "URLFETCH \"imap://me@localhost/INBOX/;uid=1;urlauth=anonymous:internal:91354a473744909de610943775f92038\"".to_owned(),
            },
            41 => self.one(&["CANCELUPDATE \"t1\" \"t2\"", "ID NIL", "ID (\"name\" \"x\")", "NAMESPACE", "CAPABILITY"]).to_owned(),
            _ => "NOOP".to_owned(),
        }
    }
}
