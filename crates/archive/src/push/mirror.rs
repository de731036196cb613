//! After everything was appended: copies flags, and removes messages that the source no longer has.
//!
//! A removal cannot be undone, so several conditions must hold for it
//! (`docs/decisions/0034-mirror.md`). Only messages that this program put there, according to the
//! map of UIDs, are removed, unless the owner says otherwise.

use std::collections::{BTreeMap, BTreeSet};

use sealpost_base::{Error, Kind, Result, Uid, UidSet, counted};
use sealpost_imap::types::{Flag, PermanentFlag};

use super::contents::{Contents, in_commands};
use super::deliver::settable;
use super::destination_folders::Places;
use super::map::Put;
use super::message_chunk::locked;
use super::message_matching::{Pairs, pair};
use super::origin::{From, Origin};
use super::report::{FolderReport, Observer, Options, Report};
use super::run::{Run, unless};
use super::target::DestinationFolder;
use crate::client::{Connection, Selected, Server, lowest};

/// Keywords that are named when a server refuses them.
const KEYWORDS_REPORTED: usize = 20;

/// What a mirror may do.
#[derive(Debug, Clone, Copy, Default)]
pub struct Removal {
    /// Messages of other origin at the destination are removed too.
    pub extra: bool,
    /// More than half of a folder is removed, and other changes that look like a mistake are made.
    pub force: bool,
}

/// Makes the folders of the account of `to` equal to those of `from`: as [`super::migrate`], then
/// copies flags and removes messages that are gone, as far as this program put them there.
///
/// # Errors
/// As [`super::migrate`].
pub async fn mirror(
    from: &Server,
    to: &Server,
    options: &Options,
    removal: Removal,
    observer: std::sync::Arc<dyn Observer>,
) -> Result<Report> {
    let mut run = Run::new(Origin::server(from), to, options, observer);
    let folders = run.all().await?;
    let whole = run.report.folders.iter().all(|folder| folder.failures == 0 && folder.error.is_none());
    let places = run.places(&folders).await?;
    for (nth, from) in folders.iter().enumerate() {
        if run.stopped() || nth >= run.report.folders.len() {
            break;
        }
        run.follow(nth, from, removal, whole, &places).await?;
    }
    if !run.stopped() {
        run.report_missing_folders(&places);
    }
    run.report.interrupted = run.stopped();
    Ok(run.end().await)
}

