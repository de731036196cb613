//! FETCH responses, written item by item.

use sealpost_account::object_id::email_id;
use sealpost_base::Error;
use sealpost_imap::types::DateTime;
use sealpost_imap::write::Writer;
use sealpost_mime::structure::StoredStructure;

use super::binary;
use super::items::{FetchField, Plan};
use super::pipeline::Prepared;
use super::ranges::Opened;
use super::rows::FetchRow;
use super::structure::{self, Form};
use super::trouble::{Trouble, report};
use crate::connection::End;
use crate::responses::Responses;
use crate::selected::Selected;

/// Writes the response for a message, as far as it is readable.
pub(super) async fn write_message(
    selected: &Selected,
    responses: &mut Responses,
    prepared: &mut Prepared,
    plan: &Plan,
    trouble: &mut Trouble,
) -> Result<(), End> {
    let Prepared { row, structure, opened, .. } = prepared;
    let row = &*row;
    let mut response = Response { out: responses.out(), row, plan, begun: false };
    response.implicit_flags();
    let mut begun = response.begun;
    let mut failed: Option<Error> = None;
    let stored = match structure {
        Some(Ok(found)) => found.read().map_err(|error| failed = Some(error)).ok(),
        _ => None,
    };
    for item in plan.items() {
        let mut response = Response { out: responses.out(), row, plan, begun };
        match item {
            FetchField::Envelope | FetchField::Structure { .. } | FetchField::Preview => match &stored {
                Some(found) => response.structure(item, found),
                None => continue,
            },
            FetchField::Body(wanted) => {
                let bytes = match opened.first.take() {
                    Some(first) => first,
                    None => opened.reads.open(wanted).await,
                };
                match bytes {
                    Ok(Opened::UnknownEncoding) => trouble.unknown_encoding = true,
                    Ok(bytes) => {
                        response.begin();
                        wanted.write_name(response.out);
                        begun = true;
                        if let Some(error) = send(responses, bytes).await? {
                            failed.get_or_insert(error);
                        }
                    }
                    Err(error) => {
                        failed.get_or_insert(error);
                    }
                }
                continue;
            }
            FetchField::BinarySize(section) => match opened.reads.binary_size(section).await {
                Ok(binary::Size::Bytes(size)) => {
                    response.begin();
                    response.out.raw(b"BINARY.SIZE").section(section).space().number(size);
                }
                Ok(binary::Size::UnknownEncoding) => trouble.unknown_encoding = true,
                Err(error) => {
                    failed.get_or_insert(error);
                }
            },
            _ => response.column(item),
        }
        begun = response.begun;
        // A single item may be large.
        responses.relieve().await?;
    }
    if begun {
        responses.out().fetch_end();
    }
    drop(stored);
    if let Some(Err(error)) = opened.reads.outline.take() {
        failed.get_or_insert(error);
    }
    if let Some(Err(error)) = structure.take() {
        failed.get_or_insert(error);
    }
    if let Some(error) = failed {
        report(selected, responses, row.uid, error, trouble).await;
    }
    Ok(())
}

/// Writes the response for a message whose row has all items.
pub(super) fn write_columns(responses: &mut Responses, row: &FetchRow, plan: &Plan) {
    let mut response = Response { out: responses.out(), row, plan, begun: false };
    response.implicit_flags();
    for item in plan.items() {
        response.column(item);
    }
    response.end();
}

/// Writes the value of a body item. Returns the error of damage found after the length was sent; the damaged
/// bytes are replaced by question marks.
pub(super) async fn send(responses: &mut Responses, opened: Opened) -> Result<Option<Error>, End> {
    match opened {
        Opened::Nil | Opened::UnknownEncoding => {
            responses.out().nil();
            Ok(None)
        }
        Opened::Bytes(bytes) => bytes.send(&mut responses.connection, responses.dialect.takes_nul).await,
    }
}

/// A FETCH response. Its first item starts it, so that a response without items is not sent.
pub(super) struct Response<'a> {
    pub(super) out: &'a mut Writer,
    pub(super) row: &'a FetchRow,
    pub(super) plan: &'a Plan,
    pub(super) begun: bool,
}

impl Response<'_> {
    pub(super) fn begin(&mut self) {
        if self.begun {
            self.out.space();
        } else {
            // RFC 9586 §3.3
            if self.plan.uid_only() {
                self.out.uid_fetch_begin(self.row.uid.get());
            } else {
                self.out.fetch_begin(self.row.sequence);
            }
            self.begun = true;
        }
    }

    pub(super) fn end(&mut self) {
        if self.begun {
            self.out.fetch_end();
        }
    }

    /// Flags that the client did not request and that changed because it reads the message. A client
    /// with CONDSTORE also gets the UID and the mod-sequence (RFC 7162 §3.2.4).
    pub(super) fn implicit_flags(&mut self) {
        let (plan, row) = (self.plan, self.row);
        if !row.seen {
            return;
        }
        for item in plan.implied() {
            if !plan.wants(item) {
                self.column(item);
            }
        }
    }

    /// An item from the row.
    pub(super) fn column(&mut self, item: &FetchField) {
        let row = self.row;
        match item {
            FetchField::Uid => {
                self.begin();
                self.out.raw(b"UID ").number(u64::from(row.uid.get()));
            }
            FetchField::Flags => {
                self.begin();
                self.out.raw(row.flags.as_deref().unwrap_or(b"FLAGS ()"));
            }
            FetchField::InternalDate => {
                self.begin();
                self.out.raw(b"INTERNALDATE ").date_time(DateTime::utc(row.message.received));
            }
            FetchField::Size => {
                self.begin();
                self.out.raw(b"RFC822.SIZE ").number(row.message.size());
            }
            FetchField::ModSeq => {
                self.begin();
                self.out.raw(b"MODSEQ (").number(row.modseq.0).close();
            }
            FetchField::EmailId => {
                self.begin();
                self.out.raw(b"EMAILID (").raw(email_id(&row.message)).close();
            }
            FetchField::SaveDate => {
                self.begin();
                self.out.raw(b"SAVEDATE ").date_time(DateTime::utc(row.saved));
            }
            FetchField::ThreadId => {
                self.begin();
                self.out.raw(b"THREADID (").raw(row.message.thread.to_string()).close();
            }
            FetchField::Envelope | FetchField::Structure { .. } | FetchField::Preview => {}
            FetchField::Body(_) | FetchField::BinarySize(_) => {}
        }
    }

    pub(super) fn structure(&mut self, item: &FetchField, found: &StoredStructure<'_>) {
        self.begin();
        match item {
            FetchField::Envelope => {
                self.out.raw(b"ENVELOPE ");
                structure::envelope(self.out, &found.envelope);
            }
            FetchField::Structure { extended } => {
                self.out.raw(if *extended { &b"BODYSTRUCTURE "[..] } else { b"BODY " });
                let form = Form { extended: *extended, parameters: self.plan.parameter_form() };
                structure::body(self.out, &mut found.parts.iter(), form);
            }
            // RFC 8970 §3.2: NIL would mean that it follows later.
            FetchField::Preview => {
                self.out.raw(b"PREVIEW ").string(found.preview.unwrap_or_default());
            }
            _ => {}
        }
    }
}
