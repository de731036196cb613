//! [`Lister`]: the names that a LIST or LSUB returns, in batches.
//!
//! Names are visited in order, so that the previous name shows which levels above the next one are new. A
//! batch ends after many names or much matching, whatever the patterns and names, so other tasks never wait
//! long for the account's state. A change between two batches may or may not appear. No name is returned
//! twice unless it is renamed meanwhile.

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};

use sealpost_account::name::nfc;
use sealpost_account::state::Mailbox as MailboxState;
use sealpost_account::{AccountState, SpecialUse};
use sealpost_imap::types::{
    HIERARCHY_DELIMITER, List, ListPattern, Mailbox, MailboxAttribute, Matched, Matcher, ReturnOption,
    SelectionOption,
};

/// Matching steps in one batch: about a millisecond.
const BATCH_STEPS: usize = 512 * 1024;
/// Bytes of names in one batch.
const BATCH_BYTES: usize = 16 * 1024;
/// Steps for a name in addition to matching it.
const NAME_STEPS: usize = 64;

/// A LIST or LSUB in progress.
pub(super) struct Lister {
    matcher: Matcher,
    mode: Mode,
    /// Return only names with a special use.
    special: bool,
    /// Whether to report `\Subscribed`.
    reports_subscribed: bool,
    /// Report nonexistent parents as `\NonExistent` instead of `\Noselect`.
    non_existent: bool,
    /// Mailboxes that the user may not list, treated as missing (RFC 4314 §4, LIST).
    hidden: BTreeSet<String>,
    /// The last visited name.
    last: Option<String>,
    /// Names that wait for a check of the names below them.
    pending: VecDeque<Pending>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Existing mailboxes, and the levels above them.
    Mailboxes,
    /// Subscribed names (RFC 5258 §3.1).
    Subscribed,
    /// Subscribed names, and matching names above them.
    Recursive,
    /// LSUB, optionally with levels above subscribed names.
    Lsub { levels: bool },
}

/// A name whose CHILDINFO is being determined.
struct Pending {
    name: String,
    /// Whether it satisfies the selection criteria itself.
    selected: bool,
    /// The last visited subscribed name below it.
    last: String,
}

/// A name to return.
pub(super) struct ListedName {
    pub(super) name: String,
    pub(super) attributes: Vec<MailboxAttribute>,
    /// Whether it is a mailbox.
    pub(super) exists: bool,
    /// Whether it satisfies the selection criteria itself, not only through names below it.
    pub(super) selected: bool,
    /// Whether names below it satisfy the selection criteria (RFC 5258 §3.5).
    pub(super) child_info: bool,
}

/// Names to return, and whether there may be more.
pub(super) struct Batch {
    pub(super) names: Vec<ListedName>,
    pub(super) more: bool,
}

/// The remaining budget of a batch.
struct BatchBudget {
    steps: usize,
    bytes: usize,
}

impl Lister {
    /// A lister for LIST; `None` if its patterns are too long. `non_existent`: whether the client knows that
    /// attribute.
    pub(super) fn new(list: &List, non_existent: bool) -> Option<Self> {
        let selects = |option| list.selection.iter().flatten().any(|selected| *selected == option);
        let mode = match (selects(SelectionOption::Subscribed), selects(SelectionOption::RecursiveMatch)) {
            (false, _) => Mode::Mailboxes,
            (true, false) => Mode::Subscribed,
            (true, true) => Mode::Recursive,
        };
        // REMOTE would add remote mailboxes, but there are none (RFC 5258 §3.1).
        Some(Lister {
            matcher: matcher(&list.reference, &list.patterns)?,
            mode,
            special: selects(SelectionOption::SpecialUse),
            // RFC 5258 §3.1: the selection option implies the return option.
            reports_subscribed: mode != Mode::Mailboxes || list.returns.contains(&ReturnOption::Subscribed),
            non_existent,
            hidden: BTreeSet::new(),
            last: None,
            pending: VecDeque::new(),
        })
    }

    /// A lister for LSUB.
    pub(super) fn lsub(reference: &Mailbox, pattern: &ListPattern) -> Option<Self> {
        Some(Lister {
            matcher: matcher(reference, std::slice::from_ref(pattern))?,
            // RFC 3501 §6.3.9: with `%`, a level above a subscribed name is returned with \Noselect.
            mode: Mode::Lsub { levels: pattern.as_str().contains('%') },
            special: false,
            reports_subscribed: false,
            non_existent: false,
            hidden: BTreeSet::new(),
            last: None,
            pending: VecDeque::new(),
        })
    }

