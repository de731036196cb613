//! ContactCard/set (RFC 9610 §3.5): creates, then updates, then destroys. Many cards become one entry
//! of the log. Each card is decided again where the log ends: an update of a card that another client
//! changed meanwhile is made again.

mod commit;
mod prepare;

use std::collections::HashSet;

use sealpost_account::contacts::CardId;
use sealpost_account::state::ObjectKind;
use sealpost_account::{Applied, Event};
use sealpost_base::limits::{CARD_BYTES, CARDS_ENTRY_BYTES};
use sealpost_jmap::contact::CardSetResponse;
use sealpost_jmap::error::SetErrorType;
use sealpost_jmap::id::CreationId;
use sealpost_jmap::patch::PatchObject;
use sealpost_jmap::standard::{ObjectMap, SetRequest, SetResponse};
use sealpost_jmap::{GivenId, SetError};
use sealpost_vault::message::READER_BYTES;
use serde_json::{Map, Value};

use self::commit::{Done, commit};
use self::prepare::{Prepared, prepare_new, prepare_update};
use super::commit::ContactChanges;
use super::object::{id_of_card, named_card};
use crate::method::{Failure, Outcome};
use crate::responder::Responder;
use crate::scope::Scope;

/// How often an update is made again that another client's change came before.
const ATTEMPTS: usize = 4;
/// Memory for each byte of a card: as values, as text, in the event and in the entry.
const MEMORY_FACTOR: usize = 4;

pub(crate) async fn set(
    scope: &mut Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = SetRequest::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let mut changes = ContactChanges::begin(scope, ObjectKind::Cards, request.if_in_state.as_ref()).await?;
    let mut response: CardSetResponse = SetResponse::new(request.account_id.clone(), changes.old_state());
    let _permit = scope.permit(memory_for(&request)).await;
    let done = run(scope, &mut changes, request, &mut response).await;
    done.map_err(|failure| changes.failed(failure))?;
    (response.old_state, response.new_state) = changes.states(scope).await?;
    responder.respond("ContactCard/set", &response, call_id).await?;
    Ok(())
}

/// Memory for the cards of one entry, and for a medium while it is stored.
fn memory_for(request: &SetRequest) -> usize {
    let cards = (request.create.len() + request.update.len()) * CARD_BYTES;
    let has_media = request.create.values().any(|card| card.contains_key("media"))
        || request.update.values().any(|patch| patch.keys().any(|path| path.starts_with("media")));
    cards.min(CARDS_ENTRY_BYTES + CARD_BYTES) * MEMORY_FACTOR + if has_media { READER_BYTES } else { 0 }
}

async fn run(
    scope: &mut Scope<'_>,
    changes: &mut ContactChanges,
    request: SetRequest,
    response: &mut CardSetResponse,
) -> Result<(), Failure> {
    let mut batch = Batch::default();
    for (creation, object) in request.create {
        match prepare_new(scope, object).await? {
            Ok(prepared) => batch.push(creation, prepared),
            Err(error) => drop(response.not_created.insert(creation, error)),
        }
        if batch.is_full() {
            create(scope, changes, &mut batch, response).await?;
        }
    }
    create(scope, changes, &mut batch, response).await?;
    let doomed: HashSet<CardId> =
        request.destroy.iter().filter_map(|given| named_card(given, &scope.created)).collect();
    update(scope, changes, request.update.into_iter().collect(), &doomed, response).await?;
    destroy(scope, changes, request.destroy, response).await
}

/// Cards that are stored together, each with what the client calls it.
struct Batch<N> {
    names: Vec<N>,
    cards: Vec<Prepared>,
    bytes: usize,
}

impl<N> Default for Batch<N> {
    fn default() -> Self {
        Batch { names: Vec::new(), cards: Vec::new(), bytes: 0 }
    }
}

impl<N> Batch<N> {
    fn push(&mut self, name: N, card: Prepared) {
        self.bytes += card.content.memory();
        self.names.push(name);
        self.cards.push(card);
    }

    fn is_full(&self) -> bool {
        self.bytes > CARDS_ENTRY_BYTES
    }

    /// Stores them; what became of each.
    async fn commit(
        &mut self,
        scope: &Scope<'_>,
        changes: &mut ContactChanges,
    ) -> Result<Vec<(N, Done)>, Failure> {
        let Batch { names, cards, .. } = std::mem::take(self);
        Ok(names.into_iter().zip(commit(scope, changes, cards).await?).collect())
    }
}

