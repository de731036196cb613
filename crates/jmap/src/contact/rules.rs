//! What RFC 9553 asks of the properties of an object together.

use sealpost_base::calendar::days_in;
use serde_json::{Map, Value};

use crate::read::Mismatch;

type Members = Map<String, Value>;

/// Nothing.
pub(super) fn none(_: &Members) -> Result<(), Mismatch> {
    Ok(())
}

/// RFC 9553 §2.1.6: only groups have members.
pub(super) fn card(card: &Members) -> Result<(), Mismatch> {
    let is_group = card.get("kind").and_then(Value::as_str) == Some("group");
    match card.contains_key("members") && !is_group {
        true => Err(Mismatch::because("only a card of the kind \"group\" has members").within("members")),
        false => Ok(()),
    }
}

/// RFC 9553 §2.2.1.1.
pub(super) fn name(name: &Members) -> Result<(), Mismatch> {
    any_of(name, &["components", "full"])?;
    components(name)?;
    let Some(Value::Object(sort_as)) = name.get("sortAs") else { return Ok(()) };
    let kinds: Vec<&str> = kinds(name).collect();
    match sort_as.keys().find(|key| !kinds.contains(&key.as_str())) {
        Some(key) => Err(Mismatch::because("no component is of this kind").within(key).within("sortAs")),
        None => Ok(()),
    }
}

/// RFC 9553 §2.5.1.1.
pub(super) fn address(address: &Members) -> Result<(), Mismatch> {
    any_of(address, &["components", "coordinates", "countryCode", "full", "timeZone"])?;
    components(address)
}

/// RFC 9553 §2.2.3.
pub(super) fn organization(organization: &Members) -> Result<(), Mismatch> {
    any_of(organization, &["name", "units"])?;
    match organization.get("units").and_then(Value::as_array) {
        Some(units) if units.is_empty() => Err(Mismatch::because("must not be empty").within("units")),
        _ => Ok(()),
    }
}

/// RFC 9553 §2.2.4.
pub(super) fn speak_to_as(speak: &Members) -> Result<(), Mismatch> {
    any_of(speak, &["grammaticalGender", "pronouns"])
}

/// RFC 9553 §2.3.2.
pub(super) fn online_service(service: &Members) -> Result<(), Mismatch> {
    any_of(service, &["uri", "user"])
}

/// RFC 9553 §2.8.3.
pub(super) fn author(author: &Members) -> Result<(), Mismatch> {
    any_of(author, &["name", "uri"])
}

/// RFC 9610 §3: the bytes are a blob, or where the URI says.
pub(super) fn media(media: &Members) -> Result<(), Mismatch> {
    any_of(media, &["uri", "blobId"])?;
    match media.contains_key("uri") && media.contains_key("blobId") {
        true => Err(Mismatch::because("has a uri as well").within("blobId")),
        false => Ok(()),
    }
}

/// RFC 9553 §2.8.1: a date, a year, a month in a year, or a day in a month.
pub(super) fn partial_date(date: &Members) -> Result<(), Mismatch> {
    let number = |name: &str| date.get(name).and_then(Value::as_u64);
    let (year, month, day) = (number("year"), number("month"), number("day"));
    if month.is_some() && year.is_none() && day.is_none() {
        return Err(Mismatch::because("a month needs a year or a day").within("month"));
    }
    let Some(day) = day else { return Ok(()) };
    let Some(month) = month else { return Err(Mismatch::because("a day needs a month").within("day")) };
    // Of an unknown year any may be a leap year.
    let year = year.map_or(2000, |year| i64::try_from(year % 400).unwrap_or(0) + 2000);
    match day <= u64::from(days_in(month as u32, year)) {
        true => Ok(()),
        false => Err(Mismatch::because("the month has no such day").within("day")),
    }
}

fn any_of(members: &Members, names: &[&str]) -> Result<(), Mismatch> {
    match names.iter().any(|name| members.contains_key(*name)) {
        true => Ok(()),
        false => Err(Mismatch::because(format!("needs at least {}", crate::read::one_of(names)))),
    }
}

fn kinds(of: &Members) -> impl Iterator<Item = &str> {
    let components = of.get("components").and_then(Value::as_array).into_iter().flatten();
    components.filter_map(|component| component.get("kind").and_then(Value::as_str))
}

/// Of components in order separators may be between two, and of others none.
fn components(of: &Members) -> Result<(), Mismatch> {
    let wrong = |why: &str| Err(Mismatch::because(why).within("components"));
    let has = |name: &str| of.contains_key(name);
    let is_ordered = of.get("isOrdered") == Some(&Value::Bool(true));
    for name in ["defaultSeparator", "sortAs"] {
        if has(name) && !has("components") {
            return Err(Mismatch::because("there are no components").within(name));
        }
    }
    if has("defaultSeparator") && !is_ordered {
        return Err(Mismatch::because("the components are in no order").within("defaultSeparator"));
    }
    if !has("components") {
        return Ok(());
    }
    let is_separator: Vec<bool> = kinds(of).map(|kind| kind == "separator").collect();
    if is_separator.iter().all(|separator| *separator) {
        return wrong("needs a component that is no separator");
    }
    if !is_ordered && is_separator.contains(&true) {
        return wrong("components in no order have no separators");
    }
    if is_separator.windows(2).any(|pair| pair == [true, true]) {
        return wrong("two separators follow each other");
    }
    let components = of.get("components").and_then(Value::as_array).into_iter().flatten();
    let has_phonetic = components.into_iter().any(|component| component.get("phonetic").is_some());
    match has_phonetic && !has("phoneticSystem") && !has("phoneticScript") {
        // RFC 9553 §1.5.4.
        true => wrong("phonetic values need a phoneticSystem or phoneticScript"),
        false => Ok(()),
    }
}