    /// Treats mailboxes with these names as missing.
    pub(super) fn hide(&mut self, names: BTreeSet<String>) {
        self.hidden = names;
    }

    /// The next batch of names.
    pub(super) fn batch(&mut self, state: &AccountState) -> Batch {
        let mut names = Vec::new();
        let mut room = BatchBudget { steps: BATCH_STEPS, bytes: BATCH_BYTES };
        while self.settle(state, &mut names, &mut room) {
            if room.is_used_up() {
                return Batch { names, more: true };
            }
            let last = self.last.as_deref();
            let next = match self.mode {
                Mode::Mailboxes => {
                    let mut names = state.mailboxes_after(last).map(|mailbox| mailbox.name());
                    names.find(|name| !self.hidden.contains(*name))
                }
                _ => state.subscriptions_after(last).next(),
            };
            let Some(name) = next else { return Batch { names, more: false } };
            let matched = self.matches(name, &mut room);
            self.levels_above(state, name, matched, &mut names, &mut room);
            if matched.whole() && self.selects(state, name) {
                self.select(state, name, &mut names, &mut room);
            }
            self.last = Some(name.to_owned());
        }
        Batch { names, more: true }
    }

    fn matches(&mut self, name: &str, room: &mut BatchBudget) -> Matched {
        room.work(NAME_STEPS + name.len() * self.matcher.cost());
        self.matcher.matches(name)
    }

    /// The mailbox with that name, if the user may list it.
    fn mailbox<'a>(&self, state: &'a AccountState, name: &str) -> Option<&'a MailboxState> {
        state.mailbox_named(name).filter(|mailbox| !self.hidden.contains(mailbox.name()))
    }

    /// Whether a name satisfies the selection criteria.
    fn selects(&self, state: &AccountState, name: &str) -> bool {
        let special = || self.mailbox(state, name).is_some_and(|mailbox| !mailbox.special_uses().is_empty());
        let subscribed = match self.mode {
            Mode::Mailboxes => true,
            _ => state.is_subscribed(name),
        };
        subscribed && (!self.special || special())
    }

    /// Returns a matching, selected name: now, or once the names below it are known.
    fn select(
        &mut self,
        state: &AccountState,
        name: &str,
        names: &mut Vec<ListedName>,
        room: &mut BatchBudget,
    ) {
        if self.mode == Mode::Recursive {
            return self.pending.push_back(Pending::new(name, true));
        }
        names.push(room.take(self.listed(state, name, true, false)));
    }

    /// The matching levels above `name` that no earlier name was below.
    fn levels_above(
        &mut self,
        state: &AccountState,
        name: &str,
        matched: Matched,
        names: &mut Vec<ListedName>,
        room: &mut BatchBudget,
    ) {
        for (level, (at, _)) in name.match_indices(HIERARCHY_DELIMITER).enumerate() {
            let superior = &name[..at];
            let seen = self.last.as_deref().is_some_and(|last| is_below(last, superior));
            if seen || !matched.superior(level + 1) {
                continue;
            }
            match self.mode {
                Mode::Mailboxes if !self.special && self.mailbox(state, superior).is_none() => {
                    names.push(room.take(self.listed(state, superior, true, false)));
                }
                Mode::Lsub { levels: true } if !state.is_subscribed(superior) => {
                    names.push(room.take(self.listed(state, superior, false, false)));
                }
                Mode::Recursive if !self.selects(state, superior) => {
                    self.pending.push_back(Pending::new(superior, false));
                }
                _ => {}
            }
        }
    }

    /// Returns pending names, as far as the budget allows; returns whether none is left.
    fn settle(&mut self, state: &AccountState, names: &mut Vec<ListedName>, room: &mut BatchBudget) -> bool {
        while let Some(mut pending) = self.pending.pop_front() {
            match self.look_below(state, &mut pending, room) {
                None => {
                    self.pending.push_front(pending);
                    return false;
                }
                Some(found) if found || pending.selected => {
                    names.push(room.take(self.listed(state, &pending.name, pending.selected, found)));
                }
                Some(_) => {}
            }
        }
        true
    }

    /// Whether a name below this one satisfies the selection criteria. If this name does not, the name below
    /// must not match either (RFC 5258 §3.3, §3.5). `None` if the budget ended first.
    fn look_below(
        &mut self,
        state: &AccountState,
        pending: &mut Pending,
        room: &mut BatchBudget,
    ) -> Option<bool> {
        loop {
            if room.is_used_up() {
                return None;
            }
            let next = state.subscriptions_after(Some(&pending.last)).next();
            let Some(name) = next.filter(|name| is_below(name, &pending.name)) else { return Some(false) };
            room.work(NAME_STEPS);
            if self.selects(state, name) && (pending.selected || !self.matches(name, room).whole()) {
                return Some(true);
            }
            name.clone_into(&mut pending.last);
        }
    }

    fn listed(&self, state: &AccountState, name: &str, selected: bool, child_info: bool) -> ListedName {
        let mailbox = self.mailbox(state, name);
        let lsub = matches!(self.mode, Mode::Lsub { .. });
        let mut attributes = Vec::new();
        if self.reports_subscribed && state.is_subscribed(name) {
            attributes.push(MailboxAttribute::Subscribed);
        }
        if lsub && !selected || mailbox.is_none() && !lsub {
            attributes.push(match self.non_existent {
                true => MailboxAttribute::NonExistent,
                false => MailboxAttribute::NoSelect,
            });
        }
        if !lsub {
            let mut inferiors = state.inferiors(name);
            attributes.push(match inferiors.any(|inferior| !self.hidden.contains(inferior.name())) {
                true => MailboxAttribute::HasChildren,
                false => MailboxAttribute::HasNoChildren,
            });
            attributes.extend(mailbox.iter().flat_map(|m| m.special_uses().iter()).map(attribute));
        }
        ListedName { name: name.to_owned(), attributes, exists: mailbox.is_some(), selected, child_info }
    }
}

