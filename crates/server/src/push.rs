//! Starts pushes to devices (RFC 8620 §7.2).
//!
//! A server pushes what it appends. One that sends mail, and so each that serves JMAP, has what it
//! needs: the mail key and the way to the internet. A node that only receives has neither, and what arrives there
//! is not pushed: it says so when it starts.

use std::sync::Arc;

use futures::TryStreamExt;
use sealpost_base::{Error, Result};
use sealpost_jmap_session::JmapPayloads;
use sealpost_push::{Parts, Pusher};
use sealpost_session::Context;
use sealpost_session::settings::sending::Switch;
use sealpost_vault::entry::LogKey;
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::server_key::ServerKeys;

use crate::sending::{Network, Sending, Traces, load_mail_keys};

/// Begins to push, if this server does. A server that cannot push serves everything else.
pub(crate) async fn start(ctx: &Arc<Context>, key: &ServerKeys, sending: Option<&Sending>) -> Option<Pusher> {
    if !is_on(ctx, sending) {
        warn_of_subscriptions(ctx).await;
        return None;
    }
    match begin(ctx, key, sending).await {
        Ok(push) => {
            if let Some(sending) = sending {
                tokio::spawn(sweep(push.clone(), sending.lost_nodes(), ctx.clone()));
            }
            Some(push)
        }
        Err(error) => {
            tracing::error!(%error, "this node pushes no changes to devices");
            None
        }
    }
}

/// `sending.enabled = "off"` means no connections to other servers, and no mail key.
fn is_on(ctx: &Context, sending: Option<&Sending>) -> bool {
    let settings = &ctx.settings;
    let is_off = settings.sending.enabled == Switch::Off || settings.data.is_none();
    !is_off && (settings.listen.serves_jmap() || sending.is_some())
}

async fn begin(ctx: &Arc<Context>, key: &ServerKeys, sending: Option<&Sending>) -> Result<Pusher> {
    let (mail_keys, network) = match sending {
        Some(sending) => (sending.mail_keys().clone(), sending.network().clone()),
        None => {
            let settings = &ctx.settings;
            let network = Network::of(&settings.sending, &settings.memory, &ctx.clock)?;
            (own_keys(ctx, key).await?, network)
        }
    };
    Pusher::start(Parts {
        store: ctx.store.clone(),
        mail_keys,
        accounts: ctx.accounts.clone(),
        directory: ctx.directory.clone(),
        resolver: network.resolver,
        dialer: network.dialer,
        tls: Arc::new(network.tls),
        clock: ctx.clock.clone(),
        random: ctx.random.clone(),
        budget: ctx.budget.clone(),
        payloads: Arc::new(JmapPayloads),
        contact: contact(ctx),
        data: ctx.settings.data.clone(),
    })
    .await
}

async fn own_keys(ctx: &Context, key: &ServerKeys) -> Result<MailKeys> {
    let data = ctx.settings.data.as_deref().ok_or_else(|| Error::invalid("there is no data directory"))?;
    let (directory, log_key) = (&ctx.directory, &LogKey::of(key));
    load_mail_keys(data, Traces { stores: &[&ctx.store], directory, log_key }, &ctx.random).await
}

/// How push services reach the operator: RFC 8292 §2.1 takes `mailto` and `https`.
fn contact(ctx: &Context) -> String {
    let admin = ctx.settings.admin_uri();
    let admin = admin.filter(|uri| uri.starts_with("mailto:") || uri.starts_with("https:"));
    admin.unwrap_or_else(|| format!("mailto:postmaster@{}", ctx.hostname))
}

/// A lost node may have owed pushes.
async fn sweep(push: Pusher, lost: Arc<tokio::sync::Notify>, ctx: Arc<Context>) {
    loop {
        tokio::select! {
            () = lost.notified() => push.sweep(),
            () = ctx.shutdown.wait() => return,
        }
    }
}

/// Other nodes have subscriptions, and this one cannot push to them.
async fn warn_of_subscriptions(ctx: &Context) {
    // A local store has one server, and the operator has turned pushes off.
    if ctx.store.notices_commits() {
        return;
    }
    if let Ok(Some(_)) = ctx.store.list(sealpost_push::ROOT, None).try_next().await {
        tracing::warn!(
            "this node appends to accounts with push subscriptions and cannot push: devices hear of mail that \
             arrives here only when another node changes the account. Copy mail.key to this node and set \
             sending.enabled to \"on\""
        );
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use sealpost_session::Settings;

    use super::*;

    fn context(change: impl Fn(&mut Settings)) -> Arc<Context> {
        let random = Arc::new(sealpost_base::SeededRandom::new(1));
        let key = ServerKeys::generate(&*random);
        let clock = Arc::new(sealpost_base::SystemClock::new());
        let mut settings = Settings { domain: Some("localhost".to_owned()), ..Settings::default() };
        change(&mut settings);
        Arc::new(Context::new(settings, sealpost_vault::Store::memory(), key, None, clock, random).unwrap())
    }

    #[tokio::test]
    async fn servers_of_jmap_push_unless_sending_is_off() {
        let http = |settings: &mut Settings| {
            settings.listen.http = vec!["127.0.0.1:0".parse().unwrap()];
            settings.data = Some(PathBuf::from("/nowhere"));
        };
        assert!(is_on(&context(http), None));
        assert!(!is_on(&context(|settings| settings.data = Some(PathBuf::from("/nowhere"))), None));
        let off = context(|settings| {
            http(settings);
            settings.sending.enabled = Switch::Off;
        });
        assert!(!is_on(&off, None));
        let key = ServerKeys::generate(&sealpost_base::SeededRandom::new(1));
        assert!(start(&off, &key, None).await.is_none());
    }

    #[tokio::test]
    async fn push_services_learn_how_to_reach_the_operator() {
        assert_eq!(contact(&context(|_| {})), "mailto:postmaster@localhost");
        let with = |admin: &str| contact(&context(|settings| settings.admin = Some(admin.to_owned())));
        assert_eq!(with("https://example.org/help"), "https://example.org/help");
        assert_eq!(with("tel:+1"), "mailto:postmaster@localhost");
    }
}
