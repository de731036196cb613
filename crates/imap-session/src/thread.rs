//! THREAD (RFC 5256): a search, its threads, and the response.

use sealpost_imap::types::{Thread, ThreadAlgorithm};
use sealpost_search::{Algorithm, Forest, Match, Step};

use super::filters;
use super::reply::{Failure, Outcome, Reply};
use super::responses::Responses;
use super::search::numbered::NumberedScope;
use super::search::{self, none_gone};
use super::selected::Selected;
use super::user::User;
use sealpost_session::Context;

/// THREAD.
pub(super) async fn thread(
    ctx: &Context,
    user: &User,
    selected: &Selected,
    responses: &mut Responses,
    thread: Thread,
) -> Outcome {
    search::may_sort_in_charset(responses, &thread.search)?;
    let thread = Thread { search: filters::with_filters(user, responses, thread.search)?, ..thread };
    let scope = NumberedScope::selected(selected);
    let query = search::query(&thread.search, &scope)?;
    let now = ctx.clock.now();
    let found = search::find(ctx, responses, &scope, &query, now).await?;
    let algorithm = match thread.algorithm {
        ThreadAlgorithm::OrderedSubject => Algorithm::OrderedSubject,
        ThreadAlgorithm::References => Algorithm::References,
    };
    let threads = ctx.search.thread(scope.scope(), &found, algorithm, &mut responses.reporter()).await?;
    none_gone(&threads.gone)?;
    search::report_damaged(responses, &threads.damaged, "left out of the result").await?;
    write_threads(responses, &scope, &found, &threads.forest, thread.search.uid).await?;
    Ok(Reply::ok("THREAD completed"))
}

/// `* THREAD (2)(3 6 (4 23)(44 7 96))`: `thread-data = "THREAD" [SP 1*thread-list]`,
/// `thread-members = nz-number *(SP nz-number) [SP thread-nested]` (RFC 5256 §5).
async fn write_threads(
    responses: &mut Responses,
    scope: &NumberedScope,
    found: &[Match],
    forest: &Forest,
    uid: bool,
) -> Result<(), Failure> {
    responses.out().raw(b"* THREAD");
    let mut after = Spacing::BEFORE_LIST;
    for step in forest.steps() {
        let out = responses.out();
        if after.asks_for_space(step) {
            out.space();
        }
        match step {
            Step::Open => out.open(),
            Step::Close => out.close(),
            Step::Message(at) => {
                let message = found[at as usize].uid;
                let number = if uid { Some(message.get()) } else { scope.number(message) };
                out.number(u64::from(number.unwrap_or_default()))
            }
        };
        responses.relieve().await?;
    }
    responses.out().crlf();
    Ok(())
}

/// Places spaces: before the first thread, and after each number that is not the last of its thread.
struct Spacing {
    pending: bool,
}

impl Spacing {
    const BEFORE_LIST: Spacing = Spacing { pending: true };

    /// Whether a space precedes the next step.
    fn asks_for_space(&mut self, step: Step) -> bool {
        let pending = std::mem::replace(&mut self.pending, matches!(step, Step::Message(_)));
        pending && step != Step::Close
    }
}
