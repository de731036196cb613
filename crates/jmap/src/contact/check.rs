//! Whether an object is valid JSContact (RFC 9553 §1.7): properties that are known have the values
//! that they must have, others are kept as they are.

use sealpost_base::limits::CARD_LANGUAGES;
use serde_json::{Map, Value};

use super::localize::localized;
use super::schema::{CARD, PARTIAL_DATE, TIMESTAMP};
use crate::date::UtcDate;
use crate::id::Id;
use crate::read::{FromJson, Mismatch};

/// A type of JSContact.
pub(super) struct Object {
    /// What `@type` says.
    pub(super) name: &'static str,
    /// Its properties besides that.
    pub(super) properties: &'static [Property],
    /// What they must be together.
    pub(super) rule: fn(&Map<String, Value>) -> Result<(), Mismatch>,
}

/// A property of a type.
pub(super) struct Property {
    name: &'static str,
    kind: Kind,
    is_required: bool,
}

/// What a property can be.
pub(super) enum Kind {
    /// Any text.
    Text,
    /// A text that is not empty.
    WithText,
    /// True or false.
    Flag,
    /// An integer from the first to the second.
    Number(u64, u64),
    /// RFC 9553 §1.4.5.
    Date,
    /// RFC 9553 §1.4.1.
    Id,
    /// A language tag, by its characters.
    Language,
    /// A URI, by its characters and its scheme (RFC 9553 §1.6.2).
    Uri,
    /// A URI of the scheme "geo".
    Geo,
    /// Two letters.
    CountryCode,
    /// An address of email.
    Mailbox,
    /// A version of JSContact (RFC 9553 §1.9.2).
    Version,
    /// One of these, or another one that no case tells from them (RFC 9553 §1.7.5).
    Enumerated(&'static [&'static str]),
    /// An object whose values are true; its names are as [`Kind::Enumerated`], or any.
    Set(&'static [&'static str]),
    /// An object of texts.
    TextMap,
    /// An object of objects, whose names are ids.
    Map(&'static Object),
    /// The same, whose names are uids of cards.
    MapByUid(&'static Object),
    /// An array of objects.
    List(&'static Object),
    /// An object.
    One(&'static Object),
    /// RFC 9553 §2.8.1.
    AnniversaryDate,
    /// RFC 9553 §2.7.1; the card decides what it may be.
    Patches,
}

impl Property {
    pub(super) const fn required(name: &'static str, kind: Kind) -> Self {
        Property { name, kind, is_required: true }
    }

    pub(super) const fn optional(name: &'static str, kind: Kind) -> Self {
        Property { name, kind, is_required: false }
    }
}

/// What is wrong with a card, property by property; nothing if it is valid.
pub(super) fn wrong_with(card: &Map<String, Value>) -> Vec<Mismatch> {
    let mut wrong: Vec<Mismatch> = Vec::new();
    for (name, value) in card {
        wrong.extend(member(&CARD, name, value).err());
    }
    wrong.extend(missing(&CARD, card));
    if wrong.is_empty() {
        wrong.extend((CARD.rule)(card).err());
    }
    if wrong.is_empty() {
        wrong.extend(localizations(card).err());
    }
    wrong
}

/// What the card is in its other languages is valid too (RFC 9553 §2.7.1).
fn localizations(card: &Map<String, Value>) -> Result<(), Mismatch> {
    let Some(Value::Object(languages)) = card.get("localizations") else { return Ok(()) };
    for (language, patches) in languages {
        let within = |wrong: Mismatch| wrong.within(language).within("localizations");
        let Value::Object(patches) = patches else {
            return Err(within(Mismatch::new("an object of patches", patches)));
        };
        let localized = localized(card, patches).map_err(within)?;
        object(&CARD, &localized).map_err(within)?;
    }
    Ok(())
}

/// Checks an object of a type.
fn object(of: &'static Object, members: &Map<String, Value>) -> Result<(), Mismatch> {
    for (name, value) in members {
        member(of, name, value)?;
    }
    match missing(of, members).next() {
        Some(missing) => Err(missing),
        None => (of.rule)(members),
    }
}

fn missing<'a>(
    of: &'static Object,
    members: &'a Map<String, Value>,
) -> impl Iterator<Item = Mismatch> + use<'a> {
    let required = of.properties.iter().filter(|property| property.is_required);
    let absent = required.filter(|property| !members.contains_key(property.name));
    absent.map(|property| Mismatch::missing("a value").within(property.name))
}

/// Checks one property of an object.
fn member(of: &'static Object, name: &str, value: &Value) -> Result<(), Mismatch> {
    if name == "@type" {
        // RFC 9553 §1.3.4.
        let is_right = value.as_str() == Some(of.name);
        let expected = || Mismatch::new(format!("{:?}", of.name), value).within(name);
        return if is_right { Ok(()) } else { Err(expected()) };
    }
    match of.properties.iter().find(|property| property.name == name) {
        Some(property) => property.kind.check(value).map_err(|wrong| wrong.within(name)),
        None => unknown(of, name).map_err(|wrong| wrong.within(name)),
    }
}

/// RFC 9553 §1.7.1, §1.7.3, §1.7.4, §1.8.1: names that may be of a property that is not known here.
fn unknown(of: &'static Object, name: &str) -> Result<(), Mismatch> {
    if let Some((prefix, rest)) = name.split_once(':') {
        let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') || !c.is_ascii();
        let is_name = |c: char| !c.is_ascii_control() && !matches!(c, '"' | '~' | '/');
        let is_vendors = !prefix.is_empty() && prefix.chars().all(is_safe) && !rest.is_empty();
        return match is_vendors && rest.chars().all(is_name) {
            true => Ok(()),
            false => Err(Mismatch::because("not a name of a vendor's property")),
        };
    }
    if name == "extra" {
        return Err(Mismatch::because("this name is reserved"));
    }
    let known = of.properties.iter().map(|property| property.name).chain(["@type"]);
    match_case(known, name)?;
    match !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '@') {
        true => Ok(()),
        false => Err(Mismatch::because("not a name of a property")),
    }
}

