//! State that all nodes of one bucket must agree on: whether its conditional creates can be relied
//! on, and its format.
//!
//! Each node finds that out for itself ([`crate::probe`]), and may be wrong: a proxy in between
//! drops the header, a server of the store has another version, a request failed at the wrong
//! moment. If one node took for a log's only entry an object that another overwrites, acknowledged
//! entries would be lost. So the first node of a bucket leaves a mark with its finding, and later
//! nodes follow the mark or refuse to start.
//!
//! A mark is written before it is looked whether there are others. So of two that come first at
//! once and differ, one at least sees both.
//!
//! The mark that decides has a MAC under `server.key` in its name ([`StoreMark`], decision 71):
//! what else is in that folder was planted, or left by an earlier version, whose marks had none.
//! Those decide only in a bucket without an authentic mark, on a node that never saw one; the first
//! node that comes then adds it. A node that has seen one keeps it outside of the bucket, and
//! writes it again when it is gone.
//!
//! The MAC is over the bucket's name, too, so that the mark of another bucket with the same key says
//! nothing here. Marks of earlier versions had no name in them: those are *unbound*, and decide only
//! until there is one that is bound.

use std::fmt;

use futures::TryStreamExt;
use futures::future::try_join_all;
use sealpost_base::{Error, Result};

use super::{AppendMode, Store};
use crate::Sealed;
use crate::format::{self, FORMAT};
use crate::remote::Remote;
use crate::server_key::{MAC_BYTES, Macs, Purpose, ServerKeys};

#[cfg(test)]
mod tests;

/// The folder with the marks: `conditional` or `siblings`.
pub const MODE_MARKERS: &str = "store/appends";
/// The folder with the mark that says which format the bucket has.
const FORMATS: &str = "store/format";

impl AppendMode {
    const ALL: [AppendMode; 2] = [AppendMode::Conditional, AppendMode::Siblings];

    /// `conditional` or `siblings`.
    pub fn name(self) -> &'static str {
        match self {
            AppendMode::Conditional => "conditional",
            AppendMode::Siblings => "siblings",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|append_mode| append_mode.name() == name)
    }

    /// The mark of it that earlier versions leave and go by: it is in every bucket.
    pub(super) fn mark(self) -> String {
        format!("{MODE_MARKERS}/{}", self.name())
    }
}

/// Of a mark that is unbound.
const UNBOUND: &[u8] = b"sealpost store mark v1";
/// Of a mark that is bound to a bucket.
const BOUND: &[u8] = b"sealpost store mark v2";

/// What marks of a bucket are made with.
struct Marker<'a> {
    macs: Macs,
    /// Which bucket it is.
    bucket: &'a str,
}

/// The state that all nodes of a bucket share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreMark {
    /// How they append.
    pub append_mode: AppendMode,
    /// The bucket's format.
    pub format: u32,
    /// How often that was decided again. The latest counts, so that restoring an earlier mark
    /// changes nothing.
    pub change: u32,
    /// The mark says of which bucket it is.
    pub is_bound: bool,
}

/// As in its name, before the MAC.
impl fmt::Display for StoreMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{:08x}", self.append_mode.name(), self.format, self.change)
    }
}

