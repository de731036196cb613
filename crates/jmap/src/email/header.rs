//! Header fields: properties that name one, in one of seven forms (RFC 8621 §4.1.2, §4.1.3).

use std::fmt;

use sealpost_base::limits::JMAP_HEADER_PROPERTIES;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::date::Date;
use crate::object::object;
use crate::read::{Fields, FromJson, Mismatch, string_enum};

object! {
    /// A mailbox of an address list.
    pub struct EmailAddress {
        /// The display name, decoded.
        name: Option<String> = "name" [nullable],
        /// The address; in a draft it may be anything.
        email: String = "email" [required],
    }
}

object! {
    /// A group of an address list, or the addresses between groups.
    pub struct EmailAddressGroup {
        /// The name of the group; none if it is no group.
        name: Option<String> = "name" [nullable],
        /// Its addresses.
        addresses: Vec<EmailAddress> = "addresses" [required],
    }
}

object! {
    /// A header field as it is in the message.
    pub struct EmailHeader {
        /// Its name, capitalised as in the message.
        name: String = "name" [required],
        /// Its value, in the raw form.
        value: String = "value" [required],
    }
}

string_enum! {
    /// How the value of a header field is read.
    pub enum HeaderForm {
        /// As it is (§4.1.2.1).
        Raw = "asRaw",
        /// Unfolded and decoded (§4.1.2.2).
        Text = "asText",
        /// Addresses (§4.1.2.3).
        Addresses = "asAddresses",
        /// Addresses with their groups (§4.1.2.4).
        GroupedAddresses = "asGroupedAddresses",
        /// Message ids without angle brackets (§4.1.2.5).
        MessageIds = "asMessageIds",
        /// A date (§4.1.2.6).
        Date = "asDate",
        /// URLs without angle brackets (§4.1.2.7).
        Urls = "asURLs",
    }
}

/// Fields of RFC 5322 and RFC 2369 with the forms they have besides the raw one.
const KNOWN: &[(&[&str], &[HeaderForm])] = &[
    (&["subject", "comments", "keywords"], &[HeaderForm::Text]),
    (
        &[
            "from",
            "sender",
            "reply-to",
            "to",
            "cc",
            "bcc",
            "resent-from",
            "resent-sender",
            "resent-reply-to",
            "resent-to",
            "resent-cc",
            "resent-bcc",
        ],
        &[HeaderForm::Addresses, HeaderForm::GroupedAddresses],
    ),
    (&["message-id", "in-reply-to", "references", "resent-message-id"], &[HeaderForm::MessageIds]),
    (&["date", "resent-date"], &[HeaderForm::Date]),
    (
        &["list-help", "list-unsubscribe", "list-subscribe", "list-post", "list-owner", "list-archive"],
        &[HeaderForm::Urls],
    ),
    (&["return-path", "received"], &[]),
];

impl HeaderForm {
    /// Whether a field may be read in this form: "nonsense" ones are forbidden, any form is allowed
    /// of fields that the RFCs do not define.
    pub fn is_allowed_for(self, field: &str) -> bool {
        let is_named = |(names, _): &&(&[&str], _)| names.iter().any(|name| name.eq_ignore_ascii_case(field));
        self == HeaderForm::Raw || KNOWN.iter().find(is_named).is_none_or(|(_, forms)| forms.contains(&self))
    }
}

/// A property `header:Name:asForm:all`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HeaderProperty {
    /// The field, capitalised as in the request.
    pub name: String,
    /// The form; raw if the client named none.
    pub form: HeaderForm,
    /// Whether the client named the raw form, which the response repeats.
    names_raw: bool,
    /// Whether all fields of the name are meant, or the last one.
    pub all: bool,
}

impl HeaderProperty {
    /// Bytes of the name of a field: more than any line of a message has (RFC 5322 §2.1.1).
    const NAME_BYTES: usize = 998;

    /// The property of a field in a form; `None` if the name is none or the form is not allowed for
    /// it.
    pub fn new(name: &str, form: HeaderForm, all: bool) -> Option<Self> {
        let is_name = (1..=Self::NAME_BYTES).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
        let is_valid = is_name && form.is_allowed_for(name);
        is_valid.then(|| HeaderProperty { name: name.to_owned(), form, names_raw: false, all })
    }

    /// Reads the name of a property that begins with `header:`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix("header:").ok_or("does not begin with header:")?;
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let mut suffix = parts.next();
        let form = suffix.and_then(HeaderForm::from_name);
        if form.is_some() {
            suffix = parts.next();
        }
        let all = suffix == Some("all");
        if (suffix.is_some() && !all) || parts.next().is_some() {
            let forms = string_forms();
            return Err(format!("after the field's name come {forms}, then :all, or nothing"));
        }
        let property = HeaderProperty::new(name, form.unwrap_or(HeaderForm::Raw), all);
        let mut property = property.ok_or_else(|| match form {
            Some(form) if HeaderProperty::new(name, HeaderForm::Raw, all).is_some() => {
                format!("{} is forbidden for this field", form.name())
            }
            _ => "not the name of a field".to_owned(),
        })?;
        property.names_raw = form == Some(HeaderForm::Raw);
        Ok(property)
    }

    /// Whether it is about the same field, whatever the form.
    pub fn is_for(&self, field: &str) -> bool {
        self.name.eq_ignore_ascii_case(field)
    }
}

fn string_forms() -> String {
    let forms: Vec<String> = HeaderForm::ALL.iter().map(|form| format!(":{}", form.name())).collect();
    forms.join(" or ")
}