/// A name that is no other one in another case.
fn match_case<'a>(mut known: impl Iterator<Item = &'a str>, name: &str) -> Result<(), Mismatch> {
    match known.find(|known| known.eq_ignore_ascii_case(name) && *known != name) {
        Some(known) => Err(Mismatch::because(format!("differs from {known:?} by case"))),
        None => Ok(()),
    }
}

/// Whether a fraction of a second ends with a zero.
fn is_padded(date: &Value) -> bool {
    date.as_str().is_some_and(|text| text.contains('.') && text.ends_with("0Z"))
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let is_plain =
        |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}');
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(is_scheme)
        && rest.chars().all(is_plain)
}

fn is_language(text: &str) -> bool {
    let is_subtag =
        |tag: &str| (1..=8).contains(&tag.len()) && tag.chars().all(|c| c.is_ascii_alphanumeric());
    text.split('-').all(is_subtag)
}

fn is_address(text: &str) -> bool {
    let parts = text.rsplit_once('@');
    parts.is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty())
        && !text.chars().any(char::is_control)
}

impl Kind {
    fn check(&self, value: &Value) -> Result<(), Mismatch> {
        let text_that = |is_right: fn(&str) -> bool, what: &str| match value.as_str().is_some_and(is_right) {
            true => Ok(()),
            false => Err(Mismatch::new(what, value)),
        };
        match self {
            Kind::Text => text_that(|_| true, "a string"),
            Kind::WithText => text_that(|text| !text.is_empty(), "a string that is not empty"),
            Kind::Flag => bool::from_json(value.clone()).map(drop),
            Kind::Number(least, most) => match value.as_u64() {
                Some(number) if (*least..=*most).contains(&number) => Ok(()),
                _ => Err(Mismatch::new(format!("an integer from {least} to {most}"), value)),
            },
            Kind::Date => match UtcDate::from_json(value.clone()) {
                // One moment is written in one way (RFC 9553 §1.4.5).
                Ok(_) if !is_padded(value) => Ok(()),
                _ => Err(Mismatch::new(UtcDate::expected(), value)),
            },
            Kind::Id => text_that(|text| Id::new(text).is_some(), "an id"),
            Kind::Language => text_that(is_language, "a language tag"),
            Kind::Uri => text_that(is_uri, "a URI"),
            Kind::Geo => {
                text_that(|text| is_uri(text) && text.starts_with("geo:"), "a URI of the scheme geo")
            }
            Kind::CountryCode => {
                let is_code = |text: &str| text.len() == 2 && text.chars().all(|c| c.is_ascii_alphabetic());
                text_that(is_code, "two letters")
            }
            Kind::Mailbox => text_that(is_address, "an address of email"),
            Kind::Version => text_that(|text| text == "1.0", "\"1.0\""),
            Kind::Enumerated(names) => {
                let name = String::from_json(value.clone())?;
                match_case(names.iter().copied(), &name)
            }
            Kind::Set(names) => set(names, value),
            Kind::TextMap => members(value, |_, value| String::from_json(value.clone()).map(drop)),
            Kind::Map(of) => members(value, |name, value| match Id::new(name) {
                Some(_) => Kind::One(of).check(value),
                None => Err(Mismatch::because("not an id")),
            }),
            Kind::MapByUid(of) => members(value, |_, value| Kind::One(of).check(value)),
            Kind::List(of) => {
                let Value::Array(items) = value else { return Err(Mismatch::new("an array", value)) };
                let mut items = items.iter().enumerate();
                items.try_for_each(|(index, item)| Kind::One(of).check(item).map_err(|wrong| wrong.at(index)))
            }
            Kind::One(of) => match value {
                Value::Object(members) => object(of, members),
                _ => Err(Mismatch::new(format!("an object ({})", of.name), value)),
            },
            Kind::AnniversaryDate => {
                let is_timestamp = value.get("@type").and_then(Value::as_str) == Some(TIMESTAMP.name);
                Kind::One(if is_timestamp { &TIMESTAMP } else { &PARTIAL_DATE }).check(value)
            }
            Kind::Patches => patches(value),
        }
    }
}

/// Checks the members of an object.
fn members(value: &Value, check: impl Fn(&str, &Value) -> Result<(), Mismatch>) -> Result<(), Mismatch> {
    let Value::Object(members) = value else { return Err(Mismatch::new("an object", value)) };
    members.iter().try_for_each(|(name, value)| check(name, value).map_err(|wrong| wrong.within(name)))
}

fn set(names: &[&str], value: &Value) -> Result<(), Mismatch> {
    members(value, |name, value| match value {
        Value::Bool(true) => match_case(names.iter().copied(), name),
        _ => Err(Mismatch::new("true", value)),
    })
}

/// Languages of a card; what their patches make is checked with the card.
fn patches(value: &Value) -> Result<(), Mismatch> {
    members(value, |language, _| match is_language(language) {
        true => Ok(()),
        false => Err(Mismatch::because("not a language tag")),
    })?;
    match value.as_object().is_some_and(|languages| languages.len() > CARD_LANGUAGES) {
        true => Err(Mismatch::because(format!("more than {CARD_LANGUAGES} languages"))),
        false => Ok(()),
    }
}