impl StoreMark {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (append_mode, format, change) = (parts.next()?, parts.next()?, parts.next()?);
        let mark = StoreMark {
            append_mode: AppendMode::named(append_mode)?,
            format: format.parse().ok()?,
            change: u32::from_str_radix(change, 16).ok()?,
            is_bound: true,
        };
        // What is written in another way is none.
        (parts.next().is_none() && mark.to_string() == text).then_some(mark)
    }

    fn path(self, marker: &Marker<'_>) -> String {
        let text = self.to_string();
        let mac = match self.is_bound {
            true => marker.macs.sign(&[BOUND, text.as_bytes(), b" ", marker.bucket.as_bytes()]),
            false => marker.macs.sign(&[UNBOUND, text.as_bytes()]),
        };
        let hex: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{MODE_MARKERS}/{self}-{hex}")
    }

    /// The mark of that name in the folder of marks; `None` if none of the keys vouches for it.
    fn authentic(name: &str, marker: &Marker<'_>) -> Option<Self> {
        let (text, hex) = name.rsplit_once('-')?;
        let mark = Self::parse(text)?;
        let mut mac = [0; MAC_BYTES];
        if hex.len() != 2 * MAC_BYTES || !hex.is_ascii() {
            return None;
        }
        for (byte, digits) in mac.iter_mut().zip(hex.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        let is_by_key = |parts: &[&[u8]]| marker.macs.verify_any(parts, &mac).is_some();
        if is_by_key(&[BOUND, text.as_bytes(), b" ", marker.bucket.as_bytes()]) {
            return Some(mark);
        }
        is_by_key(&[UNBOUND, text.as_bytes()]).then_some(StoreMark { is_bound: false, ..mark })
    }

    /// The mark of that name, if one of the keys vouches for it in that bucket.
    pub(crate) fn parse_authentic(name: &str, keys: &ServerKeys, bucket: &str) -> Option<Self> {
        Self::authentic(name, &Marker { macs: keys.macs(Purpose::Store), bucket })
    }

    /// As a node keeps it.
    pub fn to_number(self) -> u64 {
        let append_mode = AppendMode::ALL
            .iter()
            .position(|append_mode| *append_mode == self.append_mode)
            .unwrap_or_default();
        let append_mode = append_mode as u64 | if self.is_bound { BOUND_BIT } else { 0 };
        u64::from(self.change) << 32 | u64::from(self.format & 0xff_ffff) << 8 | append_mode
    }

    /// What [`StoreMark::to_number`] made.
    pub fn from_number(number: u64) -> Option<Self> {
        Some(StoreMark {
            append_mode: *AppendMode::ALL.get((number & (0xff ^ BOUND_BIT)) as usize)?,
            format: (number >> 8 & 0xff_ffff) as u32,
            change: (number >> 32) as u32,
            is_bound: number & BOUND_BIT != 0,
        })
    }
}

/// In the number of a mark.
const BOUND_BIT: u64 = 0x80;

/// What a node brings to a bucket: its keys, and the mark that it saw there last.
pub struct MarkMemory<'a> {
    /// What vouches for marks.
    pub keys: &'a ServerKeys,
    /// The last authentic mark that this node has seen.
    pub seen: Option<StoreMark>,
}

/// What is in the folder of marks.
#[derive(Default)]
struct ListedMarks {
    /// The marks that a key vouches for: those of the latest change; the bound ones if there are any.
    authentic: Vec<StoreMark>,
    /// The unbound ones, if there are bound ones.
    unbound: Vec<StoreMark>,
    /// The mark of earlier versions, which any program can write.
    plain: Vec<AppendMode>,
    /// Names that are neither, and one of them.
    foreign: (usize, String),
}

