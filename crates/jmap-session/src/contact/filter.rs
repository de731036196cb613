//! Which cards match a filter (RFC 9610 §3.3.1).
//!
//! Texts are compared as searches of mail compare them, and words are found inside of others. All
//! words must be in what a condition looks at, each somewhere; a phrase is in one value.

use sealpost_account::contacts::AddressBookId;
use sealpost_account::state::Card;
use sealpost_base::limits::JMAP_FILTER_WORDS;
use sealpost_jmap::MethodError;
use sealpost_jmap::contact::CardCondition;
use sealpost_jmap::date::UtcDate;
use sealpost_jmap::email::words;
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::id::CreatedIds;
use sealpost_jmap::read::FromJson;
use sealpost_jmap::standard::{Filter, Operator};
use sealpost_mime::fold::fold;
use serde_json::{Map, Value};

use super::object::named_book;
use crate::query_part::passes;

/// Names of properties whose values are for programs.
const NOT_TEXT: [&str; 5] = ["@type", "version", "blobId", "mediaType", "uid"];

/// A filter whose words are folded.
pub(super) struct CardFilter(Option<Filter<Wanted>>);

/// What one condition asks for; all of it must be so.
struct Wanted {
    /// `None` within: an address book that does not exist.
    book: Option<Option<AddressBookId>>,
    uid: Option<String>,
    member: Option<String>,
    kind: Option<String>,
    dates: Vec<(&'static str, Bound)>,
    texts: Vec<(Place, Vec<String>)>,
}

enum Bound {
    Before(UtcDate),
    From(UtcDate),
}

/// Where a text may be.
#[derive(Clone, Copy)]
enum Place {
    Anywhere,
    Name,
    Component(&'static str),
    Values(&'static str, &'static [&'static str]),
    Address,
}

impl CardFilter {
    /// # Errors
    /// `unsupportedFilter` if it asks for too many words.
    pub(super) fn new(
        filter: Option<&Filter<CardCondition>>,
        created: &CreatedIds,
    ) -> Result<Self, MethodError> {
        let mut left = JMAP_FILTER_WORDS;
        filter.map(|filter| folded(filter, created, &mut left)).transpose().map(CardFilter)
    }

    /// Whether only a card's own text can decide.
    pub(super) fn reads_text(&self) -> bool {
        fn reads(filter: &Filter<Wanted>) -> bool {
            match filter {
                Filter::Operator { conditions, .. } => conditions.iter().any(reads),
                Filter::Condition(Wanted { member, kind, dates, texts, .. }) => {
                    member.is_some() || kind.is_some() || !dates.is_empty() || !texts.is_empty()
                }
            }
        }
        self.0.as_ref().is_some_and(reads)
    }

    /// Whether a card matches, with its properties if [`CardFilter::reads_text`].
    pub(super) fn matches(&self, card: &Card, object: &Map<String, Value>) -> bool {
        let meets = |wanted: &Wanted| wanted.meets(card, object);
        self.0.as_ref().is_none_or(|filter| passes(filter, &meets))
    }
}

fn folded(
    filter: &Filter<CardCondition>,
    created: &CreatedIds,
    left: &mut usize,
) -> Result<Filter<Wanted>, MethodError> {
    Ok(match filter {
        Filter::Operator { operator, conditions } => {
            let each = conditions.iter().map(|condition| folded(condition, created, left));
            let operator: Operator = *operator;
            Filter::Operator { operator, conditions: each.collect::<Result<_, _>>()? }
        }
        Filter::Condition(condition) => Filter::Condition(Wanted::new(condition, created, left)?),
    })
}

impl Wanted {
    fn new(condition: &CardCondition, created: &CreatedIds, left: &mut usize) -> Result<Self, MethodError> {
        let dates = [
            ("created", condition.created_before.map(Bound::Before)),
            ("created", condition.created_after.map(Bound::From)),
            ("updated", condition.updated_before.map(Bound::Before)),
            ("updated", condition.updated_after.map(Bound::From)),
        ];
        let texts = [
            (Place::Anywhere, &condition.text),
            (Place::Name, &condition.name),
            (Place::Component("given"), &condition.given),
            (Place::Component("surname"), &condition.surname),
            (Place::Component("surname2"), &condition.surname2),
            (Place::Values("nicknames", &["name"]), &condition.nickname),
            (Place::Values("organizations", &["name"]), &condition.organization),
            (Place::Values("emails", &["address", "label"]), &condition.email),
            (Place::Values("phones", &["number", "label"]), &condition.phone),
            (
                Place::Values("onlineServices", &["service", "uri", "user", "label"]),
                &condition.online_service,
            ),
            (Place::Address, &condition.address),
            (Place::Values("notes", &["note"]), &condition.note),
        ];
        let mut wanted = Vec::new();
        for (place, text) in texts {
            let Some(text) = text else { continue };
            let words: Vec<String> = words(text).iter().map(|word| fold(word)).collect();
            let too_many = || {
                let why = format!("a filter has at most {JMAP_FILTER_WORDS} words");
                MethodError::from(MethodErrorType::UnsupportedFilter).describe(why)
            };
            *left = left.checked_sub(words.len()).ok_or_else(too_many)?;
            wanted.push((place, words));
        }
        let bounds = dates.into_iter().filter_map(|(name, bound)| Some((name, bound?)));
        Ok(Wanted {
            book: condition.in_address_book.as_ref().map(|given| named_book(given, created)),
            uid: condition.uid.clone(),
            member: condition.has_member.clone(),
            kind: condition.kind.clone(),
            dates: bounds.collect(),
            texts: wanted,
        })
    }

    fn meets(&self, card: &Card, object: &Map<String, Value>) -> bool {
        let is_in = |book: &Option<AddressBookId>| book.is_some_and(|book| card.books.contains(&book));
        let has_member = |uid: &String| {
            object.get("members").and_then(Value::as_object).is_some_and(|members| members.contains_key(uid))
        };
        // RFC 9610 §3.3.1: a card without the property matches no kind.
        let is_kind = |kind: &String| object.get("kind").and_then(Value::as_str) == Some(kind.as_str());
        self.book.as_ref().is_none_or(is_in)
            && self.uid.as_ref().is_none_or(|uid| *uid == card.uid)
            && self.member.as_ref().is_none_or(has_member)
            && self.kind.as_ref().is_none_or(is_kind)
            && self.dates.iter().all(|(name, bound)| bound.holds(date_of(object, name)))
            && self.texts.iter().all(|(place, words)| has_words(*place, words, object))
    }
}

impl Bound {
    /// A card without the date matches none.
    fn holds(&self, date: Option<UtcDate>) -> bool {
        match (self, date) {
            (_, None) => false,
            (Bound::Before(bound), Some(date)) => date < *bound,
            (Bound::From(bound), Some(date)) => date >= *bound,
        }
    }
}

/// A date among the properties of a card.
pub(super) fn date_of(object: &Map<String, Value>, name: &str) -> Option<UtcDate> {
    object.get(name).cloned().and_then(|value| UtcDate::from_json(value).ok())
}

/// Whether each of the words is in some value there.
fn has_words(place: Place, words: &[String], object: &Map<String, Value>) -> bool {
    let mut left: Vec<&String> = words.iter().collect();
    texts(place, object, &mut |text| {
        if !left.is_empty() {
            let text = fold(text);
            left.retain(|word| !text.contains(word.as_str()));
        }
    });
    left.is_empty()
}

/// Calls `each` with every text that is there.
fn texts(place: Place, object: &Map<String, Value>, each: &mut impl FnMut(&str)) {
    match place {
        Place::Anywhere => {
            object.iter().filter(|(name, _)| !NOT_TEXT.contains(&name.as_str())).for_each(|(name, value)| {
                match (name.as_str(), value) {
                    ("keywords", Value::Object(keywords)) => keywords.keys().for_each(|name| each(name)),
                    _ => strings(value, each),
                }
            });
            texts(Place::Name, object, each);
        }
        Place::Name => {
            let Some(name) = object.get("name") else { return };
            components(name, None, each);
            // As a phrase is looked for in it.
            let mut full = String::new();
            components(name, None, &mut |value| full = format!("{full}{value} "));
            each(&full);
            name.get("full").and_then(Value::as_str).into_iter().for_each(each);
        }
        Place::Component(kind) => {
            object.get("name").into_iter().for_each(|name| components(name, Some(kind), each));
        }
        Place::Values(property, names) => {
            for value in object.get(property).and_then(Value::as_object).into_iter().flat_map(Map::values) {
                let texts = names.iter().filter_map(|name| value.get(*name).and_then(Value::as_str));
                texts.for_each(&mut *each);
            }
        }
        Place::Address => {
            for address in
                object.get("addresses").and_then(Value::as_object).into_iter().flat_map(Map::values)
            {
                components(address, None, each);
                address.get("full").and_then(Value::as_str).into_iter().for_each(&mut *each);
            }
        }
    }
}

/// The values of the components of a name or an address, of one kind or all.
fn components(of: &Value, kind: Option<&str>, each: &mut impl FnMut(&str)) {
    let components = of.get("components").and_then(Value::as_array).into_iter().flatten();
    let text = |component: &Value, name: &str| component.get(name).and_then(Value::as_str).map(str::to_owned);
    for component in components {
        if kind.is_none_or(|kind| text(component, "kind").as_deref() == Some(kind)) {
            text(component, "value").into_iter().for_each(|value| each(&value));
        }
    }
}

/// All strings of a value but those for programs.
fn strings(value: &Value, each: &mut impl FnMut(&str)) {
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::String(text) => each(text),
            Value::Array(items) => left.extend(items),
            Value::Object(members) => {
                left.extend(
                    members.iter().filter(|(name, _)| !NOT_TEXT.contains(&name.as_str())).map(|(_, v)| v),
                );
            }
            _ => {}
        }
    }
}
