//! Contacts against a naive model; their changes; checkpoints; limits.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sealpost_base::{Position, Timestamp, limits};

use super::{ACCOUNT, chunks, message, through_chunks};
use crate::contacts::{AddressBookFields, AddressBookId, CardContent, CardId};
use crate::event::{Batch, Event};
use crate::state::{AccountState, Applied, ObjectKind, SyncPoint};
use crate::usage;
use sealpost_vault::entry::Origin;

/// What contacts would be without a thought for memory or history.
#[derive(Debug, Clone, PartialEq)]
struct Model {
    books: BTreeMap<u32, String>,
    default: u32,
    next_book: u32,
    cards: BTreeMap<u32, ModelCard>,
    next_card: u32,
}

#[derive(Debug, Clone, PartialEq)]
struct ModelCard {
    uid: String,
    books: BTreeSet<u32>,
    json: String,
    media: Vec<u8>,
}

impl Model {
    fn new() -> Self {
        let books = BTreeMap::from([(1, "Contacts".to_owned())]);
        Model { books, default: 1, next_book: 2, cards: BTreeMap::new(), next_card: 1 }
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::AddressBookCreated { fields } => {
                self.books.insert(self.next_book, fields.name.clone());
                self.next_book += 1;
            }
            Event::AddressBookChanged { book, fields } => {
                self.books.entry(book.0).and_modify(|name| name.clone_from(&fields.name));
            }
            Event::AddressBookDeleted { book } => self.delete_book(book.0),
            Event::DefaultAddressBookSet { book } if self.books.contains_key(&book.0) => {
                self.default = book.0
            }
            Event::CardStored { card, content } => self.store(card.map(|id| id.0), content),
            Event::CardDeleted { card } => drop(self.cards.remove(&card.0)),
            _ => {}
        }
    }

    fn delete_book(&mut self, book: u32) {
        if book != self.default && self.books.remove(&book).is_some() {
            self.cards.values_mut().for_each(|card| card.books.retain(|other| *other != book));
            self.cards.retain(|_, card| !card.books.is_empty());
        }
    }

    fn store(&mut self, id: Option<u32>, content: &CardContent) {
        let books: BTreeSet<u32> = content.books.iter().map(|book| book.0).collect();
        let is_taken = self.cards.iter().any(|(other, card)| Some(*other) != id && card.uid == content.uid);
        let exists = id.is_none_or(|id| self.cards.contains_key(&id));
        if is_taken || !exists || books.is_empty() || !books.iter().all(|book| self.books.contains_key(book))
        {
            return;
        }
        let mut media: Vec<u8> = content.media.iter().map(|message| message.object.0[0]).collect();
        media.dedup();
        let id = id.unwrap_or_else(|| {
            self.next_card += 1;
            self.next_card - 1
        });
        let (uid, json) = (content.uid.clone(), content.json.clone());
        self.cards.insert(id, ModelCard { uid, books, json, media });
    }
}

/// The state as the model would have it.
fn seen_by_model(state: &AccountState) -> Model {
    let contacts = state.contacts();
    let card = |card: &crate::state::Card| ModelCard {
        uid: card.uid.clone(),
        books: card.books.iter().map(|book| book.0).collect(),
        json: card.json.clone(),
        media: state.media_of(card).iter().map(|message| message.object.0[0]).collect(),
    };
    Model {
        books: contacts.books().map(|book| (book.id.0, book.fields.name.clone())).collect(),
        default: contacts.default_book().0,
        next_book: contacts.next_book,
        cards: contacts.cards().map(|known| (known.id.0, card(known))).collect(),
        next_card: contacts.next_card,
    }
}

fn fields(name: &str) -> AddressBookFields {
    AddressBookFields { name: name.to_owned(), ..AddressBookFields::first() }
}

fn content(uid: &str, books: &[u32], json: &str, media: &[u8]) -> CardContent {
    CardContent {
        uid: uid.to_owned(),
        books: books.iter().map(|book| AddressBookId(*book)).collect(),
        json: json.to_owned(),
        media: media.iter().map(|n| message(*n)).collect(),
    }
}