impl Store {
    /// The store in the append mode of all its nodes; the first one decides. Stores other than
    /// buckets are unchanged. With `memory` only authentic marks decide, if there are any; returns
    /// the mark that this node follows, to be remembered, if there is one.
    ///
    /// # Errors
    /// `Invalid` if others rely on conditional creates and this process found that it cannot, or if
    /// the first nodes did not agree, with the remedy. Errors of the store.
    pub async fn pin_append_mode(self, memory: Option<MarkMemory<'_>>) -> Result<(Self, Option<StoreMark>)> {
        let Some(remote) = self.0.remote.clone() else { return Ok((self, None)) };
        if let Some(memory) = memory {
            let marker = Marker { macs: memory.keys.macs(Purpose::Store), bucket: remote.url() };
            let mut listed = self.listed_marks(&marker).await?;
            listed.report_foreign();
            // This node has seen one that says of which bucket it is: those that do not are of another.
            if memory.seen.is_some_and(|seen| seen.is_bound) && listed.authentic.iter().any(|m| !m.is_bound) {
                listed.unbound = std::mem::take(&mut listed.authentic);
            }
            let mut authentic = listed.authentic;
            let change = authentic.first().map(|mark| mark.change);
            if let Some(seen) = memory.seen.filter(|seen| change.is_none_or(|change| change < seen.change)) {
                tracing::error!(
                    mark = %seen, "the bucket's append mode and format were removed or rolled back; they are recorded again"
                );
                self.put_new(&seen.path(&marker), Sealed::marker()).await?;
                authentic = vec![seen];
            }
            let contradicts = |unbound: &&StoreMark| {
                let later = authentic.first().filter(|mark| mark.change < unbound.change);
                later.is_some_and(|mark| mark.append_mode != unbound.append_mode)
            };
            if let Some(unbound) = listed.unbound.iter().find(contradicts) {
                return Err(Error::invalid(format!(
                    "{} contradicts the mark of this bucket: it was copied from another bucket, or a node of an \
                     earlier version changed the append mode. Remove it, or stop all servers and run: sealpost store \
                     probe --reset-append-mode",
                    unbound.path(&marker)
                )));
            }
            if let [mark, rest @ ..] = authentic.as_slice() {
                if let Some(other) = authentic.iter().find(|mark| mark.format != FORMAT) {
                    return Err(format::other("this store", Some(other.format)));
                }
                let recorded: Vec<AppendMode> = authentic.iter().map(|mark| mark.append_mode).collect();
                if rest.is_empty() && listed.plain.iter().any(|plain| *plain != mark.append_mode) {
                    tracing::error!(
                        %mark, "a mark in {MODE_MARKERS} that this installation did not write contradicts the authentic one; \
                                it is ignored"
                    );
                }
                let (mark, again) = (*mark, mark.path(&marker));
                let pinned = self.pinned(&remote, &recorded, &again).await?;
                return Ok((pinned, Some(mark)));
            }
        }
        let mut marks = self.plain_markers().await?;
        self.check_format(marks.is_empty()).await?;
        if marks.is_empty() {
            self.put_new(&self.append_mode().mark(), Sealed::marker()).await?;
            marks = self.plain_markers().await?;
        }
        Ok((self.pinned(&remote, &marks, &AppendMode::Siblings.mark()).await?, None))
    }

    /// The store in the mode that is recorded; `again` is the path of the mark if that is siblings.
    async fn pinned(self, remote: &Remote, recorded: &[AppendMode], again: &str) -> Result<Self> {
        let found = self.append_mode();
        match (recorded, found) {
            ([AppendMode::Conditional], AppendMode::Conditional) => Ok(self),
            ([AppendMode::Siblings], _) => {
                // This reader may see it and the next one not, if its writer got no reply.
                self.put_new(again, Sealed::marker()).await?;
                if found == AppendMode::Siblings {
                    return Ok(self);
                }
                tracing::info!(
                    "conditional creates work from here, but the bucket's recorded append mode is siblings, \
                     so entries are written as siblings (to change it, stop all servers and run: sealpost \
                     store probe --reset-append-mode)"
                );
                Ok(Self::remote(remote.clone(), AppendMode::Siblings))
            }
            ([AppendMode::Conditional], AppendMode::Siblings) => Err(Error::invalid(
                "other servers rely on this store's conditional creates, which do not work from here: entries \
                 would be overwritten. Check for a proxy in between, or another endpoint. After a permanent \
                 change of the store, stop all servers and run: sealpost store probe --reset-append-mode",
            )),
            ([], _) => {
                Err(Error::retry(format!("{MODE_MARKERS}/{} was written and is not listed", found.name())))
            }
            _ => Err(Error::invalid(
                "the bucket records two append modes: its first servers disagreed whether conditional creates \
                 work. Stop all servers and run: sealpost store probe --reset-append-mode",
            )),
        }
    }

