//! EmailSubmission/set (RFC 8621 §7.5): creates, then updates and destroys, then the implicit Email/set.

mod cancel;
mod create;
mod emails;
mod envelope;
mod refused;

use std::collections::BTreeMap;

pub(crate) use create::{SourceEmail, received_field};
pub(crate) use envelope::of_header as envelope_of;
pub(crate) use refused::{Refused, invalid_property, limit as limit_error};
use sealpost_account::{AccountState, Event};
use sealpost_base::{ObjectId, SubmissionId};
use sealpost_jmap::error::SetErrorType;
use sealpost_jmap::id::{CreationId, Id};
use sealpost_jmap::patch::PatchObject;
use sealpost_jmap::standard::{ObjectMap, SetResponse};
use sealpost_jmap::submission::{EmailSubmission, SubmissionSet, SubmissionSetResponse, UndoStatus};
use sealpost_jmap::{GivenId, SetError};
use serde_json::{Map, Value};

use super::settle::settle;
use super::show::{id_of, show, submission_of};
use crate::email;
use crate::identity::list::refresh;
use crate::method::{Failure, Outcome};
use crate::record_state::{RecordChanges, failure_of};
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn set(
    scope: &mut Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let SubmissionSet { set, on_success_update_email, on_success_destroy_email } =
        SubmissionSet::from_arguments(arguments)?;
    scope.require(&set.account_id)?;
    settle(scope).await?;
    let changed = scope.own_state(|state| state.submissions().changed()).await?;
    let mut run = Run {
        changes: RecordChanges::begin(changed, set.if_in_state.as_ref())?,
        response: SetResponse::new(set.account_id.clone(), crate::record_state::state_at(changed)),
        emails: BTreeMap::new(),
    };
    let done = Box::pin(run.all(scope, set.create, set.update, set.destroy)).await;
    done.map_err(|failure| run.changes.failed(failure))?;
    let states = scope.own_state(|state| run.changes.states(state.submissions().changed())).await?;
    (run.response.old_state, run.response.new_state) = states;
    let Run { response, emails, .. } = run;
    responder.respond("EmailSubmission/set", &response, call_id).await?;
    let implicit = emails::email_set(
        &response.account_id,
        &emails,
        (on_success_update_email, on_success_destroy_email),
        &scope.created,
    );
    match implicit {
        Some(request) => Box::pin(email::set_emails(scope, responder, request, call_id)).await,
        None => Ok(()),
    }
}

/// One call.
struct Run {
    changes: RecordChanges,
    response: SubmissionSetResponse,
    /// The emails of the submissions that were created, changed or destroyed.
    emails: BTreeMap<SubmissionId, ObjectId>,
}

impl Run {
    async fn all(
        &mut self,
        scope: &mut Scope<'_>,
        create: BTreeMap<CreationId, ObjectMap>,
        update: BTreeMap<GivenId, ObjectMap>,
        destroy: Vec<GivenId>,
    ) -> Result<(), Failure> {
        if !create.is_empty() {
            let record = std::sync::Arc::new(refresh(scope).await?);
            for (creation, object) in create {
                self.create(scope, &record, creation, object).await?;
            }
        }
        let doomed: Vec<_> =
            destroy.iter().filter_map(|given| submission_of(given, &scope.created)).collect();
        for (given, patch) in update {
            match submission_of(&given, &scope.created) {
                Some(id) if doomed.contains(&id) => {
                    self.response.not_updated.insert(given, SetErrorType::WillDestroy.into());
                }
                Some(id) => self.update(scope, given, id, patch).await?,
                None => drop(self.response.not_updated.insert(given, SetErrorType::NotFound.into())),
            }
        }
        self.destroy(scope, destroy).await
    }

