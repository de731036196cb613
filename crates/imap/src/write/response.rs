//! Responses (RFC 3501 §7).

use super::Writer;
use crate::types::{
    AString, Atom, Code, ListExtension, ListItem, MailboxAttribute, NamespaceEntry, ObjectId, PermanentFlag,
    Response, Status, StatusData, Tag,
};

impl Writer {
    /// `tag OK [CODE] text`, or `* …` without a tag.
    pub fn status(
        &mut self,
        tag: Option<&Tag>,
        status: Status,
        code: Option<&Code>,
        text: &str,
    ) -> &mut Self {
        match tag {
            Some(tag) => self.tag(tag),
            None => self.raw(b"*"),
        };
        self.space().raw(status.name()).space();
        match code {
            Some(code) => self.raw(b"[").code(code).raw(b"] ").text(text),
            None => self.uncoded(text),
        };
        self.crlf()
    }

    /// `+ text`
    pub fn continuation(&mut self, text: &str) -> &mut Self {
        self.raw(b"+ ").uncoded(text).crlf()
    }

    /// `resp-text` without a code: a bracket at its beginning would be read as one.
    fn uncoded(&mut self, text: &str) -> &mut Self {
        match text.strip_prefix('[') {
            Some(rest) => self.raw(b"(").text(rest),
            None => self.text(text),
        }
    }

    /// `+ base64`: a SASL challenge, which may be empty (RFC 3501 §7.5).
    pub fn challenge(&mut self, base64: &str) -> &mut Self {
        self.raw(b"+ ").raw(base64).crlf()
    }

    /// `* n FETCH (`: items follow, each after [`Writer::item`] or the caller's own space; end with
    /// [`Writer::fetch_end`].
    pub fn fetch_begin(&mut self, sequence: u32) -> &mut Self {
        self.numbered(sequence, "FETCH").raw(b" (")
    }

    /// `)` CRLF
    pub fn fetch_end(&mut self) -> &mut Self {
        self.close().crlf()
    }

    /// `* n UIDFETCH (`, as [`Writer::fetch_begin`] (RFC 9586 §3.3)
    pub fn uid_fetch_begin(&mut self, uid: u32) -> &mut Self {
        self.numbered(uid, "UIDFETCH").raw(b" (")
    }

    /// ` (MODSEQ n)`: the end of a SEARCH or SORT response to a search about mod-sequences (RFC
    /// 7162 §3.1.5).
    pub fn search_modseq(&mut self, modseq: u64) -> &mut Self {
        self.raw(b" (MODSEQ ").number(modseq).close()
    }

    /// `* VANISHED ` or `* VANISHED (EARLIER) `: a set of UIDs follows (RFC 7162 §3.2.10).
    pub fn vanished(&mut self, earlier: bool) -> &mut Self {
        self.raw(if earlier { "* VANISHED (EARLIER) " } else { "* VANISHED " })
    }

    /// A complete response.
    pub fn response(&mut self, response: &Response) -> &mut Self {
        match response {
            Response::Status { tag, status, code, text } => {
                return self.status(tag.as_ref(), *status, code.as_ref(), text);
            }
            Response::Continue(text) => return self.continuation(text),
            Response::Capability(names) => self.raw(b"* CAPABILITY").each_atom(names),
            Response::List(item) => self.raw(b"* LIST ").list_item(item),
            Response::Lsub(item) => self.raw(b"* LSUB ").list_item(item),
            Response::ListUndecodable { attributes, delimiter, wire } => self
                .raw(b"* LIST ")
                .attributes(attributes)
                .space()
                .delimiter(*delimiter)
                .space()
                .astring(wire.as_bytes()),
            Response::MailboxStatus { mailbox, values } => {
                self.raw(b"* STATUS ").mailbox(mailbox).space().list(values, |w, value| {
                    w.raw(value.item.name()).space().status_data(&value.value);
                })
            }
            Response::Search { numbers, modseq } => {
                self.raw(b"* SEARCH");
                numbers.iter().fold(&mut *self, |w, n| w.space().number(u64::from(*n)));
                match modseq {
                    Some(modseq) => self.search_modseq(*modseq),
                    None => self,
                }
            }
            Response::Vanished { earlier, uids } => self.vanished(*earlier).sequence_set(uids),
            Response::ESearch(found) => self.esearch(found),
            Response::Sort(numbers) => {
                self.raw(b"* SORT");
                numbers.iter().fold(&mut *self, |w, n| w.space().number(u64::from(*n)))
            }
            Response::Flags(flags) => self.raw(b"* FLAGS ").flags(flags),
            Response::Exists(n) => self.numbered(*n, "EXISTS"),
            Response::Recent(n) => self.numbered(*n, "RECENT"),
            Response::Expunge(n) => self.numbered(*n, "EXPUNGE"),
            Response::Enabled(names) => self.raw(b"* ENABLED").each_atom(names),
            Response::Namespace(spaces) => self
                .raw(b"* NAMESPACE ")
                .namespace(&spaces.personal)
                .space()
                .namespace(&spaces.other)
                .space()
                .namespace(&spaces.shared),
            Response::JmapAccess(url) => self.raw(b"* JMAPACCESS ").string(url.as_bytes()),
            Response::Acl(data) => self.acl_data(data),
            Response::Metadata { mailbox, entries } => {
                self.raw(b"* METADATA ").metadata_target(mailbox.as_ref()).space().metadata_values(entries)
            }
            Response::MetadataChanged { mailbox, entries } => {
                self.metadata_changed(mailbox.as_ref(), entries)
            }
            Response::Quota { root, resources } => self.quota(root, resources),
            Response::QuotaRoot { mailbox, roots } => self.quota_root(mailbox, roots),
            Response::Id(fields) => self.raw(b"* ID ").id_fields(fields.as_deref()),
            Response::Other(line) => self.raw(b"* ").raw(line),
        };
        self.crlf()
    }

