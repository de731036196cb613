//! The properties that a call requests, and the parts of each message to read for them.

use sealpost_jmap::email::{
    BodyField, BodyOptions, BodyProperty, EmailField, EmailProperty, HeaderForm, HeaderProperty,
};

/// The requested properties of emails.
pub(super) struct Plan {
    pub(super) fields: Vec<EmailField>,
    pub(super) headers: Vec<HeaderProperty>,
    /// The requested properties of body parts.
    pub(super) part_fields: Vec<BodyField>,
    pub(super) part_headers: Vec<HeaderProperty>,
    pub(super) body: BodyOptions,
}

impl Plan {
    /// A plan for these properties.
    pub(super) fn new(properties: Vec<EmailProperty>, mut body: BodyOptions) -> Self {
        let (mut fields, mut headers) = (Vec::new(), Vec::new());
        for property in properties {
            match property {
                EmailProperty::Field(field) if !fields.contains(&field) => fields.push(field),
                EmailProperty::Header(header) if !headers.contains(&header) => headers.push(header),
                _ => {}
            }
        }
        let (mut part_fields, mut part_headers) = (Vec::new(), Vec::new());
        for property in body.body_properties.take().unwrap_or_else(BodyProperty::defaults) {
            match property {
                BodyProperty::Field(field) if !part_fields.contains(&field) => part_fields.push(field),
                BodyProperty::Header(header) if !part_headers.contains(&header) => part_headers.push(header),
                _ => {}
            }
        }
        Plan { fields, headers, part_fields, part_headers, body }
    }

    pub(super) fn wants(&self, field: EmailField) -> bool {
        self.fields.contains(&field)
    }

    pub(super) fn wants_of_parts(&self, field: BodyField) -> bool {
        self.part_fields.contains(&field)
    }

    /// Whether the call requests properties that the account state does not have.
    pub(super) fn reads_message(&self) -> bool {
        self.reads_header() || self.reads_structure()
    }

    /// Whether it requests header fields of the message.
    pub(super) fn reads_header(&self) -> bool {
        let is_of_header =
            |field: &EmailField| field.header_field().is_some() || *field == EmailField::Headers;
        !self.headers.is_empty() || self.fields.iter().any(is_of_header) || self.reads_part_headers()
    }

    /// Whether it needs the structure of the message.
    pub(super) fn reads_structure(&self) -> bool {
        self.wants(EmailField::Preview)
            || self.wants(EmailField::HasAttachment)
            || self.shows_parts()
            || self.reads_values()
    }

    /// Whether it needs more of the message than its header.
    pub(super) fn reads_body(&self) -> bool {
        self.reads_values() || self.reads_part_headers() || self.reads_sizes()
    }

    /// Whether it requests sizes of parts, which need decoding.
    pub(super) fn reads_sizes(&self) -> bool {
        self.shows_parts() && self.wants_of_parts(BodyField::Size)
    }

    /// Whether it requests headers of parts.
    pub(super) fn reads_part_headers(&self) -> bool {
        self.shows_parts() && (!self.part_headers.is_empty() || self.wants_of_parts(BodyField::Headers))
    }

    /// Whether it requests texts.
    pub(super) fn reads_values(&self) -> bool {
        let options = &self.body;
        let any =
            options.fetch_all_body_values || options.fetch_text_body_values || options.fetch_html_body_values;
        any && self.wants(EmailField::BodyValues)
    }

    fn shows_parts(&self) -> bool {
        use EmailField::{Attachments, BodyStructure, HtmlBody, TextBody};
        [BodyStructure, TextBody, HtmlBody, Attachments].iter().any(|field| self.wants(*field))
    }
}

/// The form of a convenience property (RFC 8621 §4.1.3): `from` is `header:From:asAddresses`.
pub(super) fn form_of(field: EmailField) -> HeaderForm {
    use EmailField::{InReplyTo, MessageId, References, SentAt, Subject};
    match field {
        MessageId | InReplyTo | References => HeaderForm::MessageIds,
        Subject => HeaderForm::Text,
        SentAt => HeaderForm::Date,
        _ => HeaderForm::Addresses,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reads(properties: &[&str], body: BodyOptions) -> [bool; 3] {
        let request = json!({ "accountId": "A", "ids": [], "properties": properties });
        let serde_json::Value::Object(request) = request else { unreachable!() };
        let request = sealpost_jmap::email::EmailGet::from_arguments(request).unwrap();
        let plan = Plan::new(request.get.properties.unwrap(), body);
        [plan.reads_header(), plan.reads_structure(), plan.reads_body()]
    }

    #[test]
    fn no_more_is_read_than_is_asked() {
        let none = BodyOptions::default;
        assert_eq!(reads(&["id", "keywords", "size", "receivedAt", "mailboxIds"], none()), [false; 3]);
        assert_eq!(reads(&["preview", "hasAttachment"], none()), [false, true, false]);
        assert_eq!(reads(&["from", "header:X"], none()), [true, false, false]);
        assert_eq!(reads(&["textBody"], none()), [false, true, true]);
        let ids =
            BodyOptions { body_properties: Some(vec![BodyProperty::Field(BodyField::PartId)]), ..none() };
        assert_eq!(reads(&["textBody"], ids), [false, true, false]);
        let values = BodyOptions { fetch_text_body_values: true, ..none() };
        assert_eq!(reads(&["subject"], values.clone()), [true, false, false]);
        assert_eq!(reads(&["bodyValues"], values), [false, true, true]);
    }
}
