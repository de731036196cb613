//! From a complete message to entries in the logs of its accounts.

use std::sync::Arc;

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use sealpost_account::{Delivery, Ingest, Stored};
use sealpost_base::{Error, Result};

use super::forward::{self, Forward};
use super::quota_check;
use super::sink::{Copies, Source};
use super::transaction::Account;
use sealpost_session::Context;
use sealpost_submission::outbox::Refusal;

/// Copies of one message that are stored at once: enough to share syncs.
const STORING: usize = 8;
/// Entries of one message that are appended at once.
const APPENDING: usize = 64;

/// SMTP: stores the message for all accounts, then forwards it, then delivers it.
///
/// # Errors
/// The first failure. If it came before delivering, nothing was delivered and nothing forwarded.
pub(super) async fn together(
    ctx: &Arc<Context>,
    source: Source,
    accounts: Vec<Account>,
    forward: Option<Forward>,
) -> Result<(), Refusal> {
    let stored = match (source, forward) {
        (Source::Direct(ingest), None) => vec![ingest.finish_to_deliver().await?],
        (Source::Direct(_), Some(_)) => return Err(forward::not_copied()),
        (Source::Copies(message), forward) => {
            let message = Arc::new(message);
            let stored = store_all(ctx, message.clone(), accounts.clone()).await?;
            if let Some(forward) = forward {
                forward.queue(&message).await?;
            }
            stored
        }
    };
    let deliveries = accounts.into_iter().zip(stored).map({
        let ctx = ctx.clone();
        move |(account, stored)| append(ctx.clone(), account, stored)
    });
    // Try all accounts, whatever the outcome of the others: each copy delivered now is safe.
    let results: Vec<Result<()>> = stream::iter(deliveries).buffered(APPENDING).collect().await;
    Ok(results.into_iter().collect::<Result<()>>()?)
}

/// LMTP: forwards the message before any account gets it. Returns the message, and the refusal if it is not
/// forwarded.
pub(super) async fn forward_first(source: Source, forward: Option<Forward>) -> (Source, Result<(), Refusal>) {
    match (source, forward) {
        (source, None) => (source, Ok(())),
        (Source::Copies(message), Some(forward)) => {
            let forwarded = forward.queue(&message).await;
            (Source::Copies(message), forwarded)
        }
        (source @ Source::Direct(_), Some(_)) => (source, Err(forward::not_copied())),
    }
}

async fn store_all(ctx: &Arc<Context>, message: Arc<Copies>, accounts: Vec<Account>) -> Result<Vec<Stored>> {
    let ctx = ctx.clone();
    let copies = accounts.into_iter().map(move |account| store(ctx.clone(), message.clone(), account));
    stream::iter(copies).buffered(STORING).try_collect().await
}

/// LMTP: delivers to each account by itself. The results are in the order of `accounts`, each as soon as it
/// is known (RFC 2033 §5).
pub(super) fn each(
    ctx: &Arc<Context>,
    source: Source,
    accounts: Vec<Account>,
) -> BoxStream<'static, Result<()>> {
    let message = match source {
        Source::Copies(message) => Arc::new(message),
        Source::Direct(ingest) => return directly(ctx.clone(), ingest, accounts),
    };
    let ctx = ctx.clone();
    let results = accounts.into_iter().map(move |to| store_and_append(ctx.clone(), message.clone(), to));
    stream::iter(results).buffered(STORING).boxed()
}

fn directly(
    ctx: Arc<Context>,
    ingest: Box<Ingest>,
    accounts: Vec<Account>,
) -> BoxStream<'static, Result<()>> {
    let [only] = accounts[..] else {
        let wrong = |_| Err(Error::internal("a message for one account has another number of them"));
        return stream::iter(accounts.into_iter().map(wrong)).boxed();
    };
    stream::once(async move { append(ctx, only, ingest.finish_to_deliver().await?).await }).boxed()
}

async fn store_and_append(ctx: Arc<Context>, message: Arc<Copies>, account: Account) -> Result<()> {
    let stored = store(ctx.clone(), message, account).await?;
    append(ctx, account, stored).await
}

async fn store(ctx: Arc<Context>, message: Arc<Copies>, account: Account) -> Result<Stored> {
    message.store(&ctx, account.id).await
}

async fn append(ctx: Arc<Context>, to: Account, stored: Stored) -> Result<()> {
    let (bytes, delivery) = (stored.size(), Delivery::to_inbox(ctx.clock.now()));
    ctx.accounts.deliver(to.id, &to.public, stored, delivery).await?;
    quota_check::delivered(&ctx, to, bytes).await;
    Ok(())
}