async fn create(
    scope: &mut Scope<'_>,
    changes: &mut ContactChanges,
    batch: &mut Batch<CreationId>,
    response: &mut CardSetResponse,
) -> Result<(), Failure> {
    for (creation, done) in batch.commit(scope, changes).await? {
        match done {
            Done::Stored(card, mut reply) => {
                let id = id_of_card(card);
                reply.insert("id".to_owned(), Value::String(id.to_string()));
                scope.created.insert(creation.clone(), id);
                response.created.insert(creation, reply);
            }
            Done::Refused(error) => drop(response.not_created.insert(creation, error)),
            // No other client can change a card that is new.
            Done::Overtaken => drop(response.not_created.insert(creation, overtaken())),
        }
    }
    Ok(())
}

async fn update(
    scope: &mut Scope<'_>,
    changes: &mut ContactChanges,
    mut updates: Vec<(GivenId, ObjectMap)>,
    doomed: &HashSet<CardId>,
    response: &mut CardSetResponse,
) -> Result<(), Failure> {
    let mut refuse = Vec::new();
    for attempt in 1..=ATTEMPTS {
        let (mut batch, mut again) = (Batch::default(), Vec::new());
        let mut left = updates.into_iter().peekable();
        while let Some((given, patch)) = left.next() {
            let prepared = match named_card(&given, &scope.created) {
                None => Err(SetErrorType::NotFound.into()),
                Some(card) if doomed.contains(&card) => Err(SetErrorType::WillDestroy.into()),
                Some(card) => match PatchObject::new(patch.clone()) {
                    Ok(checked) => prepare_update(scope, card, &checked).await?,
                    Err(error) => Err(error),
                },
            };
            match prepared {
                Ok(Some(prepared)) => batch.push((given, patch), prepared),
                Ok(None) => {
                    // It is so already.
                    let card = named_card(&given, &scope.created).map(id_of_card);
                    response.updated.extend(card.map(|id| (id, None)));
                }
                Err(error) => refuse.push((given, error)),
            }
            if !batch.is_full() && left.peek().is_some() {
                continue;
            }
            for ((given, patch), done) in batch.commit(scope, changes).await? {
                match done {
                    Done::Stored(card, reply) => {
                        response
                            .updated
                            .insert(id_of_card(card), Some(reply).filter(|reply| !reply.is_empty()));
                    }
                    Done::Refused(error) => refuse.push((given, error)),
                    Done::Overtaken if attempt < ATTEMPTS => again.push((given, patch)),
                    Done::Overtaken => refuse.push((given, overtaken())),
                }
            }
        }
        updates = again;
        if updates.is_empty() {
            break;
        }
    }
    response.not_updated.extend(refuse);
    Ok(())
}

/// Others changed the card each time it was about to be changed.
fn overtaken() -> SetError {
    SetError::from(SetErrorType::RateLimit).describe("others change this card at the same time: try again")
}

/// Destroys cards, all by one entry.
async fn destroy(
    scope: &Scope<'_>,
    changes: &mut ContactChanges,
    destroy: Vec<GivenId>,
    response: &mut CardSetResponse,
) -> Result<(), Failure> {
    let named: Vec<(GivenId, Option<CardId>)> =
        destroy.into_iter().map(|given| (given.clone(), named_card(&given, &scope.created))).collect();
    if named.is_empty() {
        return Ok(());
    }
    let committed = changes.commit(scope, |state| {
        // Two names may be of one card, which then exists for the first of them.
        let mut gone = HashSet::new();
        let exists = |card: &Option<CardId>| card.filter(|card| state.contacts().card(*card).is_some());
        let cards: Vec<Option<CardId>> =
            named.iter().map(|(_, card)| exists(card).filter(|card| gone.insert(*card))).collect();
        let events = cards.iter().flatten().map(|card| Event::CardDeleted { card: *card }).collect();
        Ok((events, cards))
    });
    let committed = committed.await??;
    debug_assert!(committed.applied.iter().all(|applied| *applied != Applied::Nothing));
    for ((given, _), card) in named.into_iter().zip(committed.value) {
        match card {
            Some(card) => response.destroyed.push(id_of_card(card)),
            None => drop(response.not_destroyed.insert(given, SetErrorType::NotFound.into())),
        }
    }
    Ok(())
}
