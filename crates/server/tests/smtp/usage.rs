//! What deliveries know of how full a mailbox is.

use std::time::Duration;

use sealpost_account::usage;
use sealpost_base::AccountId;
use sealpost_directory::{AccountName, Quotas, Resource, Usage};
use sealpost_mailbox::usage_tracker::{UNRECORDED_BYTES, UNRECORDED_MESSAGES, UsageTracker};
use sealpost_session::{Context, Settings};
use sealpost_smtp::client::Protocol;

use crate::mailer::Mailer;
use crate::smtp_world::TestServer;

const ME: &str = "me@localhost";

async fn id(world: &TestServer) -> AccountId {
    world.ctx.directory.get(&AccountName::parse(ME).unwrap()).await.unwrap().id
}

async fn limit(world: &TestServer, quotas: Quotas) {
    let change = |record: &mut sealpost_directory::AccountRecord| {
        record.set_quotas(quotas);
        Ok(())
    };
    world.ctx.directory.update(&AccountName::parse(ME).unwrap(), change).await.unwrap();
    // As `account quota` does, in another process.
    let me = id(world).await;
    usage::settle(&world.ctx.directory, me).await.unwrap();
    // What is written within the same tick of the store's clock counts as there before.
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// The codes of the replies to so many messages, one after the other.
async fn deliver(world: &mut TestServer, count: usize, message: &[u8]) -> Vec<u16> {
    let stream = world.connect_as(Protocol::Lmtp);
    let mut mailer = Mailer::greet(stream, Protocol::Lmtp).await;
    let mut codes = Vec::new();
    for _ in 0..count {
        let accepted = mailer.envelope(&[ME]).await;
        if accepted == [250] {
            codes.extend(mailer.send(message, 1).await);
        } else {
            codes.extend(accepted);
            assert_eq!(mailer.ask("RSET").await, 250);
        }
    }
    codes
}

fn messages(most: u64) -> Quotas {
    Quotas { messages: Some(most), ..Quotas::default() }
}

fn storage(most: u64) -> Quotas {
    Quotas { storage: Some(most), ..Quotas::default() }
}

/// A limit holds from when it is set, whether or not the owner was ever there, and what came before counts.
#[tokio::test]
async fn a_quota_counts_deliveries_before_the_first_login() {
    let mut world = TestServer::new(Settings::default()).await;
    assert_eq!(deliver(&mut world, 5, b"Subject: x\r\n\r\nx\r\n").await, [250; 5]);
    limit(&world, messages(6)).await;
    assert_eq!(deliver(&mut world, 4, b"Subject: x\r\n\r\nx\r\n").await, [250, 452, 452, 452]);
    // Without limits in between, more came.
    limit(&world, Quotas::default()).await;
    assert_eq!(deliver(&mut world, 3, b"Subject: x\r\n\r\nx\r\n").await, [250; 3]);
    limit(&world, messages(10)).await;
    assert_eq!(deliver(&mut world, 3, b"Subject: x\r\n\r\nx\r\n").await, [250, 452, 452]);
}

/// Bytes are those of the message, however little it takes when it is stored.
#[tokio::test]
async fn bytes_are_counted_as_they_came() {
    let mut world = TestServer::new(Settings::default()).await;
    let message = [b"Subject: x\r\n\r\n".to_vec(), b"yyyyyyyyyyyyyyyy\r\n".repeat(2000)].concat();
    assert_eq!(deliver(&mut world, 3, &message).await, [250; 3]);
    let held = usage::known(&world.ctx.directory, id(&world).await).await.unwrap();
    assert!(held.storage > 3 * message.len() as u64 && held.storage < 3 * (message.len() as u64 + 1000));
    assert_eq!((held.messages, held.mailboxes, held.annotations), (3, 6, 0));
    limit(&world, storage(held.storage + 20_000)).await;
    assert_eq!(deliver(&mut world, 2, &message).await, [452, 452]);
    assert_eq!(deliver(&mut world, 2, b"small\r\n").await, [250, 250]);
}

/// A process that begins knows what others have delivered: those that stopped wrote it down.
#[tokio::test]
async fn a_stopped_process_leaves_its_delivered_usage() {
    let mut world = TestServer::new(Settings::default()).await;
    limit(&world, messages(10)).await;
    assert_eq!(deliver(&mut world, 7, b"Subject: x\r\n\r\nx\r\n").await, [250; 7]);
    let (ctx, me) = (world.ctx.clone(), id(&world).await);
    assert_eq!(ctx.directory.usage_record(me).await.unwrap().unwrap().usage.messages, 0);
    ctx.usage.write_down().await;
    assert_eq!(ctx.directory.usage_record(me).await.unwrap().unwrap().usage.messages, 7);
    let next = tracker(&ctx);
    let more = |n| Usage::of_messages(n, n);
    assert_eq!(next.lacks(me, messages(10), more(3)).await.unwrap(), None);
    assert_eq!(next.lacks(me, messages(10), more(4)).await.unwrap(), Some(Resource::Messages));
}

#[tokio::test]
async fn usage_without_keys_is_the_record_plus_deliveries() {
    let world = TestServer::new(Settings::default()).await;
    let ctx = &world.ctx;
    let me = id(&world).await;
    let quotas = Quotas { storage: Some(1000), messages: Some(1_000_000), ..Quotas::default() };
    let message = |bytes| Usage::of_messages(1, bytes);
    let begun = usage::settle(&ctx.directory, me).await.unwrap();
    assert_eq!((begun.usage.messages, begun.usage.mailboxes, begun.complete), (0, 6, true));

    assert_eq!(ctx.usage.lacks(me, quotas, message(600)).await.unwrap(), None);
    ctx.usage.delivered(me, quotas, message(600)).await;
    assert_eq!(ctx.usage.lacks(me, quotas, message(600)).await.unwrap(), Some(Resource::Storage));
    assert_eq!(ctx.directory.usage_record(me).await.unwrap(), Some(begun), "a little is not written down");

    // Another process does not know of it; after much has come, it does.
    let other = tracker(ctx);
    assert_eq!(other.lacks(me, quotas, message(600)).await.unwrap(), None);
    let many = Usage::of_messages(UNRECORDED_MESSAGES, UNRECORDED_BYTES);
    ctx.usage.delivered(me, quotas, many).await;
    let record = ctx.directory.usage_record(me).await.unwrap().unwrap();
    assert_eq!((record.usage, record.complete), (begun.usage.with(message(600)).with(many), false));
    assert_eq!(tracker(ctx).lacks(me, quotas, message(1)).await.unwrap(), Some(Resource::Storage));

    // What two processes deliver adds up, and neither takes the place of the other.
    other.delivered(me, quotas, many.with(message(5))).await;
    let both = ctx.directory.usage_record(me).await.unwrap().unwrap();
    assert_eq!(both.usage, record.usage.with(many).with(message(5)));

    // Space freed by other processes counts before mail is refused, and includes deliveries.
    ctx.usage.delivered(me, quotas, message(600)).await;
    ctx.directory.record_usage(me, Usage::of_messages(1, 10)).await.unwrap();
    assert_eq!(ctx.usage.lacks(me, quotas, message(900)).await.unwrap(), None);

    // An account that is loaded is known as it is.
    world.inbox(ME).await.unwrap();
    assert_eq!(ctx.usage.usage(me).await.unwrap().messages, 0);
    assert_eq!(ctx.usage.usage(me).await.unwrap().mailboxes, 6);
    let none = Quotas::default();
    assert_eq!(ctx.usage.lacks(me, none, message(u64::MAX)).await.unwrap(), None);
}

/// What another process would know.
fn tracker(ctx: &Context) -> UsageTracker {
    UsageTracker::new(ctx.accounts.clone(), ctx.directory.clone())
}
