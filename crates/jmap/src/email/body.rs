//! Body parts and their text (RFC 8621 §4.1.4).

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::header::{self, EmailHeader, HeaderProperties, HeaderProperty, property_or_header};
use crate::data_type::data_type;
use crate::id::BlobId;
use crate::object::object;
use crate::read::{Fields, FromJson, Mismatch};

data_type! {
    /// The properties of a body part, but for header properties.
    pub struct BodyPartFields, BodyField {
        /// Its name within the email; none of a multipart.
        part_id: Option<String> = PartId "partId" [immutable],
        /// Its decoded contents; none of a multipart.
        blob_id: Option<BlobId> = BlobId "blobId" [immutable],
        /// Bytes of its decoded contents.
        size: u64 = Size "size" [immutable],
        /// Its header fields, in their order.
        headers: Vec<EmailHeader> = Headers "headers" [server_set],
        /// The name of the file.
        name: Option<String> = Name "name" [immutable],
        /// The media type, without parameters.
        media_type: String = Type "type" [immutable],
        /// The charset of text.
        charset: Option<String> = Charset "charset" [immutable],
        /// The disposition, without parameters.
        disposition: Option<String> = Disposition "disposition" [immutable],
        /// The Content-Id, without angle brackets.
        cid: Option<String> = Cid "cid" [immutable],
        /// The languages.
        language: Option<Vec<String>> = Language "language" [immutable],
        /// The Content-Location.
        location: Option<String> = Location "location" [immutable],
        /// The parts of a multipart.
        sub_parts: Option<Vec<EmailBodyPart>> = SubParts "subParts" [immutable],
    }
}

property_or_header! {
    /// A property of an EmailBodyPart, as `bodyProperties` lists them.
    pub enum BodyProperty of BodyField
}

impl BodyProperty {
    /// What `bodyProperties` is if it is omitted (§4.2).
    pub fn defaults() -> Vec<BodyProperty> {
        use BodyField::*;
        let fields = [PartId, BlobId, Size, Name, Type, Charset, Disposition, Cid, Language, Location];
        fields.map(BodyProperty::Field).into()
    }
}

/// A part of the body, with the properties that were asked for or given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EmailBodyPart {
    /// Its properties.
    pub fields: BodyPartFields,
    /// Its header properties.
    pub header_properties: HeaderProperties,
}

impl EmailBodyPart {
    /// This part and all below it, depth first.
    pub fn walk(&self) -> impl Iterator<Item = &EmailBodyPart> {
        let mut left = vec![self];
        std::iter::from_fn(move || {
            let part = left.pop()?;
            left.extend(part.sub_parts().iter().rev());
            Some(part)
        })
    }

    /// The parts right below it.
    pub fn sub_parts(&self) -> &[EmailBodyPart] {
        self.fields.sub_parts.as_ref().and_then(Option::as_deref).unwrap_or_default()
    }
}

impl FromJson for EmailBodyPart {
    fn expected() -> String {
        "an object (EmailBodyPart)".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let Value::Object(members) = value else { return Err(Mismatch::new(Self::expected(), &value)) };
        let mut fields = Fields::from(members);
        let mut wrong = Vec::new();
        let header_properties = header::take(&mut fields, &mut wrong);
        let part = EmailBodyPart { fields: BodyPartFields::take(&mut fields, &mut wrong), header_properties };
        match wrong.into_iter().next() {
            Some(wrong) => Err(wrong),
            None => fields.finish().map(|()| part),
        }
    }
}

impl Serialize for EmailBodyPart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.fields.write(&mut map)?;
        header::write(&self.header_properties, &mut map)?;
        map.end()
    }
}

object! {
    /// The text of a part.
    pub struct EmailBodyValue {
        /// Decoded, with LF at the ends of lines.
        value: String = "value" [required],
        /// Whether some of it could not be decoded.
        is_encoding_problem: bool = "isEncodingProblem" [always false],
        /// Whether it was cut.
        is_truncated: bool = "isTruncated" [always false],
    }
}