    async fn create(
        &mut self,
        scope: &mut Scope<'_>,
        record: &std::sync::Arc<sealpost_directory::AccountRecord>,
        creation: CreationId,
        object: ObjectMap,
    ) -> Result<(), Failure> {
        let given_envelope = object.get("envelope").is_some_and(|envelope| !envelope.is_null());
        match Box::pin(create::create(scope, &mut self.changes, record, object)).await {
            Ok(record) => {
                let submission = &record.submission;
                let mut created = show(&record);
                created.identity_id = None;
                created.email_id = None;
                if given_envelope {
                    created.envelope = None;
                }
                self.emails.insert(submission.id, submission.email);
                scope.created.insert(creation.clone(), id_of(submission.id).into());
                self.response.created.insert(creation, created);
            }
            Err(refused) => drop(self.response.not_created.insert(creation, refused.of_object()?)),
        }
        Ok(())
    }

    async fn update(
        &mut self,
        scope: &Scope<'_>,
        given: GivenId,
        id: SubmissionId,
        patch: ObjectMap,
    ) -> Result<(), Failure> {
        let known = scope.own_state(|state| state.submissions().get(id).cloned()).await?;
        let Some(record) = known else {
            self.response.not_updated.insert(given, SetErrorType::NotFound.into());
            return Ok(());
        };
        let updated = match wanted_status(patch, &show(&record)) {
            Ok(None) => Ok(()),
            Ok(Some(())) => cancel::cancel(scope, &mut self.changes, &record).await?,
            Err(error) => Err(error),
        };
        match updated {
            Ok(()) => {
                self.emails.insert(id, record.submission.email);
                self.response.updated.insert(id_of(id).into(), None);
            }
            Err(error) => drop(self.response.not_updated.insert(given, error)),
        }
        Ok(())
    }

    /// Removes records; what they are of is sent all the same.
    async fn destroy(&mut self, scope: &Scope<'_>, destroy: Vec<GivenId>) -> Result<(), Failure> {
        let ids: Vec<_> = destroy
            .into_iter()
            .map(|given| {
                let id = submission_of(&given, &scope.created);
                (given, id)
            })
            .collect();
        if ids.is_empty() {
            return Ok(());
        }
        let decide = |state: &AccountState| {
            let changed = state.submissions().changed();
            self.changes.check(changed)?;
            let known = ids.iter().filter_map(|(_, id)| state.submissions().get((*id)?));
            let emails: BTreeMap<SubmissionId, ObjectId> =
                known.map(|record| (record.submission.id, record.submission.email)).collect();
            let events = emails.keys().map(|id| Event::SubmissionRemoved { submission: *id }).collect();
            Ok((events, (changed, emails)))
        };
        let committed = scope.account().commit(decide).await;
        let committed = committed.map_err(|error| {
            failure_of(error, &self.changes, &scope.account().state(), |state| state.submissions().changed())
        })?;
        self.changes.committed(committed.value.0, &committed);
        let emails = committed.value.1;
        for (given, id) in ids {
            match id.filter(|id| emails.contains_key(id)) {
                Some(id) => self.response.destroyed.push(Id::from(id_of(id))),
                None => drop(self.response.not_destroyed.insert(given, SetErrorType::NotFound.into())),
            }
        }
        self.emails.extend(emails);
        Ok(())
    }
}

/// Whether a patch cancels a submission; nothing else of one can change.
fn wanted_status(patch: ObjectMap, current: &EmailSubmission) -> Result<Option<()>, SetError> {
    let update = PatchObject::new(patch).and_then(EmailSubmission::for_update)?;
    let conflicts = update.conflicts(current);
    if !conflicts.is_empty() {
        return Err(SetError::invalid_properties(conflicts, "only undoStatus changes"));
    }
    match update.undo_status {
        wanted if wanted.is_none() || wanted == current.undo_status => Ok(None),
        Some(UndoStatus::Canceled) => Ok(Some(())),
        _ => {
            let wrong = vec!["undoStatus".to_owned()];
            Err(SetError::invalid_properties(wrong, "a client sets it to canceled, and to nothing else"))
        }
    }
}
