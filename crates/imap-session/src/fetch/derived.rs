//! FETCH of headers, envelopes and structures from segments ([`sealpost_index::PieceReads`]): most of what
//! clients request when they synchronize. This reads no messages and starts no tasks; a response costs its
//! bytes.
//!
//! Everything else is read from the messages, with the same result.

use std::sync::Arc;

use sealpost_account::Message;
use sealpost_base::limits;
use sealpost_index::{Index, PackReads, Packed, PieceReads, Pieces};
use sealpost_mime::structure::StoredStructure;

use super::items::{FetchField, HeaderPart, Plan};
use super::ranges::send_bytes;
use super::response::Response;
use super::rows::FetchRow;
use super::section::cut;
use crate::connection::End;
use crate::responses::Responses;
use crate::selected::Selected;

/// The sources of the messages of one FETCH.
pub(super) struct Sources {
    pub(super) packs: Arc<PackReads>,
    pub(super) headers: Arc<PieceReads>,
    pub(super) structures: Arc<PieceReads>,
}

/// The parts of a message that the plan requests, from segments. The next message uses the memory again.
#[derive(Default)]
pub(super) struct Derived {
    header: Vec<u8>,
    /// In its stored form.
    structure: Vec<u8>,
    scratch: Vec<u8>,
}

/// The same, parsed for writing.
pub(super) struct Readable<'a> {
    header: &'a [u8],
    structure: Option<StoredStructure<'a>>,
}

impl Derived {
    /// `None` if the structure is unreadable: the message has it too.
    pub(super) fn readable(&self, plan: &Plan) -> Option<Readable<'_>> {
        let structure = match plan.reads_structure() {
            true => Some(StoredStructure::decode_only(&self.structure, plan.wanted_of_structure()).ok()?),
            false => None,
        };
        Some(Readable { header: &self.header, structure })
    }
}

impl Sources {
    /// Starts without reading. Packs contain only structures if the plan requests no bytes.
    pub(super) fn new(selected: &Selected, plan: &Plan) -> Self {
        let kind = if plan.reads_bytes() { Packed::Messages } else { Packed::Structures };
        let account = selected.account();
        let (index, memory) = (Index::of(account), account.reading());
        Sources {
            packs: PackReads::new(&index, kind, memory),
            headers: PieceReads::new(&index, Pieces::Headers, memory),
            structures: PieceReads::new(&index, Pieces::Structures, memory),
        }
    }

    /// Announces the next messages.
    pub(super) async fn expect(&self, plan: &Plan, rows: &[FetchRow]) {
        if plan.header_parts().is_some() {
            self.headers.expect(rows.iter().map(|row| row.number)).await;
        }
        if plan.reads_structure() {
            self.structures.expect(rows.iter().map(|row| row.number)).await;
        }
    }

    /// Whether [`Sources::read`] completes without waiting.
    pub(super) fn is_ready(&self, plan: &Plan, row: &FetchRow) -> bool {
        let headers = plan.header_parts().is_none() || self.headers.is_ready(row.number);
        headers && (!plan.reads_structure() || self.structures.is_ready(row.number))
    }

    /// Reads everything that the plan requests; whether segments have it.
    pub(super) async fn read(&self, plan: &Plan, row: &FetchRow, derived: &mut Derived) -> bool {
        let Message { object, .. } = row.message;
        let Derived { header, structure, scratch } = derived;
        header.clear();
        structure.clear();
        if plan.header_parts().is_some() && !self.headers.get_with(row.number, object, scratch, header).await
        {
            return false;
        }
        !plan.reads_structure() || self.structures.get_with(row.number, object, scratch, structure).await
    }
}

/// Writes the response for a message from segments.
pub(super) async fn write(
    responses: &mut Responses,
    row: &FetchRow,
    plan: &Plan,
    readable: Readable<'_>,
) -> Result<(), End> {
    let Readable { header, structure } = readable;
    let mut response = Response { out: responses.out(), row, plan, begun: false };
    response.implicit_flags();
    let mut begun = response.begun;
    let mut parts = plan.header_parts().unwrap_or_default().iter();
    for item in plan.items() {
        let mut response = Response { out: responses.out(), row, plan, begun };
        match (item, &structure) {
            (FetchField::Body(wanted), _) => {
                response.begin();
                wanted.write_name(response.out);
                let mut fields = Vec::new();
                let bytes = match parts.next() {
                    Some(HeaderPart::Fields(filter)) => {
                        fields.reserve(header.len().min(1024));
                        filter.apply(header, &mut fields);
                        &fields
                    }
                    _ => header,
                };
                let window = cut(0..bytes.len() as u64, wanted.partial);
                let bytes = &bytes[window.start as usize..window.end as usize];
                // From here on only the connection can fail.
                send_bytes(&mut responses.connection, responses.dialect.takes_nul, bytes).await?;
                begun = true;
                continue;
            }
            (FetchField::Envelope | FetchField::Structure { .. } | FetchField::Preview, Some(found)) => {
                response.structure(item, found);
            }
            _ => response.column(item),
        }
        begun = response.begun;
    }
    if begun {
        responses.out().fetch_end();
    }
    Ok(())
}

// Buffers for one message, for which no memory is acquired.
const _: () = assert!(limits::HEADER_PIECE_BYTES <= 16 * 1024 && limits::STRUCTURE_PIECE_BYTES <= 16 * 1024);
