//! Stores prepared cards by one entry: each is decided by itself, where the log ends.

use std::collections::HashSet;

use sealpost_account::contacts::{CardContent, CardId};
use sealpost_account::{AccountState, Applied, Event, NewMessage, Unplaced};
use sealpost_base::limits::{CARDS, CARDS_BYTES};
use sealpost_base::{Error, Kind, Position};
use sealpost_directory::Usage;
use sealpost_jmap::SetError;
use sealpost_jmap::error::{SetErrorDetail, SetErrorType};
use sealpost_mailbox::quota_headroom::QuotaHeadroom;
use serde_json::{Map, Value};

use super::prepare::Prepared;
use crate::contact::commit::ContactChanges;
use crate::contact::object::{BOOK_IDS, id_of_card};
use crate::method::Failure;
use crate::scope::Scope;

/// What became of a card.
pub(super) enum Done {
    /// It is stored, with these properties that the client does not know.
    Stored(CardId, Map<String, Value>),
    /// It is not.
    Refused(SetError),
    /// Others changed the card since it was read.
    Overtaken,
}

/// Why a card is not stored.
enum Refusal {
    Error(SetError),
    Overtaken,
}

pub(super) async fn commit(
    scope: &Scope<'_>,
    changes: &mut ContactChanges,
    cards: Vec<Prepared>,
) -> Result<Vec<Done>, Failure> {
    if cards.is_empty() {
        return Ok(Vec::new());
    }
    let headroom = scope.headroom().await?;
    // From here on an entry may refer to the media, whatever becomes of the append.
    let cards: Vec<Placing> = cards.into_iter().map(Placing::new).collect();
    let committed = changes.commit(scope, |state| decide(state, &cards, &headroom)).await;
    let committed = match committed {
        Ok(Ok(committed)) => committed,
        Ok(Err(mismatch)) => {
            cards.iter().for_each(|card| card.remove_media(scope));
            return Err(mismatch.into());
        }
        // The account would be too large to be loaded.
        Err(error) if error.kind() == Kind::Limit => {
            let refused = || SetError::from(SetErrorType::OverQuota).describe(error.to_string());
            cards.iter().for_each(|card| card.remove_media(scope));
            return Ok(cards.iter().map(|_| Done::Refused(refused())).collect());
        }
        Err(error) => return Err(error.into()),
    };
    let mut applied = committed.applied.into_iter();
    let done = cards.into_iter().zip(committed.value).map(|(card, decided)| {
        if decided.is_err() {
            card.remove_media(scope);
        }
        match decided {
            Err(Refusal::Error(error)) => Done::Refused(error),
            Err(Refusal::Overtaken) => Done::Overtaken,
            Ok(()) => match applied.next() {
                Some(Applied::Card(id)) => Done::Stored(id, card.reply),
                _ => Done::Overtaken,
            },
        }
    });
    Ok(done.collect())
}

/// A card on its way into the log.
struct Placing {
    card: Option<(CardId, Position)>,
    content: CardContent,
    reply: Map<String, Value>,
    /// Media that are new.
    stored: Vec<NewMessage>,
}

impl Placing {
    fn new(prepared: Prepared) -> Self {
        let Prepared { card, content, media, reply } = prepared;
        Placing { card, content, reply, stored: media.unplaced.into_messages() }
    }

    /// Removes the media of a card that is refused: no entry refers to them.
    fn remove_media(&self, scope: &Scope<'_>) {
        let mut unplaced = Unplaced::of(scope.account().clone());
        self.stored.iter().for_each(|new| unplaced.push(new.clone()));
    }

    fn media_bytes(&self) -> u64 {
        self.stored.iter().map(|new| new.stored.size()).sum()
    }
}

type Decided = (Vec<Event>, Vec<Result<(), Refusal>>);

fn decide(state: &AccountState, cards: &[Placing], headroom: &QuotaHeadroom) -> Result<Decided, Error> {
    let mut room =
        Room { state, headroom, uids: HashSet::new(), ids: HashSet::new(), cards: 0, bytes: 0, media: 0 };
    let (mut events, mut decided) = (Vec::new(), Vec::new());
    for prepared in cards {
        prepared.stored.iter().try_for_each(|new| new.stored.check_age())?;
        let taken = room.take(prepared);
        if taken.is_ok() {
            let card = prepared.card.as_ref().map(|(id, _)| *id);
            events.push(Event::CardStored { card, content: prepared.content.clone() });
        }
        decided.push(taken);
    }
    Ok((events, decided))
}

/// What the account has, and the cards before in the same entry.
struct Room<'a> {
    state: &'a AccountState,
    headroom: &'a QuotaHeadroom,
    uids: HashSet<&'a str>,
    ids: HashSet<CardId>,
    cards: usize,
    bytes: usize,
    media: u64,
}

impl<'a> Room<'a> {
    fn take(&mut self, prepared: &'a Placing) -> Result<(), Refusal> {
        let (contacts, content) = (self.state.contacts(), &prepared.content);
        let before = match &prepared.card {
            None => None,
            Some((id, changed)) => match contacts.card(*id) {
                None => return Err(SetErrorType::NotFound.into()),
                Some(card) if card.changed != *changed || self.ids.contains(id) => {
                    return Err(Refusal::Overtaken);
                }
                Some(card) => Some(card),
            },
        };
        if content.books.iter().any(|book| contacts.book(*book).is_none()) {
            let why = "there is no such address book";
            return Err(SetError::invalid_properties(vec![BOOK_IDS.to_owned()], why).into());
        }
        // RFC 9610 §3: no two cards of an account have the same uid.
        let other =
            contacts.with_uid(&content.uid).filter(|other| Some(other.id) != before.map(|card| card.id));
        if let Some(other) = other {
            let error = SetError::from(SetErrorType::AlreadyExists).describe("a card has this uid");
            return Err(error.with(SetErrorDetail::ExistingId(id_of_card(other.id))).into());
        }
        if !self.uids.insert(&content.uid) {
            return Err(
                SetError::invalid_properties(vec!["uid".to_owned()], "used twice in this call").into()
            );
        }
        let cards = self.cards + usize::from(before.is_none());
        let replaced = before.map_or(0, |card| card.uid.len() + card.json.len());
        let bytes = self.bytes + (content.uid.len() + content.json.len()).saturating_sub(replaced);
        let media = self.media + prepared.media_bytes();
        if contacts.len() + cards > CARDS || contacts.text_bytes() + bytes > CARDS_BYTES {
            let why = format!("an account has at most {CARDS} cards of {CARDS_BYTES} bytes together");
            return Err(SetError::from(SetErrorType::OverQuota).describe(why).into());
        }
        let more = Usage { storage: media + bytes as u64, ..Usage::default() };
        if self.headroom.check(self.state, more).is_err() {
            return Err(SetErrorType::OverQuota.into());
        }
        (self.cards, self.bytes, self.media) = (cards, bytes, media);
        self.ids.extend(before.map(|card| card.id));
        Ok(())
    }
}

impl From<SetError> for Refusal {
    fn from(error: SetError) -> Self {
        Refusal::Error(error)
    }
}

impl From<SetErrorType> for Refusal {
    fn from(error: SetErrorType) -> Self {
        Refusal::Error(error.into())
    }
}