    /// Makes an authentic mark of the mode in force, under the current key, and removes those under
    /// older ones: after the first start with a bucket, with one of an earlier version, and when
    /// keys were replaced. Returns the mark; `None` if the store is no bucket.
    ///
    /// # Errors
    /// `Invalid` if the bucket says something else by now; what the store says.
    pub async fn authenticate_append_mode(&self, keys: &ServerKeys) -> Result<Option<StoreMark>> {
        let Some(remote) = &self.0.remote else { return Ok(None) };
        let marker = Marker { macs: keys.macs(Purpose::Store), bucket: remote.url() };
        let first = StoreMark { append_mode: self.append_mode(), format: FORMAT, change: 0, is_bound: true };
        let mark = match self.listed_marks(&marker).await?.authentic.as_slice() {
            [] => first,
            [mark] if mark.append_mode == self.append_mode() => StoreMark { is_bound: true, ..*mark },
            _ => return Err(Error::invalid("the bucket's append mode was changed meanwhile: start again")),
        };
        let path = mark.path(&marker);
        let mut listed = self.list(MODE_MARKERS, None);
        let (mut is_there, mut old) = (false, Vec::new());
        while let Some(object) = listed.try_next().await? {
            let name = &object.path[MODE_MARKERS.len() + 1..];
            is_there |= object.path == path;
            if object.path != path && StoreMark::authentic(name, &marker).is_some() {
                old.push(object.path);
            }
        }
        if !is_there {
            self.put_new(&path, Sealed::marker()).await?;
        }
        // Of two that add the first one at once and differ, one sees both.
        match self.listed_marks(&marker).await?.authentic.as_slice() {
            [seen] if *seen == mark => {}
            _ => return Err(Error::invalid("the bucket's append mode was changed meanwhile: start again")),
        }
        try_join_all(old.iter().map(|old| self.delete(old))).await?;
        Ok(Some(mark))
    }

    async fn listed_marks(&self, marker: &Marker<'_>) -> Result<ListedMarks> {
        let mut found = ListedMarks::default();
        let mut listed = self.list(MODE_MARKERS, None);
        while let Some(object) = listed.try_next().await? {
            let name = &object.path[MODE_MARKERS.len() + 1..];
            if let Some(mark) = StoreMark::authentic(name, marker) {
                let marks = if mark.is_bound { &mut found.authentic } else { &mut found.unbound };
                let latest = marks.first().map_or(0, |latest| latest.change);
                if mark.change > latest {
                    marks.clear();
                }
                // The same mark may be there under several keys.
                if mark.change >= latest && !marks.contains(&mark) {
                    marks.push(mark);
                }
            } else if let Some(plain) = AppendMode::named(name) {
                found.plain.push(plain);
            } else {
                found.foreign = (found.foreign.0 + 1, object.path);
            }
        }
        if found.authentic.is_empty() {
            found.authentic = std::mem::take(&mut found.unbound);
        }
        Ok(found)
    }

    /// Whether the bucket has this program's format; a new one gets it. Checked after the marks: a
    /// writer of a mark has written the format before.
    async fn check_format(&self, is_new: bool) -> Result<()> {
        let listed: Vec<_> = self.list(FORMATS, None).try_collect().await?;
        let formats: Vec<_> = listed.iter().map(|object| &object.path[FORMATS.len() + 1..]).collect();
        match formats.as_slice() {
            [] if is_new && self.list("accounts", None).try_next().await?.is_none() => {
                self.put_new(&format!("{FORMATS}/{FORMAT}"), Sealed::marker()).await?;
                Ok(())
            }
            [] => Err(format::other("this store", None)),
            formats => match formats.iter().find(|found| **found != FORMAT.to_string()) {
                Some(other) => Err(format::other("this store", other.parse().ok())),
                None => Ok(()),
            },
        }
    }

    /// The marks in the store: none, one, or, if its nodes did not agree, both. With keys,
    /// authentic marks count, if there are any.
    ///
    /// # Errors
    /// What the store says.
    pub async fn mode_markers(&self, keys: Option<&ServerKeys>) -> Result<Vec<AppendMode>> {
        if let (Some(keys), Some(remote)) = (keys, &self.0.remote) {
            let marker = Marker { macs: keys.macs(Purpose::Store), bucket: remote.url() };
            let authentic = self.listed_marks(&marker).await?.authentic;
            if !authentic.is_empty() {
                return Ok(authentic.iter().map(|mark| mark.append_mode).collect());
            }
        }
        self.plain_markers().await
    }

