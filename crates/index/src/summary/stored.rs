//! Which segments an account has, as far as this process knows. Others may add and remove some at
//! any time: one that is not known is not used, one that is gone is forgotten.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use sealpost_base::{Error, Kind, Result};
use sealpost_vault::index::SegmentReader;

use super::Parts;
use super::content::Content;
use super::known::{Known, SegmentList, Stored};
use super::segment::{Segment, SegmentName, SegmentWriter, prefix};
use crate::Index;

impl Index {
    pub(super) fn segment_list(&self, content: Content) -> &SegmentList {
        self.derived.segments.of(content)
    }

    /// The segments, listed if they never were: those of all kinds, with one request.
    pub(super) async fn segments(&self, content: Content) -> Result<Arc<Known>> {
        let known = self.segment_list(content).lock().clone();
        if known.listed {
            return Ok(known);
        }
        let mut found = Content::ALL.map(|content| (content, Vec::new()));
        let mut listed = self.store().list(&sealpost_vault::index::prefix(self.id()), None);
        while let Some(object) = listed.try_next().await? {
            let mut names = object.path.rsplit('/');
            let Some(Ok(name)) = names.next().map(str::parse::<SegmentName>) else { continue };
            let folder = names.next().unwrap_or_default();
            let of = found.iter_mut().filter(|(content, _)| content.folder() == folder);
            of.for_each(|(_, segments)| segments.push(Stored { name, bytes: object.size }));
        }
        for (content, segments) in found {
            let mut known = self.segment_list(content).lock();
            if !known.listed {
                *known = Arc::new(Known::new(true, segments));
            }
        }
        Ok(self.segment_list(content).lock().clone())
    }

    /// The segments as they are in the store now.
    pub(super) async fn list_segments(&self, content: Content) -> Result<Arc<Known>> {
        let mut segments = Vec::new();
        let mut listed = self.store().list(&prefix(content, self.id()), None);
        while let Some(object) = listed.try_next().await? {
            let name = object.path.rsplit('/').next().and_then(|name| name.parse::<SegmentName>().ok());
            segments.extend(name.map(|name| Stored { name, bytes: object.size }));
        }
        let known = Arc::new(Known::new(true, segments));
        *self.segment_list(content).lock() = known.clone();
        Ok(known)
    }

    /// Reads a segment. A missing one is forgotten, a damaged one is removed too: `None`, and it is
    /// rebuilt when needed.
    pub(super) async fn read_segment(
        &self,
        content: Content,
        name: SegmentName,
        parts: Parts,
    ) -> Result<Option<Segment>> {
        let path = name.path(content, self.id());
        let open = |object: &Bytes| self.open_segment(content, &path, object, parts);
        let read = self.store().read_opened(&path, open).await;
        match read {
            Ok(segment) => Ok(Some(segment)),
            Err(e) => self.without_segment(content, name, e).await.map(|()| None),
        }
    }

    /// Does without a segment that could not be read: one that is gone is forgotten, one that is
    /// damaged is removed too.
    pub(super) async fn without_segment(&self, content: Content, name: SegmentName, e: Error) -> Result<()> {
        if !matches!(e.kind(), Kind::NotFound | Kind::Corrupt) {
            return Err(e);
        }
        self.segment_list(content).forget(name);
        if e.kind() == Kind::NotFound {
            return Ok(());
        }
        let path = name.path(content, self.id());
        tracing::warn!(account = %self.id(), path, error = %e, "a damaged segment; it is made again");
        self.store().delete(&path).await
    }

    fn open_segment(&self, content: Content, path: &str, object: &Bytes, parts: Parts) -> Result<Segment> {
        Segment::open(content, &SegmentReader::new(&self.keys(), self.id(), path, object)?, parts)
    }

    /// Writes a segment, unless it is empty. An existing segment of the same name has the same
    /// content.
    pub(super) async fn write_segment(&self, writer: SegmentWriter) -> Result<Option<SegmentName>> {
        let Some(name) = writer.name() else { return Ok(None) };
        let content = writer.content();
        let sections = writer.sections()?;
        self.store_segment(content, name, &sections.each_ref().map(Vec::as_slice)).await?;
        Ok(Some(name))
    }

    /// Seals and stores a segment.
    pub(super) async fn store_segment(
        &self,
        content: Content,
        name: SegmentName,
        sections: &[&[u8]],
    ) -> Result<()> {
        let path = name.path(content, self.id());
        let sealed = sealpost_vault::index::seal(&self.keys(), self.id(), &path, sections, self.random())?;
        let bytes = sealed.len() as u64;
        self.store().put_new(&path, sealed).await?;
        self.segment_list(content).add(Stored { name, bytes });
        Ok(())
    }
}
