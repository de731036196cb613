//! From a complete message to entries in the logs of its accounts.

use std::sync::Arc;

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use sealpost_account::{Delivery, Ingest, Stored};
use sealpost_base::{Error, Result};

use super::quota_check;
use super::sink::{Copies, Source};
use super::transaction::Account;
use sealpost_session::Context;

/// Copies of one message that are stored at once: enough to share waits for the disk.
const STORING: usize = 8;
/// Entries of one message that are appended at once.
const APPENDING: usize = 64;

/// SMTP: stores the message for all accounts, and only when that is done delivers it to them.
///
/// # Errors
/// The first failure. If it came while storing, the message was delivered to nobody.
pub(super) async fn together(ctx: &Arc<Context>, source: Source, accounts: Vec<Account>) -> Result<()> {
    let stored = match source {
        Source::Direct(ingest) => vec![ingest.finish_to_deliver().await?],
        Source::Copies(message) => store_all(ctx, message, accounts.clone()).await?,
    };
    let deliveries = accounts.into_iter().zip(stored).map({
        let ctx = ctx.clone();
        move |(account, stored)| append(ctx.clone(), account, stored)
    });
    // Every one is tried, whatever happens to the others: what is delivered now cannot be lost later.
    let results: Vec<Result<()>> = stream::iter(deliveries).buffered(APPENDING).collect().await;
    results.into_iter().collect()
}

async fn store_all(ctx: &Arc<Context>, message: Copies, accounts: Vec<Account>) -> Result<Vec<Stored>> {
    let (ctx, message) = (ctx.clone(), Arc::new(message));
    let copies = accounts.into_iter().map(move |account| store(ctx.clone(), message.clone(), account));
    stream::iter(copies).buffered(STORING).try_collect().await
}

/// LMTP: delivers to each account for itself; the results come in the order of `accounts`, each as
/// soon as it is known (RFC 2033 §5).
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
    let (octets, delivery) = (stored.size(), Delivery::to_inbox(ctx.clock.now()));
    ctx.accounts.deliver(to.id, &to.public, stored, delivery).await?;
    quota_check::delivered(&ctx, to, octets).await;
    Ok(())
}
