//! `sealpost account undelete`: a removed account back, or an account's expunged messages.

use std::collections::HashSet;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use sealpost_account::share::Link;
use sealpost_account::{
    Account, AccountState, Accounts, Applied, Event, Flags, Mailbox, Message, NewMessage, SystemFlags, ops,
};
use sealpost_base::{Error, MailboxId, ObjectId, Timestamp, UidSet, limits};
use sealpost_mime::header::date;
use serde::Serialize;

use super::done::Done;
use super::name_args::NameArgs;
use super::unlock::{Accept, unlock};
use crate::data_dir::DataDir;
use crate::exit::Usage;
use crate::global::Global;
use crate::output::counted;
use crate::secret::PasswordArgs;

/// Arguments of `sealpost account undelete`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sealpost account undelete jane@example.org
  sealpost account undelete jane@example.org --messages --since 2h
  sealpost account undelete jane@example.org --messages --since 2026-11-01 --to Found")]
pub(super) struct Args {
    #[command(flatten)]
    account: NameArgs,
    /// Bring back expunged messages in their grace period, not the account
    #[arg(long)]
    messages: bool,
    /// Only those expunged since TIME: 90m, 36h or 7d ago, or a date and time (UTC) such as 2026-11-01T08:30
    #[arg(long, value_name = "TIME", requires = "messages")]
    since: Option<String>,
    /// Put them into MAILBOX, which is created if missing
    #[arg(long, value_name = "MAILBOX", requires = "messages", default_value = "Recovered")]
    to: String,
    #[command(flatten)]
    password: PasswordArgs,
}

#[derive(Serialize)]
struct Restored {
    account: String,
    restored: usize,
    mailbox: String,
}

pub(super) async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open(global).await?;
    if args.messages {
        return messages(args, &data_dir, global).await;
    }
    let name = data_dir.account_name(&args.account.name)?;
    data_dir.directory.undelete(&name).await?;
    let done = Done { account: name.to_string(), done: "undeleted" };
    global.output().done(&done, |_| format!("{name} is back"))?;
    Ok(ExitCode::SUCCESS)
}