impl Run<'_> {
    /// Flags and removals of one folder, over as many connections as needed.
    async fn follow(
        &mut self,
        nth: usize,
        from: &From,
        removal: Removal,
        whole: bool,
        places: &Places,
    ) -> Result<()> {
        let mut report = self.report.folders[nth].clone();
        let ended = loop {
            match self.align(from, &mut report, removal, whole, places).await {
                _ if self.stopped() => break Ok(()),
                Ok(()) => break Ok(()),
                Err(e) if e.kind() == Kind::Retry => {
                    if let Err(e) = self.pause(e).await {
                        break Err(e);
                    }
                }
                Err(e) if self.fatal => break Err(e),
                Err(e) => {
                    report.error.get_or_insert(e.to_string());
                    break Ok(());
                }
            }
        };
        if let Some(error) = report.error.as_ref().filter(|_| self.report.folders[nth].error.is_none()) {
            self.observer.note(&format!("{}: {error}", report.name));
        }
        self.report.folders[nth] = report;
        ended
    }

    async fn align(
        &mut self,
        from: &From,
        report: &mut FolderReport,
        removal: Removal,
        whole: bool,
        places: &Places,
    ) -> Result<()> {
        let mut place = self.place(from).await?;
        let name = from.name().to_string();
        if let Some(other) = places.shared(&name) {
            let why = format!("{other} has the same name at the destination; flags and removals are skipped");
            return Err(Error::invalid(why));
        }
        let Some(wire) = places.wire(&place) else { return Ok(()) };
        place.wire = Some(wire.clone());
        let stop = &self.options.stop;
        let there = unless(stop, self.target.contents(&place)).await?;
        let contents = unless(stop, self.origin.contents(from, true)).await?;
        let both = Both { contents: &contents, there: &there, place: &place, name: &name };
        let (pairs, gone) = self.judge(&both, removal, whole, report);
        let connection = self.target.connection().await?;
        let selected = connection.select_to_change(&wire).await?;
        if selected.uidvalidity != there.uidvalidity {
            return Err(Error::retry("the folder was replaced at the destination"));
        }
        let changes = changes(&both, &pairs, &selected);
        if self.options.dry_run {
            report.flags = changes.values().map(|set| set.len() as u64).sum();
            report.removed = gone.len() as u64;
            return Ok(());
        }
        let mut refused = Refused::default();
        for ((added, removed), set) in &changes {
            let stored = refused.add(connection, set, added).await?;
            store(connection, set, '-', removed).await?;
            if stored || !removed.is_empty() {
                report.flags += set.len() as u64;
            }
        }
        // Messages that were just appended without keywords are reported already.
        if refused.messages > report.without_keywords {
            report.without_keywords = refused.messages;
            let n = counted(refused.messages, "message stays", "messages stay");
            let words = refused.list();
            self.observer.note(&format!("{name}: {n} without keywords that the server refuses: {words}"));
        }
        if gone.is_empty() {
            return Ok(());
        }
        let capabilities = connection.capabilities();
        if !(capabilities.has("UIDPLUS") || capabilities.has("IMAP4REV2")) {
            // EXPUNGE would also remove messages that the owner marked.
            let messages = counted(gone.len(), "message", "messages");
            let why = format!("{messages} should be removed, but the server has no UIDPLUS");
            return Err(Error::invalid(why));
        }
        change(connection, &gone, |set| format!("UID STORE {set} +FLAGS.SILENT (\\Deleted)")).await?;
        change(connection, &gone, |set| format!("UID EXPUNGE {set}")).await?;
        report.removed += gone.len() as u64;
        Ok(())
    }

    /// Pairs the messages, and decides which to remove.
    fn judge(
        &self,
        both: &Both<'_>,
        removal: Removal,
        whole: bool,
        report: &mut FolderReport,
    ) -> (Pairs, UidSet) {
        let mut map = locked(&self.options.map);
        let (from, to) = (both.contents.uidvalidity, both.there.uidvalidity);
        let to_name = both.place.name.as_str();
        let known = map.known(both.name, to_name);
        let pairs = pair(both.contents, both.there, known);
        let ours = known.map(|known| known.ours(to)).unwrap_or_default();
        let current: UidSet = known
            .into_iter()
            .flat_map(|known| known.pairs(from, to))
            .filter_map(|(_, there)| Uid::new(there))
            .collect();
        let there: UidSet = both.there.messages.iter().filter_map(|m| Uid::new(m.uid)).collect();
        let mut gone = if removal.extra { pairs.extra.clone() } else { pairs.extra.intersection(&ours) };
        let unsure = pairs.alike(both.there).difference(&ours).intersection(&gone);
        if !unsure.is_empty() {
            gone = gone.difference(&unsure);
            let (name, count) = (both.name, counted(unsure.len(), "message", "messages"));
            self.observer.note(&format!(
                "{name}: {count} not removed: other messages have the same Message-ID, size and date"
            ));
        }
        let judged = Judged {
            gone: gone.len(),
            old: gone.difference(&current).intersection(&ours).len(),
            there: there.len(),
            ours: there.intersection(&ours).len(),
            source: both.contents.messages.len(),
            complete: both.contents.complete,
            whole,
        };
        // Messages that were put there under another UIDVALIDITY of the source and are recognized
        // by their key stay ours.
        for (at, there) in &pairs.same {
            let uid = both.there.messages[*there].uid;
            let is = |set: &UidSet| Uid::new(uid).is_some_and(|uid| set.contains(uid));
            if !self.options.dry_run && is(&ours) && !is(&current) {
                let put = Put { uidvalidity: from, uid: both.contents.messages[*at].uid, there: (to, uid) };
                map.put(both.name, to_name, put);
            }
        }
        match judged.refusal(removal) {
            None => (pairs, gone),
            Some(why) => {
                let why = format!("{} not removed: {why}", counted(gone.len(), "message", "messages"));
                report.error.get_or_insert(why);
                (pairs, UidSet::new())
            }
        }
    }

    /// Reports folders that messages were put into and that the source no longer has.
    fn report_missing_folders(&self, places: &Places) {
        for (from, to) in locked(&self.options.map).folders() {
            if (self.options.wanted)(from) && !places.has(to) {
                let note = format!("the source has no folder {from} any more; {to} stays at the destination");
                self.observer.note(&note);
            }
        }
    }
}

