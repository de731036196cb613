//! SEARCH (RFC 3501 §6.4.4, RFC 4731), and what SORT, THREAD and ESEARCH share with it.
//!
//! A command is translated ([`compile`]), run by the search engine over a [`numbered`] scope, and answered
//! ([`answer`]). Its result can be kept as `$` (RFC 5182), a set of UIDs in the session's view.

pub(super) mod answer;
pub(super) mod charset;
mod compile;
pub(super) mod numbered;

use std::sync::Arc;

use sealpost_base::{Timestamp, UidSet};
use sealpost_imap::types::{Code, Search, Status, Tag};
use sealpost_mailbox::changes::vanished_since;
use sealpost_search::{MailboxIndex, Matches, Placement, Query};

use super::connection::End;
use super::contexts::Wanted;
use super::reply::{Failure, Outcome, Reply};
use super::session::Session;
use answer::{Answer, Returns, correlator};
use charset::Charset;
use compile::Translator;
use numbered::NumberedScope;

impl Session {
    /// SEARCH.
    pub(super) async fn search(&mut self, tag: &Tag, search: Search) -> Outcome {
        let saves = Returns::saves(&search);
        let outcome = self.search_selected(tag, search).await;
        self.keep_saved(saves, outcome)
    }

    async fn search_selected(&mut self, tag: &Tag, search: Search) -> Outcome {
        let scope = NumberedScope::selected(self.view()?);
        self.may_name_charset(&search)?;
        let search = self.with_filters(search)?;
        let returns = Returns::of(&search)?;
        let correlator = correlator(tag);
        if returns.is_some_and(|returns| returns.update) {
            self.check_context(&correlator)?;
        }
        let position = scope.mailbox().account.state().position();
        let query = self.query(&search, &scope)?;
        let now = self.ctx.clock.now();
        let matches = self.find(&scope, &query, now).await?;
        let answer =
            Answer { scope: &scope, matches: &matches, uid: search.uid, modseq: query.asks_for_modseq() };
        // RFC 9051 §6.4.4: there is no SEARCH response any more, and without RETURN it is as with (ALL).
        let returns = returns.or_else(|| self.dialect.rev2().then(Returns::all));
        let Some(returns) = returns else {
            answer.write_plain(&mut self.connection, "SEARCH").await?;
            return Ok(Reply::ok("SEARCH completed"));
        };
        if !returns.is_silent() {
            answer.write(&mut self.connection, &correlator, &returns).await?;
        }
        if returns.update {
            let (uid, found) = (search.uid, &*matches);
            self.keep_up_to_date(Wanted { correlator, uid, query, found, comparators: None, position, now });
        }
        self.save_result(&answer, &returns)?;
        Ok(Reply::ok("SEARCH completed"))
    }

    /// RFC 6855 §3: once UTF-8 is agreed on, the strings are UTF-8, whatever else might be said of them.
    ///
    /// # Errors
    /// `BAD` if something else is said.
    pub(super) fn may_name_charset(&self, search: &Search) -> Result<(), Reply> {
        if self.dialect.utf8_accept() && search.charset.is_some() {
            return Err(Reply::bad("no CHARSET after ENABLE UTF8=ACCEPT"));
        }
        Ok(())
    }

    /// SORT and THREAD have to name a charset: after ENABLE UTF8=ACCEPT that is UTF-8, or the part of it that
    /// is ASCII (RFC 6855 §3, erratum 4029).
    ///
    /// # Errors
    /// `BAD` for another one.
    pub(super) fn may_sort_in_charset(&self, search: &Search) -> Result<(), Reply> {
        let is_utf8 = Charset::is_utf8(search.charset.as_ref());
        if self.dialect.utf8_accept() && !is_utf8 {
            return Err(Reply::bad("no CHARSET but UTF-8 after ENABLE UTF8=ACCEPT"));
        }
        Ok(())
    }

    /// Makes a search ready.
    ///
    /// # Errors
    /// `NO [BADCHARSET]` for a charset that is not known; `NO [LIMIT]` for too many strings that are matched
    /// fuzzily.
    pub(super) fn query(&self, search: &Search, scope: &NumberedScope) -> Result<Arc<Query>, Failure> {
        let Some(charset) = Charset::named(search.charset.as_ref()) else {
            // Hundreds of names are known. A list of them is optional, and one that has only some of them is
            // wrong (RFC 3501 §7.1, RFC 9051 §7.1).
            let code = Code::BadCharset(Vec::new());
            return Err(Reply::no(code, "charset not known; UTF-8 always is").into());
        };
        let criterion = Translator { scope, charset: &charset }.all(&search.keys)?;
        Ok(Arc::new(Query::new(&criterion)?))
    }

    /// The messages of the scope that match, ascending by UID. Tells the client which are damaged.
    ///
    /// # Errors
    /// `NO [UNAVAILABLE]` if messages cannot be read for now; `NO [LIMIT]` if there are too many for the
    /// memory; the end of the session, or of the mailbox.
    pub(super) async fn find(
        &mut self,
        scope: &NumberedScope,
        query: &Arc<Query>,
        now: Timestamp,
    ) -> Result<Matches, Failure> {
        let (engine, mut progress) = self.search_engine();
        let found = engine.find(scope.scope(), query, now, &mut progress).await?;
        none_gone(&found.gone)?;
        if found.unavailable {
            return Err(Reply::no(Code::Unavailable, "some messages cannot be read now").into());
        }
        self.tell_damaged(&found.damaged, "was not searched").await?;
        Ok(found.matches)
    }

    /// Tells the client which messages are damaged, and what that means for them.
    pub(super) async fn tell_damaged(&mut self, damaged: &[Placement], meaning: &str) -> Result<(), End> {
        for Placement { uid, .. } in damaged {
            let text = format!("message UID {uid} is damaged and {meaning}");
            self.connection.out().status(None, Status::No, Some(&Code::Corruption), &text);
            self.connection.relieve().await?;
        }
        Ok(())
    }

    /// From now on `$` stands for the result, if SAVE was asked for.
    pub(super) fn save_result(&mut self, answer: &Answer<'_>, returns: &Returns) -> Result<(), Reply> {
        if returns.save
            && let Some(view) = &mut self.view
        {
            view.save(answer.saved(returns)?);
        }
        Ok(())
    }

    /// RFC 5182 §2.1: a search that should have been saved and is answered with NO leaves `$` empty; one that
    /// is BAD leaves it alone.
    pub(super) fn keep_saved(&mut self, saves: bool, outcome: Outcome) -> Outcome {
        if let (true, Err(Failure::Reply(Reply { status: Status::No, .. })), Some(view)) =
            (saves, &outcome, &mut self.view)
        {
            view.save(UidSet::new());
        }
        outcome
    }

    /// Messages that are gone are no longer part of `$`, whether or not the client was told (RFC 5182 §2.1).
    pub(super) fn forget_expunged(&mut self) {
        let Some(view) = self.view.as_mut().filter(|view| !view.saved().is_empty()) else { return };
        let account = view.account().clone();
        let state = account.state();
        if let Ok(mailbox) = view.mailbox_in(&state) {
            let gone = vanished_since(mailbox, view.told_expunges(), view.saved());
            if !gone.is_empty() {
                let left = view.saved().difference(&gone);
                view.save(left);
            }
        }
    }
}

/// Whether the mailbox that was searched is still there (RFC 2180 §3.3).
///
/// # Errors
/// `MailboxGone` if not.
pub(super) fn none_gone(gone: &[MailboxIndex]) -> Result<(), End> {
    if gone.is_empty() { Ok(()) } else { Err(End::MailboxGone) }
}
