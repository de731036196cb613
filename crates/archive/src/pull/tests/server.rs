//! A scripted IMAP server: a small honest one, with faults on request.

mod messages;
mod session;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;

use self::session::Session;
use crate::client::{Compress, Credential, Security, Server, ServerSeen, Timeouts, Trust};

/// A mailbox of the script.
#[derive(Debug, Clone, Default)]
pub(crate) struct Box_ {
    pub(crate) uidvalidity: u32,
    pub(crate) mailboxid: Option<String>,
    /// UID, flags, bytes.
    pub(crate) messages: BTreeMap<u32, (String, Vec<u8>)>,
    /// Mod-sequence of each message.
    pub(crate) modseqs: BTreeMap<u32, u64>,
    /// UIDs that were expunged, and when.
    pub(crate) vanished: BTreeMap<u32, u64>,
    pub(crate) modseq: u64,
    pub(crate) uidnext: u32,
}

/// A fault of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// BYE after so many messages, once for each occurrence.
    Bye(usize, &'static str),
    /// The connection always ends in the middle of this message's literal.
    CutAt(u32),
    /// The same, once.
    CutOnceAt(u32),
    /// A command that asks for this message is answered NO, without the message.
    RefuseAt(u32),
    /// The message is left out and the command is answered OK.
    Skip(u32),
    /// Other bytes are sent for this message, and the command is answered NO.
    StandInAt(u32),
    /// The same, and an untagged NO; then the connection ends, once.
    StandInThenEnd(u32),
    /// This message comes with every answer to FETCH, asked for or not.
    Unasked(u32),
    /// This mailbox cannot be selected, with this answer. With BYE the connection ends.
    Selecting(&'static str, &'static str),
    /// RFC822.SIZE and the order of items are wrong: flags and UID come after the bytes.
    Reordered,
    /// `BODY[] NIL` for this message.
    NilAt(u32),
    /// The body of this message is a quoted string, of that one a literal8.
    Quoted(u32),
    Literal8(u32),
    /// The mailbox disappears before a message is sent: SELECT is answered NO.
    MailboxGone,
    /// A line without an end.
    EndlessLine,
    /// This message begins, and then one byte a millisecond follows forever.
    DripAt(u32),
    /// This message is announced with so many bytes, and they are sent.
    HugeAt(u32, u64),
    /// Endless `* OK` lines instead of the answer to commands with this prefix; or so many of them,
    /// then the answer.
    Chatter(&'static str, usize),
    /// EXISTS reports so many messages, UIDNEXT one more; missing ones are not sent.
    Claims(u32),
    /// EXISTS reports so many messages too many.
    More(u32),
    /// The INTERNALDATE of this message.
    Date(u32, &'static str),
    /// APPEND with a keyword, and STORE that adds one, are refused.
    NoKeywords,
    /// Flags that include this keyword are refused.
    NoKeyword(&'static str),
    /// CREATE of a name with a dot is refused.
    NoDots,
    /// Dots separate levels.
    Dots,
    /// APPEND adds a header field before what it stores.
    Adds,
    /// So many logins are refused with "too many connections".
    Busy(usize),
    /// All logins after the first are refused with that.
    OneLogin(&'static str),
    /// SEARCH and FETCH of flags leave out half of the messages.
    HalfListed,
    /// Another UIDVALIDITY at each SELECT.
    RestlessUidValidity,
    /// FETCH is never answered.
    Silent,
    /// FETCH is answered once this fault is removed.
    Held,
    /// The connection ends before an APPEND is answered or executed, once.
    EndAtAppend,
    /// An APPEND is executed, and the connection ends before the answer, once.
    EndAfterAppend,
    /// So many APPEND commands are answered "later".
    Throttle(usize),
    /// A mailbox accepts so many messages; then it is over quota.
    Room(usize),
    /// RFC822.SIZE is one byte too many.
    WrongSizes,
    /// APPENDUID is not sent.
    NoUidplus,
    /// SEARCH and FETCH process so many messages, the last ones (RFC 9738).
    MessageLimit(usize),
    /// Names of mailboxes that differ only in case name the same mailbox.
    IgnoresCase,
}

/// The server's state, and the commands it received.
#[derive(Debug, Default)]
pub(crate) struct ServerState {
    pub(crate) boxes: BTreeMap<String, Box_>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) capabilities: String,
    /// Names that LIST shows and SELECT does not find.
    pub(crate) unselectable: Vec<String>,
    /// Command lines without their tags.
    pub(crate) asked: Vec<String>,
    pub(crate) connections: usize,
}

impl ServerState {
    fn claims(&self) -> Option<u32> {
        self.faults.iter().find_map(|fault| if let Fault::Claims(n) = fault { Some(*n) } else { None })
    }

    fn exists(&self, mailbox: &Box_) -> u32 {
        let more = self.faults.iter().find_map(|f| if let Fault::More(n) = f { Some(*n) } else { None });
        self.claims().unwrap_or(mailbox.messages.len() as u32 + more.unwrap_or(0))
    }

    fn uidnext(&self, mailbox: &Box_) -> u32 {
        self.claims().map_or(mailbox.uidnext, |n| n + 1)
    }
}

/// A running script.
pub(crate) struct Script {
    pub(crate) world: Arc<Mutex<ServerState>>,
    pub(crate) port: u16,
}

impl Box_ {
    /// A mailbox with messages 1 to `n`.
    pub(crate) fn with(n: u32) -> Self {
        let mut mailbox = Box_ { uidvalidity: 7, uidnext: 1, ..Box_::default() };
        for _ in 0..n {
            mailbox.add(None);
        }
        mailbox
    }

    /// Adds a message; its UID.
    pub(crate) fn add(&mut self, bytes: Option<Vec<u8>>) -> u32 {
        let uid = self.uidnext;
        self.uidnext += 1;
        self.modseq += 1;
        let bytes = bytes.unwrap_or_else(|| text(uid).into_bytes());
        self.messages.insert(uid, ("\\Seen".into(), bytes));
        self.modseqs.insert(uid, self.modseq);
        uid
    }

    pub(crate) fn set_flags(&mut self, uid: u32, flags: &str) {
        self.modseq += 1;
        self.messages.get_mut(&uid).unwrap().0 = flags.into();
        self.modseqs.insert(uid, self.modseq);
    }

    pub(crate) fn expunge(&mut self, uid: u32) {
        self.modseq += 1;
        self.messages.remove(&uid);
        self.modseqs.remove(&uid);
        self.vanished.insert(uid, self.modseq);
    }
}

/// The text of message `uid`.
pub(crate) fn text(uid: u32) -> String {
    format!("Subject: message {uid}\r\n\r\n{}", "x".repeat(uid as usize % 7))
}

impl Script {
    /// Serves a mailbox called INBOX. `capabilities` are added to IMAP4rev1.
    pub(crate) async fn start(inbox: Box_, capabilities: &str, faults: &[Fault]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let world = ServerState {
            boxes: [("INBOX".to_owned(), inbox)].into(),
            faults: faults.to_vec(),
            capabilities: capabilities.to_owned(),
            ..ServerState::default()
        };
        let world = Arc::new(Mutex::new(world));
        let serving = world.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let session = Session::new(serving.clone());
                // A client that disconnects ends only its session.
                tokio::spawn(async move { drop(session.serve(stream).await) });
            }
        });
        Script { world, port }
    }

    pub(crate) fn server(&self) -> Server {
        Server {
            host: "127.0.0.1".into(),
            port: self.port,
            security: Security::None,
            tls: Trust::none().config().unwrap(),
            user: "me".into(),
            credentials: Arc::new(Credential::Password(sealpost_imap::types::Secret::new(
                b"secret".to_vec(),
            ))),
            compress: Compress::Never,
            reached: ServerSeen::default(),
            timeouts: Timeouts {
                first: Duration::from_secs(60),
                connect: Duration::from_secs(60),
                greeting: Duration::from_secs(60),
                answer: Duration::from_secs(60),
                within: Duration::from_secs(60),
                retry: Duration::from_millis(1),
            },
        }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut ServerState)) {
        change(&mut self.world.lock().unwrap());
    }

    pub(crate) fn inbox(&self, change: impl FnOnce(&mut Box_)) {
        self.change(|world| change(world.boxes.get_mut("INBOX").unwrap()));
    }

    /// How many commands contain this.
    pub(crate) fn asked_for(&self, part: &str) -> usize {
        self.world.lock().unwrap().asked.iter().filter(|line| line.contains(part)).count()
    }

    /// How many commands began with this.
    pub(crate) fn asked(&self, begin: &str) -> usize {
        self.world.lock().unwrap().asked.iter().filter(|line| line.starts_with(begin)).count()
    }
}