/// A folder at both ends.
struct Both<'a> {
    contents: &'a Contents,
    there: &'a Contents,
    place: &'a DestinationFolder,
    name: &'a str,
}

/// Numbers that may speak against a removal: of messages to remove, of those of them put there
/// under another UIDVALIDITY of the source, of all messages there, of ours among them, and of those
/// at the source.
#[derive(Debug, Clone, Copy)]
struct Judged {
    gone: usize,
    old: usize,
    there: usize,
    ours: usize,
    source: usize,
    complete: bool,
    whole: bool,
}

impl Judged {
    fn refusal(&self, removal: Removal) -> Option<&'static str> {
        if self.gone == 0 {
            return None;
        }
        if !self.complete {
            return Some("the source does not list all messages of the folder");
        }
        let most = if removal.extra { self.there } else { self.ours };
        match removal.force {
            true => None,
            false if self.source == 0 => Some("the folder is empty at the source; --force removes them"),
            false if !self.whole => Some("some messages could not be copied before; --force removes them"),
            false if self.old > 0 => {
                Some("some were copied before the source's UIDVALIDITY changed; --force removes them")
            }
            false if self.gone * 2 > most => {
                Some("that is more than half of the folder; --force removes them")
            }
            false => None,
        }
    }
}

/// Flags to add and flags to remove.
type Change = (Vec<String>, Vec<String>);

/// The changes that make the destination's flags equal to the source's, as far as it keeps them.
fn changes(both: &Both<'_>, pairs: &Pairs, selected: &Selected) -> BTreeMap<Change, UidSet> {
    let keeps = |flag: &Flag| match &selected.permanent_flags {
        None => true,
        Some(flags) => flags.iter().any(|permanent| match permanent {
            PermanentFlag::Any => matches!(flag, Flag::Keyword(_)),
            PermanentFlag::Flag(permanent) => permanent.to_string().eq_ignore_ascii_case(&flag.to_string()),
        }),
    };
    let mut changes: BTreeMap<Change, UidSet> = BTreeMap::new();
    for (at, there) in &pairs.same {
        let (source, there) = (&both.contents.messages[*at], &both.there.messages[*there]);
        let (Some(wanted), Some(has)) = (both.contents.flags(source), both.there.flags(there)) else {
            continue;
        };
        if wanted == has {
            continue;
        }
        let names = |flags| -> Vec<String> {
            settable(flags).iter().filter(|flag| keeps(flag)).map(ToString::to_string).collect()
        };
        let (wanted, has) = (names(wanted), names(has));
        let without = |a: &[String], b: &[String]| -> Vec<String> {
            a.iter().filter(|name| !b.iter().any(|other| other.eq_ignore_ascii_case(name))).cloned().collect()
        };
        let change = (without(&wanted, &has), without(&has, &wanted));
        if let Some(uid) = Uid::new(there.uid).filter(|_| change != Change::default()) {
            changes.entry(change).or_default().insert(uid);
        }
    }
    changes
}

fn is_keyword(flag: impl AsRef<str>) -> bool {
    !flag.as_ref().starts_with('\\')
}

/// Keywords of a folder that its server refuses.
#[derive(Debug, Default)]
struct Refused {
    /// Refused for at least some messages.
    keywords: BTreeSet<String>,
    /// Refused for all.
    for_good: BTreeSet<String>,
    /// How many messages stay without one.
    messages: u64,
}