async fn messages(args: Args, data_dir: &DataDir, global: &Global) -> Result<ExitCode> {
    let since = match &args.since {
        Some(text) => time(text, data_dir.clock.now())
            .ok_or_else(|| Usage(format!("{text:?} is not a time such as 36h, 7d or 2026-11-01T08:30")))?,
        None => Timestamp(i64::MIN),
    };
    let (record, root) = unlock(data_dir, &args.account.name, &args.password, Accept::Password).await?;
    let accounts = data_dir.accounts();
    let told = data_dir.notify_of(&accounts);
    let account = accounts.open(record.id, &root).await?;
    let committed = account
        .commit(|state| {
            if !state.tombstones().any(|tombstone| tombstone.at >= since) {
                return Ok((Vec::new(), ()));
            }
            let (mut events, to) = target(state, &args.to)?;
            events.push(Event::Restored { to, since });
            Ok((events, ()))
        })
        .await?;
    let mut restored = match committed.applied.last() {
        Some(Applied::Placed { uids, .. }) => UidSet::len(uids),
        _ => 0,
    };
    for link in own_shares(&account) {
        restored += from_share(data_dir, &accounts, &account, &link, since, &args.to).await?;
    }
    told.end().await;
    let result = Restored { account: record.name.to_string(), restored, mailbox: args.to };
    global.output().done(&result, |r| match r.restored {
        0 => "no expunged messages to bring back".to_owned(),
        n => format!("brought {} back into {}", counted(n, "message", "messages"), r.mailbox),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The mailbox of that name, and what makes it if it is not there.
fn target(state: &AccountState, name: &str) -> sealpost_base::Result<(Vec<Event>, MailboxId)> {
    let (mut events, to) = match state.mailbox_named(name) {
        Some(mailbox) if mailbox.link().is_some() => {
            return Err(Error::invalid(format!("the mailbox {name} is shared: name another one")));
        }
        Some(mailbox) => (Vec::new(), mailbox.id()),
        None => {
            let events = ops::create_mailbox(state, name, Default::default())?;
            // The mailbox itself is made last, after the levels above it.
            let before = u32::try_from(events.len()).unwrap_or(u32::MAX) - 1;
            (events, MailboxId(state.next_mailbox_id().0 + before))
        }
    };
    events.push(Event::Subscribed { name: name.to_owned(), on: true });
    Ok((events, to))
}

/// The shared mailboxes that are this account's, those that were deleted lately included.
fn own_shares(account: &Account) -> Vec<Link> {
    let state = account.state();
    let linked = state.links().map(|(_, link)| link.clone()).filter(|link| link.owner.is_none());
    linked.chain(state.unlinked_shares()).collect()
}

/// Restores messages expunged in a share, or all of a deleted share: sealed again for the account,
/// because other users may still see the share. Messages restored by an earlier call are skipped.
async fn from_share(
    data_dir: &DataDir,
    accounts: &Accounts,
    account: &Arc<Account>,
    link: &Link,
    since: Timestamp,
    to: &str,
) -> Result<usize> {
    let share = accounts.open_share(account, link).await?;
    let deleted = data_dir.directory.share_last_changed(link.share).await?.is_some_and(|last| last >= since);
    let found: Vec<(Message, Flags)> = {
        let state = share.state();
        let Some(about) = state.about() else { return Ok(0) };
        let tombstone = state.tombstones().filter(|tombstone| tombstone.at >= since);
        let tombstone = tombstone.map(|tombstone| (tombstone.message, tombstone.flags));
        let rows = state.inbox().all_rows().filter(|_| about.closed && deleted);
        let all = tombstone.chain(rows.map(|row| (row.message, row.flags)));
        all.filter_map(|(message, flags)| {
            let mut flags = state.flags_by_name(flags);
            flags.system = flags.system.without(SystemFlags::DELETED);
            Some((state.message(message)?, flags))
        })
        .collect()
    };
    let known: HashSet<ObjectId> = {
        let state = account.state();
        let mailbox = state.mailbox_named(to);
        let rows = mailbox.into_iter().flat_map(|mailbox| mailbox.all_rows());
        rows.filter_map(|row| state.message(row.message)).map(|message| message.first_object()).collect()
    };
    let found: Vec<_> =
        found.into_iter().filter(|(message, _)| !known.contains(&message.first_object())).collect();
    if found.is_empty() {
        return Ok(0);
    }
    let making = account.commit(|state| {
        let exists = state.mailbox_named(to).is_some();
        let (events, _) = target(state, to)?;
        Ok((if exists { Vec::new() } else { events }, ()))
    });
    making.await?;
    let mailbox = account.state().mailbox_named(to).map(Mailbox::id);
    let mailbox = mailbox.ok_or_else(|| Error::not_found(format!("no mailbox {to}")))?;
    let mut restored = 0;
    for some in found.chunks(limits::APPEND_MESSAGES) {
        let mut new = Vec::with_capacity(some.len());
        for (message, flags) in some {
            let stored = accounts.reseal(&share, message, account.id()).await?;
            new.push(NewMessage { stored, flags: flags.clone().into(), received: message.received });
        }
        restored += account.append(mailbox, new).await?.1.len();
    }
    Ok(restored)
}

/// `90m`, `36h`, `7d` before `now`; or `2026-11-01`, `2026-11-01T08:30`, `2026-11-01T08:30:15Z`.
fn time(text: &str, now: Timestamp) -> Option<Timestamp> {
    let unit = |c: char| match c {
        's' => Some(1i64),
        'm' => Some(60),
        'h' => Some(3600),
        'd' => Some(86_400),
        'w' => Some(7 * 86_400),
        _ => None,
    };
    if let Some((at, seconds)) = text.char_indices().last().and_then(|(at, c)| Some((at, unit(c)?))) {
        let ago = text[..at].parse::<u32>().ok()?;
        return Some(Timestamp(now.0.saturating_sub(i64::from(ago).saturating_mul(seconds * 1000))));
    }
    let (day, clock) = text.trim_end_matches('Z').split_once(['T', ' ']).unwrap_or((text, "0:0"));
    let mut numbers = day.splitn(3, '-').map(str::parse::<u32>);
    let (year, month, day) = (
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
        numbers.next()?.ok().filter(|d| (1..=31).contains(d))?,
    );
    let days = date::days_from_civil(i64::from(year), Some(month).filter(|m| (1..=12).contains(m))?, day);
    let mut seconds = 0;
    for (part, (bound, weight)) in clock.split(':').zip([(24, 3600), (60, 60), (61, 1)]) {
        seconds += part.parse::<i64>().ok().filter(|n| (0..bound).contains(n))? * weight;
    }
    (clock.split(':').count() <= 3).then(|| Timestamp::from_seconds(days * 86_400 + seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let now = Timestamp::from_seconds(1_000_000);
        let seconds = |text| time(text, now).map(Timestamp::seconds);
        assert_eq!(seconds("90m"), Some(1_000_000 - 5400));
        assert_eq!(seconds("7d"), Some(1_000_000 - 604_800));
        assert_eq!(seconds("2026-11-20"), Some(1_795_132_800));
        assert_eq!(seconds("2026-11-20T08:30"), Some(1_795_132_800 + 30_600));
        assert_eq!(seconds("2026-11-20 08:30:15Z"), Some(1_795_132_800 + 30_615));
        for wrong in ["", "d", "-1d", "2026", "2026-13-01", "2026-01-01T25:00", "2026-01-01T1:2:3:4", "ä"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
