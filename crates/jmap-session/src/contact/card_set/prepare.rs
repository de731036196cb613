//! From what a client sends to a card that can be stored: checked, with what the server sets, and its
//! pictures and sounds stored.

use sealpost_account::Message;
use sealpost_account::contacts::{AddressBookId, CardContent, CardId};
use sealpost_base::limits::{CARD_BYTES, CARD_UID_BYTES};
use sealpost_base::{ObjectId, Position, Result, Timestamp};
use sealpost_jmap::contact::check_card;
use sealpost_jmap::date::UtcDate;
use sealpost_jmap::error::SetErrorType;
use sealpost_jmap::patch::PatchObject;
use sealpost_jmap::read::FromJson;
use sealpost_jmap::standard::ObjectMap;
use sealpost_jmap::true_set::TrueSet;
use sealpost_jmap::{GivenId, SetError};
use serde_json::{Map, Value};

use crate::contact::media::{self, CardMedia};
use crate::contact::object::{BOOK_IDS, card as object_of, named_book};
use crate::scope::Scope;

/// A card that can be stored.
pub(super) struct Prepared {
    /// The card that it replaces, as it was when that changed last; `None`: a new one.
    pub(super) card: Option<(CardId, Position)>,
    pub(super) content: CardContent,
    pub(super) media: CardMedia,
    /// The properties that the client does not know.
    pub(super) reply: Map<String, Value>,
}

/// A card that could not be prepared, or a server that failed.
type Answer<T> = Result<std::result::Result<T, SetError>>;

/// A new card.
pub(super) async fn prepare_new(scope: &Scope<'_>, given: ObjectMap) -> Answer<Prepared> {
    let mut object = given.clone();
    if object.contains_key("id") {
        return Ok(Err(wrong("id", "set by the server alone")));
    }
    let now = seconds(scope.composer().now);
    // What RFC 9553 §2.1 asks for and clients may leave to the server.
    let defaults = [("@type", "Card".to_owned()), ("version", "1.0".to_owned())];
    let dates = ["created", "updated"].map(|name| (name, now.to_string()));
    for (name, value) in defaults.into_iter().chain(dates) {
        object.entry(name).or_insert(Value::String(value));
    }
    if !object.contains_key("uid") {
        object.insert("uid".to_owned(), new_uid(scope).into());
    }
    prepare(scope, object, None, &given).await
}

/// A card after an update; `None` if that is what it is.
pub(super) async fn prepare_update(
    scope: &Scope<'_>,
    id: CardId,
    patch: &PatchObject,
) -> Answer<Option<Prepared>> {
    let (before, known, changed) = {
        let state = scope.account().state();
        let Some(card) = state.contacts().card(id) else { return Ok(Err(SetErrorType::NotFound.into())) };
        (object_of(card), state.media_of(card), card.changed)
    };
    let mut object = before.clone();
    if let Err(error) = patch.apply(&mut object, &Map::new()) {
        return Ok(Err(error));
    }
    if object.get("id") != before.get("id") {
        return Ok(Err(wrong("id", "set by the server alone")));
    }
    if object == before {
        return Ok(Ok(None));
    }
    let expected = object.clone();
    object.remove("id");
    // RFC 9553 §2.1.10: when the data changed, unless the client says so itself; another address book is
    // no other data.
    let is_data = |name: &&String| !matches!(name.as_str(), "id" | BOOK_IDS);
    let has_changed = |name: &String| object.get(name) != before.get(name);
    let data_changed = object.keys().chain(before.keys()).filter(is_data).any(has_changed);
    if data_changed && object.get("updated") == before.get("updated") {
        object.insert("updated".to_owned(), seconds(scope.composer().now).to_string().into());
    }
    let prepared = prepare(scope, object, Some((id, changed, &known)), &expected).await?;
    Ok(prepared.map(Some))
}

/// `given` is what the client takes the card for.
async fn prepare(
    scope: &Scope<'_>,
    mut object: ObjectMap,
    before: Option<(CardId, Position, &[Message])>,
    given: &Map<String, Value>,
) -> Answer<Prepared> {
    let books = match books_of(scope, object.remove(BOOK_IDS)) {
        Ok(books) => books,
        Err(error) => return Ok(Err(error)),
    };
    if let Err(error) = check_card(&object) {
        return Ok(Err(error));
    }
    let known = before.map_or(&[][..], |(_, _, known)| known);
    let media = match media::store(scope, &mut object, known).await? {
        Ok(media) => media,
        Err(error) => return Ok(Err(error)),
    };
    let json = serde_json::to_string(&object).unwrap_or_default();
    if json.len() > CARD_BYTES {
        let why = format!("a card has at most {CARD_BYTES} bytes, besides pictures and sounds");
        return Ok(Err(SetError::from(SetErrorType::TooLarge).describe(why)));
    }
    let uid = object.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned();
    if uid.len() > CARD_UID_BYTES {
        return Ok(Err(wrong("uid", &format!("has more than {CARD_UID_BYTES} bytes"))));
    }
    let mut reply = object;
    reply.retain(|name, value| given.get(name) != Some(value));
    // A property that the server removed does not occur: it only sets some.
    let content = CardContent { uid, books, json, media: media.messages.clone() };
    Ok(Ok(Prepared { card: before.map(|(id, changed, _)| (id, changed)), content, media, reply }))
}

/// The address books that a card is in, at least one (RFC 9610 §3).
fn books_of(scope: &Scope<'_>, value: Option<Value>) -> std::result::Result<Vec<AddressBookId>, SetError> {
    let Some(value) = value else { return Err(wrong(BOOK_IDS, "a card is in one address book at least")) };
    let set: TrueSet<GivenId> = TrueSet::from_json(value).map_err(|wrong| wrong.within(BOOK_IDS))?;
    if set.0.is_empty() {
        return Err(wrong(BOOK_IDS, "a card is in one address book at least"));
    }
    let books = set.0.iter().map(|given| named_book(given, &scope.created));
    books.collect::<Option<_>>().ok_or_else(|| wrong(BOOK_IDS, "there is no such address book"))
}

fn wrong(property: &str, why: &str) -> SetError {
    SetError::invalid_properties(vec![property.to_owned()], why)
}

/// A moment in whole seconds.
fn seconds(now: Timestamp) -> UtcDate {
    UtcDate::new(Timestamp(now.0 - now.0.rem_euclid(1000)))
}

/// RFC 9553 §2.1.9: a random UUID of version 4.
fn new_uid(scope: &Scope<'_>) -> String {
    let mut bytes = ObjectId::random(&*scope.user().ctx().random).0;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("urn:uuid:{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
