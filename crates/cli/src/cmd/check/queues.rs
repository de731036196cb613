//! Queues of outbound mail, the keys of domains, and push subscriptions: what is sealed under the mail key.

use anyhow::Result;
use futures::TryStreamExt;
use sealpost_base::Kind;
use sealpost_queue::examine;
use sealpost_vault::entry::LogKey;

use super::report::{Location as At, Report, Trouble};
use crate::data_dir::DataDir;
use crate::queues::{Queues, domain_keys, stored_mail_keys};

/// Reads queues back, and opens push subscriptions and the keys of domains.
///
/// # Errors
/// Never; what is wrong is reported.
pub async fn check(data_dir: &DataDir, report: &mut Report) -> Result<()> {
    report.end_accounts();
    let queues = match Queues::of(data_dir.clone()).await {
        Ok(queues) => Some(queues),
        Err(e) if e.downcast_ref::<sealpost_base::Error>().is_some_and(|e| e.kind() == Kind::NotFound) => {
            None
        }
        Err(e) => {
            let why = format!("the queue of outbound mail is not checked: {e:#}");
            report.found(At::Object("mail.key".to_owned()), Trouble::unread(why));
            None
        }
    };
    if let Some(queues) = queues {
        for node in queues.nodes() {
            let (clock, random) = (data_dir.clock.clone(), data_dir.random.clone());
            let (store, keys, log_key) =
                (queues.store.clone(), queues.keys.clone(), LogKey::of(&data_dir.key));
            let examined = examine(store, *node, &log_key, keys, clock, random).await;
            let Some(examined) = report.note(At::Object(format!("queue/{node}")), examined) else { continue };
            report.totals.queues += 1;
            report.totals.log_entries += examined.entries;
            report.totals.checkpoints += examined.checkpoints;
            report.totals.queued += examined.mails;
            for (path, e) in examined.problems {
                report.found(At::Object(path), e);
            }
        }
    }
    pushes(data_dir, report).await;
    domains(data_dir, report).await
}

/// Names what the mail key does not open below `push/`. Without the key only names are checked.
async fn pushes(data_dir: &DataDir, report: &mut Report) {
    // A file that cannot be read is reported with the keys of domains.
    let Ok(Some(keys)) = stored_mail_keys(data_dir) else { return };
    let unopened = sealpost_push::unopened(&data_dir.store, &keys).await;
    for (path, e) in report.note(At::Object(sealpost_push::ROOT.to_owned()), unopened).unwrap_or_default() {
        report.found(At::Object(path), e);
    }
}

async fn domains(data_dir: &DataDir, report: &mut Report) -> Result<()> {
    let keys = match domain_keys(data_dir) {
        Ok(Some(keys)) => keys,
        Ok(None) => {
            let mut listed = data_dir.store.list("domains", None);
            if let Ok(Some(_)) = listed.try_next().await {
                let why = "there are keys of domains that it opens, and it is missing: copy it from another node, \
                           or put it back from the backup";
                report.found(At::Object("mail.key".to_owned()), why);
            }
            return Ok(());
        }
        Err(e) => {
            let why = format!("the keys of domains are not checked: {e:#}");
            report.found(At::Object("mail.key".to_owned()), Trouble::unread(why));
            return Ok(());
        }
    };
    let domains = keys.domains().await;
    for domain in report.note(At::Object("domains".to_owned()), domains).unwrap_or_default() {
        let listed = keys.list(domain.as_str()).await;
        report.note(At::Object(format!("domains/{domain}")), listed);
    }
    Ok(())
}