impl Pending {
    fn new(name: &str, selected: bool) -> Self {
        // Names below it sort after this.
        Pending { name: name.to_owned(), selected, last: format!("{name}{HIERARCHY_DELIMITER}") }
    }
}

impl BatchBudget {
    fn work(&mut self, steps: usize) {
        self.steps = self.steps.saturating_sub(steps);
    }

    fn take(&mut self, listed: ListedName) -> ListedName {
        self.bytes = self.bytes.saturating_sub(listed.name.len() + NAME_STEPS);
        listed
    }

    fn is_used_up(&self) -> bool {
        self.steps == 0 || self.bytes == 0
    }
}

fn is_below(name: &str, superior: &str) -> bool {
    name.strip_prefix(superior).is_some_and(|rest| rest.starts_with(HIERARCHY_DELIMITER))
}

/// The matcher for the patterns, also in Normalization Form C, in which names are stored (RFC 9051 §5.1).
fn matcher(reference: &Mailbox, patterns: &[ListPattern]) -> Option<Matcher> {
    if reference.as_str().is_ascii() && patterns.iter().all(|pattern| pattern.as_str().is_ascii()) {
        return Matcher::new(reference, patterns);
    }
    // A pattern may combine with the end of the reference, so join the two before normalizing.
    let whole = patterns.iter().map(|pattern| match pattern.as_str() {
        alone if alone.starts_with(HIERARCHY_DELIMITER) => alone.to_owned(),
        below => format!("{reference}{below}"),
    });
    let forms = whole.flat_map(|written| {
        let normal = match nfc(&written) {
            Cow::Borrowed(_) => None,
            Cow::Owned(normal) => Some(normal),
        };
        normal.into_iter().chain([written])
    });
    let patterns: Vec<ListPattern> = forms.map(|form| ListPattern::new(&form).ok()).collect::<Option<_>>()?;
    Matcher::new(&Mailbox::new("").ok()?, &patterns)
}