fn events() -> impl Strategy<Value = Event> {
    let book = || (1u32..5).prop_map(AddressBookId);
    let card = || (1u32..8).prop_map(CardId);
    let name = || prop::sample::select(vec!["a", "b", "c"]);
    let books = prop::collection::btree_set(1u32..5, 0..3);
    // One object is one medium; several of a card ascend.
    let media = prop::collection::btree_set(0u8..6, 0..3);
    let contents = (name(), books, "[a-z]{0,9}", media).prop_map(|(uid, books, json, media)| {
        let (books, media): (Vec<u32>, Vec<u8>) = (books.into_iter().collect(), media.into_iter().collect());
        content(uid, &books, &json, &media)
    });
    prop_oneof![
        1 => name().prop_map(|name| Event::AddressBookCreated { fields: fields(name) }),
        1 => (book(), name()).prop_map(|(book, name)| Event::AddressBookChanged { book, fields: fields(name) }),
        1 => book().prop_map(|book| Event::AddressBookDeleted { book }),
        1 => book().prop_map(|book| Event::DefaultAddressBookSet { book }),
        6 => (prop::option::of(card()), contents).prop_map(|(card, content)| Event::CardStored { card, content }),
        2 => card().prop_map(|card| Event::CardDeleted { card }),
        1 => (0i64..40).prop_map(|t| Event::Purged { before: Timestamp(t) }),
        1 => any::<u8>().prop_map(|n| Event::delivered(message(n))),
    ]
}

fn apply(state: &mut AccountState, events: Vec<Event>) -> Vec<Applied> {
    let position = state.position().next();
    let batch = Batch { at: Timestamp(position.0 as i64), events };
    let batch = Batch::decode(&batch.encode()).unwrap();
    state.apply(position, Origin::Owner, &batch)
}

/// What [`crate::state::Contacts::changed_since`] says of cards, from each of them.
fn card_has_changed(state: &AccountState, since: Position) -> bool {
    let contacts = state.contacts();
    let mut gone = contacts.gone_cards.since(since);
    gone.as_mut().is_none_or(|gone| gone.next().is_some())
        || contacts.cards().any(|card| card.changed > since)
}

