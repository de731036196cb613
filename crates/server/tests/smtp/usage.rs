//! What deliveries know of how full a mailbox is.

use sealpost_account::directory::{AccountName, Quotas, Resource, Usage};
use sealpost_server::Settings;
use sealpost_server::quota::{Book, UNRECORDED_MESSAGES, UNRECORDED_OCTETS};

use crate::smtp_world::World;

#[tokio::test]
async fn who_cannot_read_a_mailbox_goes_by_what_was_written_down_and_delivered_since() {
    let world = World::new(Settings::default()).await;
    let ctx = &world.ctx;
    let me = ctx.directory.get(&AccountName::parse("me@localhost").unwrap()).await.unwrap().id;
    let quotas = Quotas { storage: Some(1000), messages: Some(1_000_000), ..Quotas::default() };
    let message = |octets| Usage::of_messages(1, octets);

    // Nothing is known: it counts from nothing.
    assert_eq!(ctx.quotas.lacks(ctx, me, quotas, message(600)).await.unwrap(), None);
    ctx.quotas.delivered(ctx, me, quotas, message(600)).await;
    assert_eq!(ctx.quotas.lacks(ctx, me, quotas, message(600)).await.unwrap(), Some(Resource::Storage));
    assert_eq!(ctx.directory.usage(me).await.unwrap(), None, "a little is not written down");

    // Another process does not know of it; after much has come, it does.
    let other = Book::default();
    assert_eq!(other.lacks(ctx, me, quotas, message(600)).await.unwrap(), None);
    let many = Usage::of_messages(UNRECORDED_MESSAGES, UNRECORDED_OCTETS);
    ctx.quotas.delivered(ctx, me, quotas, many).await;
    assert_eq!(ctx.directory.usage(me).await.unwrap(), Some(message(600).with(many)));
    assert_eq!(Book::default().lacks(ctx, me, quotas, message(1)).await.unwrap(), Some(Resource::Storage));

    // Room that was made elsewhere is seen before mail is refused.
    ctx.directory.record_usage(me, Usage::of_messages(1, 10)).await.unwrap();
    assert_eq!(ctx.quotas.lacks(ctx, me, quotas, message(600)).await.unwrap(), None);

    // An account that is loaded is known as it is.
    world.inbox("me@localhost").await.unwrap();
    assert_eq!(ctx.quotas.usage(ctx, me).await.unwrap().messages, 0);
    assert_eq!(ctx.quotas.usage(ctx, me).await.unwrap().mailboxes, 6);
    let none = Quotas::default();
    assert_eq!(ctx.quotas.lacks(ctx, me, none, message(u64::MAX)).await.unwrap(), None);
}
