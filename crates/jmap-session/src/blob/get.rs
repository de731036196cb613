//! Blob/get (RFC 9404 §4.2).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::TryStreamExt;
use sealpost_base::limits::JMAP_BLOB_DATA_BYTES;
use sealpost_jmap::MethodError;
use sealpost_jmap::blob::{BlobGet, BlobObject, BlobProperty};
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::id::BlobId;
use sealpost_vault::message::READER_BYTES;
use sealpost_vault::{Digest, DigestAlgorithm};
use serde_json::{Map, Value};

use super::digests::DIGESTS;
use super::open::{Blob, open};
use crate::method::{Failure, Outcome};
use crate::responder::Responder;
use crate::scope::Scope;

/// Memory for each byte of returned data: as read, as base64 or text, and as JSON.
const DATA_FACTOR: usize = 4;

/// The properties that a call requests of each blob.
struct Wanted {
    data: bool,
    text: bool,
    base64: bool,
    size: bool,
    digests: Vec<(String, DigestAlgorithm)>,
    offset: u64,
    length: Option<u64>,
}

pub(crate) async fn get(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = BlobGet::from_arguments(arguments)?;
    scope.require(&request.get.account_id)?;
    let wanted = Wanted::of(&request)?;
    // Acquired before the first read: a call must hold no memory while it waits for memory.
    let most = request.length.unwrap_or(JMAP_BLOB_DATA_BYTES).min(JMAP_BLOB_DATA_BYTES) as usize;
    let bytes = if wanted.has_data() { DATA_FACTOR * most } else { 0 };
    let _permit = scope.permit(bytes + READER_BYTES).await;
    let mut not_found = Vec::new();
    let mut response = responder.open("Blob/get", call_id);
    response.argument("accountId", scope.id()).await?;
    response.open_array("list");
    for id in request.get.ids.into_iter().flatten() {
        let found = match open(scope, &id).await {
            Ok(found) => found,
            Err(error) => return Err(response.fail(error.into())),
        };
        let known = id.resolve(&scope.created).cloned().map(BlobId::from);
        let (Some(blob), Some(known)) = (found, known) else {
            not_found.push(id);
            continue;
        };
        match wanted.read(known, &blob).await {
            Ok(object) => response.item(&object).await?,
            Err(failure) => return Err(response.fail(failure)),
        }
    }
    response.close_array();
    response.array("notFound", &not_found).await?;
    response.close();
    Ok(())
}

impl Wanted {
    fn of(request: &BlobGet) -> Result<Self, MethodError> {
        let defaults = &BlobProperty::DEFAULTS[..];
        let properties = request.get.properties.as_deref().unwrap_or(defaults);
        let has = |property: BlobProperty| properties.contains(&property);
        let mut digests = Vec::new();
        for property in properties {
            let BlobProperty::Digest(name) = property else { continue };
            let known = DIGESTS.iter().find(|(known, _)| known == name);
            let unknown = || MethodError::invalid_arguments(format!("properties: no algorithm {name:?}"));
            digests.push((name.clone(), known.ok_or_else(unknown)?.1));
        }
        Ok(Wanted {
            data: has(BlobProperty::Data),
            text: has(BlobProperty::AsText),
            base64: has(BlobProperty::AsBase64),
            size: has(BlobProperty::Size),
            digests,
            offset: request.offset.unwrap_or(0),
            length: request.length,
        })
    }

    fn has_data(&self) -> bool {
        self.data || self.text || self.base64
    }

    async fn read(&self, id: BlobId, blob: &Blob) -> Result<BlobObject, Failure> {
        let size = blob.size();
        let end = self.length.map_or(size, |length| self.offset.saturating_add(length));
        let range = self.offset.min(size)..end.min(size);
        let is_truncated = self.offset > size || end > size;
        let mut object = BlobObject {
            id,
            as_text: None,
            as_base64: None,
            digests: BTreeMap::new(),
            is_encoding_problem: false,
            is_truncated,
            size: self.size.then_some(size),
        };
        if self.has_data() && range.end - range.start > JMAP_BLOB_DATA_BYTES {
            let text = format!("ask for at most {JMAP_BLOB_DATA_BYTES} bytes of a blob at once");
            return Err(MethodError::from(MethodErrorType::RequestTooLarge).describe(text).into());
        }
        let mut digests: Vec<_> =
            self.digests.iter().map(|(name, algorithm)| (name, Digest::new(*algorithm))).collect();
        let mut data = Vec::new();
        if self.has_data() || !digests.is_empty() {
            let mut bytes = blob.bytes(range).await?;
            while let Some(piece) = bytes.try_next().await? {
                digests.iter_mut().for_each(|(_, digest)| digest.update(&piece));
                if self.has_data() {
                    data.extend_from_slice(&piece);
                }
            }
        }
        object.digests = digests
            .into_iter()
            .map(|(name, digest)| (name.clone(), STANDARD.encode(digest.finish())))
            .collect();
        self.show(data, &mut object);
        Ok(object)
    }

    fn show(&self, data: Vec<u8>, object: &mut BlobObject) {
        let is_text = std::str::from_utf8(&data).is_ok();
        object.is_encoding_problem = !is_text && (self.data || self.text);
        if self.base64 || (self.data && !is_text) {
            object.as_base64 = Some(STANDARD.encode(&data));
        }
        if self.text || (self.data && is_text) {
            object.as_text = Some(String::from_utf8(data).ok());
        }
    }
}