/// What a client has that follows all changes from `since` on, page by page, with pages of `most`.
fn followed(state: &AccountState, before: &Model, since: Position, most: usize) -> Option<BTreeSet<u32>> {
    let mut known: BTreeSet<u32> = before.cards.keys().copied().collect();
    let mut at = SyncPoint::from(since);
    loop {
        let changes = state.card_changes(at, most)?;
        assert!(changes.created.len() + changes.updated.len() + changes.destroyed.len() <= most);
        assert!(
            changes.destroyed.iter().all(|card| known.remove(&card.0)),
            "only what is known is destroyed"
        );
        assert!(changes.created.iter().all(|card| known.insert(card.0)), "only what is unknown is created");
        assert!(changes.updated.iter().all(|card| known.contains(&card.0)));
        at = changes.upto;
        if !changes.more {
            return Some(known);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn contacts_equal_a_naive_model(
        log in prop::collection::vec(prop::collection::vec(events(), 1..4), 0..40),
        cut in 0usize..40,
        most in 1usize..9,
    ) {
        let (mut model, mut before) = (Model::new(), (Position::ZERO, Model::new()));
        let (mut state, mut restored) = (AccountState::new(ACCOUNT), AccountState::new(ACCOUNT));
        for (i, events) in log.iter().enumerate() {
            apply(&mut state, events.clone());
            apply(&mut restored, events.clone());
            events.iter().for_each(|event| model.apply(event));
            if i == cut {
                restored = through_chunks(&restored);
                before = (state.position(), model.clone());
            }
        }
        prop_assert_eq!(&seen_by_model(&state), &model);
        prop_assert_eq!(chunks(&state), chunks(&restored));
        for since in (0..=state.position().0).map(Position) {
            for state in [&state, &restored] {
                let changed = state.contacts().last_change_of_cards() > since;
                prop_assert_eq!(changed, card_has_changed(state, since));
            }
        }
        let bytes: usize = model.cards.values().map(|card| card.uid.len() + card.json.len()).sum();
        prop_assert_eq!(state.contacts().text_bytes(), bytes);
        for (since, before) in [(Position::ZERO, Model::new()), before] {
            for most in [most, 1000] {
                let known = followed(&state, &before, since, most);
                prop_assert_eq!(known, Some(model.cards.keys().copied().collect::<BTreeSet<_>>()));
            }
        }
        for kind in [ObjectKind::AddressBooks, ObjectKind::Cards] {
            prop_assert_eq!(state.last_change(kind), restored.last_change(kind));
        }
        let books = state.address_book_changes(state.last_change(ObjectKind::AddressBooks), 1000).unwrap();
        prop_assert!(books.created.is_empty() && books.updated.is_empty() && books.destroyed.is_empty());
        let cards = state.card_changes(state.last_change(ObjectKind::Cards), 1000).unwrap();
        prop_assert!(cards.created.is_empty() && cards.updated.is_empty() && cards.destroyed.is_empty());
    }
}

#[test]
fn accounts_without_contacts_have_no_chunks_of_them() {
    let mut state = AccountState::new(ACCOUNT);
    apply(&mut state, vec![Event::delivered(message(1))]);
    let names = |state: &AccountState| chunks(state).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert!(names(&state).iter().all(|name| !name.contains("cards") && !name.contains("contacts")));
    apply(&mut state, vec![Event::CardStored { card: None, content: content("a", &[1], "{}", &[]) }]);
    assert!(names(&state).contains(&"cards-00000000".to_owned()));
}

#[test]
fn a_medium_of_a_card_stays_for_the_grace_period() {
    let mut state = AccountState::new(ACCOUNT);
    let stored = |card, media: &[u8]| Event::CardStored { card, content: content("a", &[1], "{}", media) };
    apply(&mut state, vec![stored(None, &[1, 2])]);
    assert_eq!(state.contacts().bytes(), 3 + 2 + 3, "the text, and media of n + 1 bytes each");
    assert_eq!(usage::of(&state).storage, 8);
    apply(&mut state, vec![stored(Some(CardId(1)), &[2, 3])]);
    assert_eq!(state.contacts().bytes(), 3 + 3 + 4);
    let objects =
        |state: &AccountState| state.message_objects().map(|object| object.0[0]).collect::<Vec<_>>();
    assert_eq!(objects(&state), [1, 2, 3]);
    assert!(state.card_medium(message(1).object).is_none() && state.card_medium(message(3).object).is_some());
    // Restoring expunged mail brings back no media.
    let inbox = state.inbox().id();
    apply(&mut state, vec![Event::Restored { to: inbox, since: Timestamp(0) }]);
    assert_eq!(state.inbox().len(), 0);
    let state_before = through_chunks(&state);
    apply(&mut state, vec![Event::Purged { before: Timestamp(100) }]);
    assert_eq!(objects(&state), [2, 3]);
    assert_eq!(objects(&state_before), [1, 2, 3]);
    apply(&mut state, vec![Event::CardDeleted { card: CardId(1) }, Event::Purged { before: Timestamp(100) }]);
    assert_eq!((objects(&state), state.contacts().bytes()), (vec![], 0));
}

#[test]
fn deliveries_change_no_contacts() {
    let mut state = AccountState::new(ACCOUNT);
    let events = vec![
        Event::AddressBookCreated { fields: fields("x") },
        Event::CardStored { card: None, content: content("a", &[1], "{}", &[]) },
    ];
    let applied = state.apply(Position(1), Origin::Delivery, &Batch { at: Timestamp(0), events });
    assert_eq!(applied, [Applied::Nothing, Applied::Nothing]);
}

#[test]
fn damage_gives_no_number_twice() {
    let mut state = AccountState::new(ACCOUNT);
    apply(&mut state, vec![Event::CardStored { card: None, content: content("a", &[1], "{}", &[]) }]);
    state.apply_damage(Position(2));
    let applied = apply(
        &mut state,
        vec![
            Event::CardStored { card: None, content: content("b", &[1], "{}", &[]) },
            Event::AddressBookCreated { fields: fields("x") },
        ],
    );
    let (card, book) = (2 + limits::CARDS as u32, 2 + limits::ADDRESS_BOOKS as u32);
    assert_eq!(applied, [Applied::Card(CardId(card)), Applied::AddressBook(AddressBookId(book))]);
    assert!(state.card_changes(Position(1), 10).is_none(), "too long ago");
    assert_eq!(state.last_change(ObjectKind::AddressBooks), state.position());
    assert_eq!(state.card_changes(Position(2), 10).unwrap().created, [CardId(card)]);
}

#[test]
fn limits_of_contacts_hold_in_every_replay() {
    let mut state = AccountState::new(ACCOUNT);
    let book = |name: &str| Event::AddressBookCreated { fields: fields(name) };
    let long = "n".repeat(limits::ADDRESS_BOOK_NAME_BYTES + 1);
    assert_eq!(apply(&mut state, vec![book(""), book(&long)]), [Applied::Nothing, Applied::Nothing]);
    for n in 1..limits::ADDRESS_BOOKS as u32 {
        assert_eq!(apply(&mut state, vec![book("x")]), [Applied::AddressBook(AddressBookId(n + 1))]);
    }
    assert_eq!(apply(&mut state, vec![book("x")]), [Applied::Nothing]);
    let mut store = |uid: &str, json: &str, media: usize| {
        let media: Vec<u8> = (0..media as u8).collect();
        apply(&mut state, vec![Event::CardStored { card: None, content: content(uid, &[1], json, &media) }])
    };
    let largest = "j".repeat(limits::CARD_BYTES);
    assert_eq!(store("", "{}", 0), [Applied::Nothing]);
    assert_eq!(store(&"u".repeat(limits::CARD_UID_BYTES + 1), "{}", 0), [Applied::Nothing]);
    assert_eq!(store("a", &format!("{largest}j"), 0), [Applied::Nothing]);
    assert_eq!(store("a", "{}", limits::CARD_MEDIA + 1), [Applied::Nothing]);
    assert_eq!(store("a", "{}", limits::CARD_MEDIA), [Applied::Card(CardId(1))]);
    let fitting = limits::CARDS_BYTES / (limits::CARD_BYTES + 4);
    for n in 0..fitting {
        assert!(matches!(store(&format!("{n:04}"), &largest, 0)[..], [Applied::Card(_)]), "{n}");
    }
    assert_eq!(store("last", &largest, 0), [Applied::Nothing]);
}

#[test]
fn an_account_holds_so_many_cards() {
    let mut state = AccountState::new(ACCOUNT);
    let stored =
        |n: usize| Event::CardStored { card: None, content: content(&format!("{n:x}"), &[1], "{}", &[]) };
    let applied = apply(&mut state, (0..=limits::CARDS).map(stored).collect());
    assert_eq!(applied.last(), Some(&Applied::Nothing));
    assert_eq!(state.contacts().len(), limits::CARDS);
    let page = state.card_changes(Position::ZERO, 4096).unwrap();
    assert_eq!((page.created.len(), page.upto.position, page.more), (4096, Position::ZERO, true));
    // Bounded tombstones: what was deleted before the later half is too long ago.
    for round in 0..2 {
        let first = 1 + round * limits::CARDS as u32;
        let gone =
            (first..first + limits::CARDS as u32).map(|card| Event::CardDeleted { card: CardId(card) });
        apply(&mut state, gone.collect());
        apply(&mut state, (0..limits::CARDS).map(stored).collect());
    }
    assert!(state.contacts().gone_cards.len() <= limits::TOMBSTONES);
    assert!(state.card_changes(Position(1), usize::MAX / 4).is_none());
    assert!(through_chunks(&state).card_changes(Position(1), usize::MAX / 4).is_none());
}
