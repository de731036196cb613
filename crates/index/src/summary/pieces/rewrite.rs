//! Reading and writing whole header segments, and writing some of them again as one.

use std::collections::BTreeMap;

use bytes::Bytes;
use sealpost_account::MessageNumber;
use sealpost_base::Result;
use sealpost_vault::index::SegmentReader;

use super::super::content::Content;
use super::super::segment::SegmentName;
use super::segment::{Piece, PieceSegment, PieceWriter};
use crate::Index;

impl Index {
    /// Reads a segment. A missing one is forgotten, a damaged one is removed too: `None`, and it is
    /// rebuilt when needed.
    ///
    /// # Errors
    /// What the store says.
    pub(super) async fn read_pieces(
        &self,
        content: Content,
        name: SegmentName,
    ) -> Result<Option<PieceSegment>> {
        let path = name.path(content, self.id());
        let open = |object: &Bytes| {
            let reader = SegmentReader::new(&self.keys(), self.id(), &path, object)?;
            PieceSegment::open(content, &reader)
        };
        match self.store().read_opened(&path, open).await {
            Ok(segment) => Ok(Some(segment)),
            Err(e) => self.without_segment(content, name, e).await.map(|()| None),
        }
    }

    /// Writes a segment, unless it is empty. An existing segment of the same name has the same
    /// content.
    ///
    /// # Errors
    /// What the store says.
    pub(super) async fn write_pieces(&self, writer: PieceWriter) -> Result<Option<SegmentName>> {
        let Some(name) = writer.name() else { return Ok(None) };
        let content = writer.content();
        let sections = writer.sections();
        self.store_segment(content, name, &sections.each_ref().map(Vec::as_slice)).await?;
        Ok(Some(name))
    }

    /// Writes the segments of a group again, as [`Index::rewrite`] does. Pieces are copied as they are.
    pub(in super::super) async fn rewrite_pieces(
        &self,
        content: Content,
        group: Vec<SegmentName>,
    ) -> Result<()> {
        let mut segments = Vec::with_capacity(group.len());
        for name in &group {
            // A segment that is missing or damaged now is made again later.
            let Some(segment) = self.read_pieces(content, *name).await? else { return Ok(()) };
            segments.push(segment);
        }
        let mut rows: BTreeMap<u32, Piece<'_>> = BTreeMap::new();
        {
            let state = self.state();
            for (number, object, piece) in segments.iter().flat_map(PieceSegment::entries) {
                if state.message(MessageNumber(number)).is_some_and(|message| message.object == object) {
                    rows.insert(number, piece);
                }
            }
        }
        let mut written = Vec::new();
        let mut writer = PieceWriter::new(content);
        for (number, piece) in rows {
            writer.copy(number, piece);
            if writer.is_full() {
                let full = std::mem::replace(&mut writer, PieceWriter::new(content));
                written.extend(self.write_pieces(full).await?);
            }
        }
        written.extend(self.write_pieces(writer).await?);
        for name in group.into_iter().filter(|name| !written.contains(name)) {
            self.remove_segment(content, name).await?;
        }
        Ok(())
    }
}
