//! GETMETADATA, SETMETADATA and METADATA (RFC 5464 §5).

use super::Writer;
use crate::types::{Depth, Entry, GetMetadata, Mailbox, MetadataCode, SetMetadata};

impl Writer {
    /// `* METADATA mailbox (entry value`: further entries follow by [`Writer::metadata_entry`],
    /// after a space each; end with [`Writer::close`] and [`Writer::crlf`]. `None` is the server.
    pub fn metadata_begin(&mut self, mailbox: Option<&Mailbox>) -> &mut Self {
        self.raw(b"* METADATA ").metadata_target(mailbox).raw(b" (")
    }

    /// `entry value`; `None` is NIL, a value with a NUL is a literal8.
    pub fn metadata_entry(&mut self, entry: &Entry, value: Option<&[u8]>) -> &mut Self {
        self.entry(entry).space();
        match value {
            Some(value) if value.contains(&0) => self.raw(b"~").literal(value),
            value => self.nstring(value),
        }
    }

    pub(super) fn metadata_values(&mut self, entries: &[(Entry, Option<Vec<u8>>)]) -> &mut Self {
        self.list(entries, |w, (entry, value)| {
            w.metadata_entry(entry, value.as_deref());
        })
    }

    pub(super) fn metadata_changed(&mut self, mailbox: Option<&Mailbox>, entries: &[Entry]) -> &mut Self {
        self.raw(b"* METADATA ").metadata_target(mailbox);
        entries.iter().fold(self, |w, entry| w.space().entry(entry))
    }

    pub(super) fn get_metadata(&mut self, get: &GetMetadata) -> &mut Self {
        let (max_size, depth) = (get.max_size, Some(get.depth).filter(|depth| *depth != Depth::Zero));
        if max_size.is_some() || depth.is_some() {
            self.raw(b" (");
            if let Some(size) = max_size {
                self.raw(b"MAXSIZE ").number(size);
            }
            if max_size.is_some() && depth.is_some() {
                self.space();
            }
            if let Some(depth) = depth {
                self.raw(b"DEPTH ").raw(depth.name());
            }
            self.close();
        }
        self.space().metadata_target(get.mailbox.as_ref()).space();
        self.entries(&get.entries)
    }

    pub(super) fn set_metadata(&mut self, set: &SetMetadata) -> &mut Self {
        self.space().metadata_target(set.mailbox.as_ref()).space().metadata_values(&set.entries)
    }

    /// `entries`, always as a list.
    pub(super) fn entries(&mut self, entries: &[Entry]) -> &mut Self {
        self.list(entries, |w, entry| {
            w.entry(entry);
        })
    }

    pub(super) fn metadata_code(&mut self, code: MetadataCode) -> &mut Self {
        match code {
            MetadataCode::LongEntries(size) => self.raw(b"METADATA LONGENTRIES ").number(size),
            MetadataCode::MaxSize(size) => self.raw(b"METADATA MAXSIZE ").number(size),
            MetadataCode::TooMany => self.raw(b"METADATA TOOMANY"),
            MetadataCode::NoPrivate => self.raw(b"METADATA NOPRIVATE"),
        }
    }

    pub(super) fn metadata_target(&mut self, mailbox: Option<&Mailbox>) -> &mut Self {
        match mailbox {
            Some(mailbox) => self.mailbox(mailbox),
            None => self.raw(b"\"\""),
        }
    }

    fn entry(&mut self, entry: &Entry) -> &mut Self {
        self.astring(entry.as_str())
    }
}