impl fmt::Display for HeaderProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "header:{}", self.name)?;
        if self.form != HeaderForm::Raw || self.names_raw {
            write!(f, ":{}", self.form.name())?;
        }
        f.write_str(if self.all { ":all" } else { "" })
    }
}

/// The value of one header field in some form.
#[derive(Debug, Clone, PartialEq)]
pub enum HeaderValue {
    /// Raw and text.
    Text(String),
    /// Addresses.
    Addresses(Vec<EmailAddress>),
    /// Addresses with groups.
    Groups(Vec<EmailAddressGroup>),
    /// Message ids and URLs.
    Strings(Vec<String>),
    /// A date.
    Date(Date),
    /// The field is not there, or is not in the form.
    Null,
}

impl HeaderValue {
    fn read(form: HeaderForm, value: Value) -> Result<Self, Mismatch> {
        if value.is_null() {
            return Ok(HeaderValue::Null);
        }
        match form {
            HeaderForm::Raw | HeaderForm::Text => String::from_json(value).map(HeaderValue::Text),
            HeaderForm::Addresses => Vec::from_json(value).map(HeaderValue::Addresses),
            HeaderForm::GroupedAddresses => Vec::from_json(value).map(HeaderValue::Groups),
            HeaderForm::MessageIds | HeaderForm::Urls => Vec::from_json(value).map(HeaderValue::Strings),
            HeaderForm::Date => Date::from_json(value).map(HeaderValue::Date),
        }
    }
}

impl Serialize for HeaderValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            HeaderValue::Text(text) => text.serialize(serializer),
            HeaderValue::Addresses(addresses) => addresses.serialize(serializer),
            HeaderValue::Groups(groups) => groups.serialize(serializer),
            HeaderValue::Strings(strings) => strings.serialize(serializer),
            HeaderValue::Date(date) => date.serialize(serializer),
            HeaderValue::Null => serializer.serialize_none(),
        }
    }
}

/// The value of a header property.
#[derive(Debug, Clone, PartialEq)]
pub enum HeaderFieldValue {
    /// Of the last field of the name.
    One(HeaderValue),
    /// Of all, in the order of the message.
    All(Vec<HeaderValue>),
}

impl HeaderFieldValue {
    /// Reads the value that a property has.
    pub fn read(property: &HeaderProperty, value: Value) -> Result<Self, Mismatch> {
        if !property.all {
            return HeaderValue::read(property.form, value).map(HeaderFieldValue::One);
        }
        let read = |(index, value)| {
            HeaderValue::read(property.form, value).map_err(|wrong: Mismatch| wrong.at(index))
        };
        let values = Vec::<Value>::from_json(value)?.into_iter().enumerate().map(read);
        values.collect::<Result<_, _>>().map(HeaderFieldValue::All)
    }
}

impl Serialize for HeaderFieldValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            HeaderFieldValue::One(value) => value.serialize(serializer),
            HeaderFieldValue::All(values) => values.serialize(serializer),
        }
    }
}

/// Header properties with their values, each property once.
pub type HeaderProperties = Vec<(HeaderProperty, HeaderFieldValue)>;

/// Takes all header properties out of an object; what is wrong with some goes into `wrong`.
pub(crate) fn take(fields: &mut Fields, wrong: &mut Vec<Mismatch>) -> HeaderProperties {
    let names = fields.names_beginning("header:");
    if names.len() > JMAP_HEADER_PROPERTIES {
        let most = format!("at most {JMAP_HEADER_PROPERTIES} header properties");
        wrong.push(Mismatch::because(most).within(&names[0]));
        return Vec::new();
    }
    let mut properties = Vec::new();
    for name in names {
        let read = HeaderProperty::parse(&name).map_err(Mismatch::because).and_then(|property| {
            let value = fields.required(&name).map_err(|_| Mismatch::because("missing"))?;
            HeaderFieldValue::read(&property, value).map(|value| (property, value))
        });
        match read {
            Ok(property) => properties.push(property),
            Err(mismatch) => {
                // It is known now, and wrong.
                let _: Result<Option<Value>, Mismatch> = fields.present(&name);
                wrong.push(mismatch.within(&name));
            }
        }
    }
    properties
}

/// Writes header properties as members of an object.
pub(crate) fn write<M: SerializeMap>(properties: &HeaderProperties, map: &mut M) -> Result<(), M::Error> {
    properties.iter().try_for_each(|(property, value)| map.serialize_entry(&property.to_string(), value))
}

/// A property of an object that has properties of its own and header properties.
macro_rules! property_or_header {
    ($(#[$meta:meta])* pub enum $type:ident of $field:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum $type {
            /// A property with a name of its own.
            Field($field),
            /// `header:Name` and so on.
            Header(HeaderProperty),
        }

        impl FromJson for $type {
            fn expected() -> String {
                "the name of a property".into()
            }

            fn from_json(value: Value) -> Result<Self, Mismatch> {
                let name = value.as_str().ok_or_else(|| Mismatch::new(Self::expected(), &value))?;
                if let Some(field) = $field::from_name(name) {
                    return Ok($type::Field(field));
                }
                if !name.starts_with("header:") {
                    return Err(Mismatch::new($field::expected(), &value));
                }
                HeaderProperty::parse(name).map($type::Header).map_err(Mismatch::because)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $type::Field(field) => field.serialize(serializer),
                    $type::Header(property) => serializer.collect_str(property),
                }
            }
        }
    };
}
pub(crate) use property_or_header;