    /// A response code without its brackets.
    pub fn code(&mut self, code: &Code) -> &mut Self {
        if let Some((_, name)) = Code::SIMPLE.iter().find(|(simple, _)| simple == code) {
            return self.raw(name);
        }
        match code {
            Code::BadCharset(charsets) => self.raw(b"BADCHARSET ").list(charsets, |w, charset| {
                w.astring(charset.as_bytes());
            }),
            Code::Capability(names) => self.raw(b"CAPABILITY").each_atom(names),
            Code::PermanentFlags(flags) => self.raw(b"PERMANENTFLAGS ").list(flags, |w, flag| {
                match flag {
                    PermanentFlag::Flag(flag) => w.flag(flag),
                    PermanentFlag::Any => w.raw(b"\\*"),
                };
            }),
            Code::Metadata(code) => self.metadata_code(*code),
            Code::UidNext(n) => self.raw(b"UIDNEXT ").number(u64::from(*n)),
            Code::UidValidity(n) => self.raw(b"UIDVALIDITY ").number(u64::from(*n)),
            Code::Unseen(n) => self.raw(b"UNSEEN ").number(u64::from(*n)),
            Code::HighestModSeq(n) => self.raw(b"HIGHESTMODSEQ ").number(*n),
            Code::Modified(set) => self.raw(b"MODIFIED ").sequence_set(set),
            Code::AppendUid { uid_validity, uids } => {
                self.raw(b"APPENDUID ").number(u64::from(*uid_validity)).space().sequence_set(uids)
            }
            Code::CopyUid { uid_validity, from, to } => self
                .raw(b"COPYUID ")
                .number(u64::from(*uid_validity))
                .space()
                .sequence_set(from)
                .space()
                .sequence_set(to),
            Code::UndefinedFilter(name) => self.raw(b"UNDEFINED-FILTER ").raw(name.as_str()),
            Code::NoUpdate(tag) => self.raw(b"NOUPDATE ").string(tag.as_bytes()),
            Code::MailboxId(id) => self.raw(b"MAILBOXID ").object_id(id),
            // `resp-text-code`: any TEXT-CHAR except "]".
            Code::Other(name, Some(text)) => self.raw(name.as_str()).space().text(&text.replace(']', "?")),
            Code::Other(name, None) => self.raw(name.as_str()),
            // The rest are the codes of `Code::SIMPLE`, found above.
            _ => self.raw(b"ALERT"),
        }
    }

    /// `(objectid)` (RFC 8474 §7)
    pub fn object_id(&mut self, id: &ObjectId) -> &mut Self {
        self.open().raw(id.as_str()).close()
    }

    fn status_data(&mut self, data: &StatusData) -> &mut Self {
        match data {
            StatusData::Number(number) => self.number(*number),
            StatusData::Id(id) => self.object_id(id),
            StatusData::Nil => self.nil(),
        }
    }

    /// Fields of ID, or NIL (RFC 2971 §3).
    pub(super) fn id_fields(&mut self, fields: Option<&[(AString, Option<AString>)]>) -> &mut Self {
        match fields {
            None => self.nil(),
            Some(fields) => self.list(fields, |w, (name, value)| {
                w.string(name.as_bytes()).space().nstring(value.as_ref().map(AString::as_bytes));
            }),
        }
    }

    pub(super) fn each_atom(&mut self, names: &[Atom]) -> &mut Self {
        names.iter().fold(self, |w, name| w.space().raw(name.as_str()))
    }

    fn numbered(&mut self, n: u32, name: &str) -> &mut Self {
        self.raw(b"* ").number(u64::from(n)).space().raw(name)
    }

    fn list_item(&mut self, item: &ListItem) -> &mut Self {
        self.attributes(&item.attributes).space().delimiter(item.delimiter).space().mailbox(&item.mailbox);
        if item.extended.is_empty() {
            return self;
        }
        self.space().list(&item.extended, |w, extension| {
            match extension {
                // The tag is an astring, the options are always quoted (RFC 5258 §6).
                ListExtension::ChildInfo(options) => w.raw(b"\"CHILDINFO\" ").list(options, |w, option| {
                    w.string(option.name());
                }),
                ListExtension::OldName(old) => {
                    let old = w.encoded(old.given());
                    w.raw(b"\"OLDNAME\" (").string(old).close()
                }
            };
        })
    }

    fn attributes(&mut self, attributes: &[MailboxAttribute]) -> &mut Self {
        self.list(attributes, |w, attribute| {
            w.raw(b"\\").raw(attribute.name());
        })
    }

    fn delimiter(&mut self, delimiter: Option<char>) -> &mut Self {
        self.nstring(delimiter.map(|c| c.to_string()))
    }

    fn namespace(&mut self, entries: &[NamespaceEntry]) -> &mut Self {
        if entries.is_empty() {
            return self.nil();
        }
        self.open();
        for entry in entries {
            // A string, never an atom (RFC 2342 §6).
            let prefix = self.encoded(entry.prefix.as_str());
            self.open().string(prefix).space().delimiter(entry.delimiter).close();
        }
        self.close()
    }
}