/// The attribute of a special use (RFC 6154 §2, RFC 8457 §3).
pub(crate) fn attribute(special_use: SpecialUse) -> MailboxAttribute {
    match special_use {
        SpecialUse::Archive => MailboxAttribute::Archive,
        SpecialUse::Drafts => MailboxAttribute::Drafts,
        SpecialUse::Junk => MailboxAttribute::Junk,
        SpecialUse::Sent => MailboxAttribute::Sent,
        SpecialUse::Trash => MailboxAttribute::Trash,
        SpecialUse::Flagged => MailboxAttribute::Flagged,
        SpecialUse::All => MailboxAttribute::All,
        SpecialUse::Important => MailboxAttribute::Important,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use sealpost_account::Event;
    use sealpost_account::event::Batch as Events;
    use sealpost_base::{AccountId, Position, Timestamp};
    use sealpost_vault::entry::Origin;

    use super::*;

    fn state(mailboxes: &[String], subscribed: &[String]) -> AccountState {
        let mut state = AccountState::new(AccountId([9; 16]));
        let create = |name: &String| Event::MailboxCreated { name: name.clone(), special_use: None };
        let subscribe = |name: &String| Event::Subscribed { name: name.clone(), on: true };
        let events = mailboxes.iter().map(create).chain(subscribed.iter().map(subscribe)).collect();
        state.apply(Position(1), Origin::Owner, &Events { at: Timestamp(0), events });
        state
    }

    fn list(selection: &[SelectionOption], patterns: &[&str]) -> List {
        List {
            selection: Some(selection.to_vec()),
            reference: Mailbox::new("").unwrap(),
            patterns: patterns.iter().map(|p| ListPattern::new(p).unwrap()).collect(),
            returns: Vec::new(),
        }
    }

    fn run(state: &AccountState, list: &List) -> (Vec<ListedName>, usize) {
        let mut lister = Lister::new(list, true).unwrap();
        let (mut all, mut batches) = (Vec::new(), 0);
        loop {
            let batch = lister.batch(state);
            all.extend(batch.names);
            batches += 1;
            if !batch.more {
                return (all, batches);
            }
        }
    }

    #[test]
    fn hostile_patterns_over_many_long_names_come_in_small_batches() {
        let long = "a".repeat(900);
        let names: Vec<String> = (0..2000).map(|n| format!("{long}/{n}/{long}")).collect();
        let names: Vec<String> = names.iter().map(|name| name[..1000].to_owned()).collect();
        let state = state(&names, &names[..1000]);
        let hostile = "*a".repeat(500);
        let patterns = [hostile.as_str(); 4];
        let (found, batches) = run(&state, &list(&[], &patterns));
        assert!(found.len() >= 2000, "{}", found.len());
        assert!(batches > 100, "{batches}");
        let recursive = [SelectionOption::Subscribed, SelectionOption::RecursiveMatch];
        let (found, batches) = run(&state, &list(&recursive, &[&"*a".repeat(400), "%"]));
        assert!(found.len() >= 1000 && batches > 60, "{} {batches}", found.len());
    }

    /// The definition in RFC 5258 §3.3 and §3.5, by exhaustive search.
    fn naive(state: &AccountState, pattern: &ListPattern, recursive: bool) -> BTreeMap<String, (bool, bool)> {
        let subscribed: Vec<&str> = state.subscriptions().collect();
        let mut all: Vec<&str> = subscribed.clone();
        all.extend(subscribed.iter().flat_map(|n| n.match_indices('/').map(|(at, _)| &n[..at])));
        let mut expected = BTreeMap::new();
        for name in all.into_iter().filter(|name| pattern.matches(name)) {
            let below = || subscribed.iter().filter(|n| is_below(n, name));
            let selected = state.is_subscribed(name);
            let info = if selected { below().next().is_some() } else { below().any(|n| !pattern.matches(n)) };
            if selected || (recursive && info) {
                expected.insert(name.to_owned(), (selected, recursive && info));
            }
        }
        expected
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn listed_names_agree_with_the_definition(
            mailboxes in prop::collection::vec("[ab!](/[ab]){0,3}", 0..8),
            subscribed in prop::collection::vec("[ab!](/[ab]){0,3}", 0..8),
            pattern in "[ab/*%]{1,4}",
            recursive in any::<bool>(),
        ) {
            let state = state(&mailboxes, &subscribed);
            let mut selection = vec![SelectionOption::Subscribed];
            selection.extend(recursive.then_some(SelectionOption::RecursiveMatch));
            let (found, _) = run(&state, &list(&selection, &[&pattern]));
            let count = found.len();
            let got: BTreeMap<_, _> =
                found.into_iter().map(|l| (l.name, (l.selected, l.child_info))).collect();
            prop_assert_eq!(count, got.len(), "a name was returned twice");
            let pattern = ListPattern::new(&pattern).unwrap();
            prop_assert_eq!(got, naive(&state, &pattern, recursive));

            let (found, _) = run(&state, &list(&[], &[pattern.as_str()]));
            let mut expected: Vec<String> = state.mailboxes().flat_map(|mailbox| {
                let name = mailbox.name();
                let levels = name.match_indices('/').map(|(at, _)| name[..at].to_owned());
                levels.chain([name.to_owned()]).collect::<Vec<_>>()
            }).filter(|name| pattern.matches(name)).collect();
            expected.sort();
            expected.dedup();
            let mut got: Vec<String> = found.iter().map(|l| l.name.clone()).collect();
            got.sort();
            prop_assert_eq!(got, expected);
            prop_assert!(found.iter().all(|l| l.exists == state.mailbox_named(&l.name).is_some()));
        }
    }
}