    async fn plain_markers(&self) -> Result<Vec<AppendMode>> {
        let listed: Vec<_> = self.list(MODE_MARKERS, None).try_collect().await?;
        let is_listed =
            |append_mode: &AppendMode| listed.iter().any(|object| object.path == append_mode.mark());
        Ok(AppendMode::ALL.into_iter().filter(is_listed).collect())
    }

    /// What is in the folder of marks, and decides nothing: the paths, and why.
    ///
    /// # Errors
    /// What the store says.
    pub async fn survey_append_modes(&self, keys: &ServerKeys) -> Result<Vec<(String, &'static str)>> {
        let Some(remote) = &self.0.remote else { return Ok(Vec::new()) };
        let marker = Marker { macs: keys.macs(Purpose::Store), bucket: remote.url() };
        let latest = self.listed_marks(&marker).await?.authentic;
        let mut unfit = Vec::new();
        for folder in [MODE_MARKERS, FORMATS] {
            let mut listed = self.list(folder, None);
            while let Some(object) = listed.try_next().await? {
                let name = &object.path[folder.len() + 1..];
                let is_fit = match folder {
                    FORMATS => name == FORMAT.to_string(),
                    _ => match (StoreMark::authentic(name, &marker), AppendMode::named(name)) {
                        (Some(mark), _) => mark.is_bound || latest.contains(&mark),
                        (None, Some(plain)) => {
                            latest.is_empty() || latest.iter().any(|mark| mark.append_mode == plain)
                        }
                        (None, None) => false,
                    },
                };
                if !is_fit {
                    unfit.push((
                        object.path,
                        "this installation did not write this mark; it is ignored: remove it",
                    ));
                }
            }
        }
        Ok(unfit)
    }

    /// Leaves the mark of this finding, and removes all others. No other node may use the bucket
    /// meanwhile. `seen` is the mark that this node saw there last. Returns the mark, if there are
    /// keys to authenticate it.
    ///
    /// # Errors
    /// `Invalid` if there are authentic marks and no keys; what the store says.
    pub async fn reset_append_mode(&self, memory: Option<MarkMemory<'_>>) -> Result<Option<StoreMark>> {
        let Some(remote) = &self.0.remote else { return Ok(None) };
        let Some(memory) = memory else {
            let mut listed = self.list(MODE_MARKERS, None);
            while let Some(object) = listed.try_next().await? {
                let name = &object.path[MODE_MARKERS.len() + 1..];
                if name.rsplit_once('-').is_some_and(|(text, _)| StoreMark::parse(text).is_some()) {
                    return Err(Error::invalid(
                        "the bucket's append mode is authenticated by server.key: run this on a node, with --dir or --config",
                    ));
                }
            }
            self.reset_plain().await?;
            return Ok(None);
        };
        let marker = Marker { macs: memory.keys.macs(Purpose::Store), bucket: remote.url() };
        let listed = self.listed_marks(&marker).await?;
        let known = listed.authentic.iter().chain(&listed.unbound).chain(&memory.seen);
        let change = known.map(|mark| mark.change.saturating_add(1)).max().unwrap_or(0);
        let mark = StoreMark { append_mode: self.append_mode(), format: FORMAT, change, is_bound: true };
        self.put_new(&mark.path(&marker), Sealed::marker()).await?;
        self.reset_plain().await?;
        self.authenticate_append_mode(memory.keys).await
    }

    async fn reset_plain(&self) -> Result<()> {
        self.put_new(&self.append_mode().mark(), Sealed::marker()).await?;
        let others = AppendMode::ALL.into_iter().filter(|other| *other != self.append_mode());
        try_join_all(others.map(|other| async move { self.delete(&other.mark()).await })).await?;
        Ok(())
    }
}

impl ListedMarks {
    fn report_foreign(&self) {
        let (count, example) = &self.foreign;
        if *count > 0 {
            tracing::error!(
                count,
                example,
                "objects in {MODE_MARKERS} were not written by this installation; they are ignored, and \
                                 \"sealpost check\" names them"
            );
        }
    }
}