impl Refused {
    /// Adds flags to these messages, except refused keywords, which are found one by one; returns
    /// whether any were added.
    async fn add(&mut self, connection: &mut Connection, set: &UidSet, flags: &[String]) -> Result<bool> {
        let (mut keywords, mut good): (Vec<String>, Vec<String>) =
            flags.iter().cloned().partition(|flag| is_keyword(flag));
        let wanted = keywords.len();
        keywords.retain(|keyword| !self.for_good.contains(keyword));
        let together = [&*good, &*keywords].concat();
        if refusal(store(connection, set, '+', &together).await)?.is_some() {
            store(connection, set, '+', &good).await?;
            for keyword in std::mem::take(&mut keywords) {
                let Some(refused) =
                    refusal(store(connection, set, '+', std::slice::from_ref(&keyword)).await)?
                else {
                    keywords.push(keyword);
                    continue;
                };
                self.keywords.insert(keyword.clone());
                // Too many keywords for these messages need not be too many for others.
                if refused == Kind::Invalid {
                    self.for_good.insert(keyword);
                }
            }
        }
        self.messages += if keywords.len() < wanted { set.len() as u64 } else { 0 };
        good.append(&mut keywords);
        Ok(!good.is_empty())
    }

    /// Those of them that fit into a line.
    fn list(&self) -> String {
        let told: Vec<&str> = self.keywords.iter().take(KEYWORDS_REPORTED).map(String::as_str).collect();
        let more = self.keywords.len() - told.len();
        if more == 0 { told.join(", ") } else { format!("{} and {more} more", told.join(", ")) }
    }
}

/// The kind of a refusal that is about the flags themselves.
fn refusal(stored: Result<()>) -> Result<Option<Kind>> {
    match stored {
        Err(e) if matches!(e.kind(), Kind::Invalid | Kind::Limit) => Ok(Some(e.kind())),
        stored => stored.map(|()| None),
    }
}

/// Adds (`+`) or removes (`-`) flags of these messages.
async fn store(connection: &mut Connection, set: &UidSet, sign: char, flags: &[String]) -> Result<()> {
    if flags.is_empty() {
        return Ok(());
    }
    let flags = flags.join(" ");
    change(connection, set, |set| format!("UID STORE {set} {sign}FLAGS.SILENT ({flags})")).await
}

/// Runs a command for all of these messages.
async fn change(
    connection: &mut Connection,
    set: &UidSet,
    command: impl Fn(&UidSet) -> String,
) -> Result<()> {
    for mut set in in_commands(set) {
        while !set.is_empty() {
            let command = command(&set);
            let done = connection.run(|w| w.raw(&command), |_| Ok(())).await?;
            let reached = done.code.as_ref().and_then(lowest).and_then(Uid::new);
            match reached.filter(|uid| set.first().is_some_and(|first| first < *uid) && set.contains(*uid)) {
                // RFC 9738: the messages below were not processed.
                Some(uid) => {
                    let below = set.count_below(uid);
                    set = set.slice(0..below);
                }
                None => {
                    let word = command.split(' ').take(2).collect::<Vec<_>>().join(" ");
                    done.ok(&word)?;
                    break;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspicious_mass_removals_are_refused() {
        let good = Judged { gone: 5, old: 0, there: 100, ours: 10, source: 50, complete: true, whole: true };
        let (asked, forced) = (Removal::default(), Removal { force: true, extra: false });
        assert_eq!(good.refusal(asked), None);
        for (judged, even_forced) in [
            (Judged { complete: false, ..good }, true),
            (Judged { gone: 6, ..good }, false),
            (Judged { source: 0, ..good }, false),
            (Judged { whole: false, ..good }, false),
            (Judged { old: 1, ..good }, false),
        ] {
            assert!(judged.refusal(asked).is_some(), "{judged:?}");
            assert_eq!(judged.refusal(forced).is_some(), even_forced, "{judged:?}");
        }
        let extra = Removal { extra: true, force: false };
        assert_eq!(Judged { gone: 50, ..good }.refusal(extra), None);
        assert!(Judged { gone: 51, ..good }.refusal(extra).is_some());
        assert_eq!(Judged { gone: 0, complete: false, ..good }.refusal(asked), None);
    }
}
