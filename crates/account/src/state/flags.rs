//! Keywords and sets of flags, interned: a placement holds four bytes for any set of flags.
//!
//! Sets are counted and their numbers reused, lowest first, so that replay gives the same numbers every time.

use std::collections::{BTreeSet, HashMap};

use minicbor::{Decode, Encode};
use sealpost_base::limits;

use super::table::heap_bytes;
use crate::event::{FlagAction, Flags, SystemFlags};

/// A set of flags of this account, valid while some placement has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct FlagSetId(#[n(0)] pub(crate) u32);

/// A keyword of this account. Keywords are never removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct KeywordId(#[n(0)] pub(crate) u16);

/// System flags and keywords of a placement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Encode, Decode)]
pub struct FlagSet {
    /// The system flags.
    #[n(0)]
    pub system: SystemFlags,
    /// The keywords, ascending by id.
    #[n(1)]
    pub keywords: Vec<KeywordId>,
}

impl FlagSet {
    /// Whether the keyword is set.
    pub fn has(&self, keyword: KeywordId) -> bool {
        self.keywords.binary_search(&keyword).is_ok()
    }

    /// This set after `action` with `flags`; keywords beyond the limit are left out.
    pub(super) fn after(&self, action: FlagAction, flags: &FlagSet) -> FlagSet {
        match action {
            FlagAction::Replace => flags.clone(),
            FlagAction::Add => {
                let mut keywords: BTreeSet<_> = self.keywords.iter().copied().collect();
                for &keyword in &flags.keywords {
                    if keywords.len() < limits::FLAG_SET_KEYWORDS {
                        keywords.insert(keyword);
                    }
                }
                FlagSet { system: self.system.with(flags.system), keywords: keywords.into_iter().collect() }
            }
            FlagAction::Remove => FlagSet {
                system: self.system.without(flags.system),
                keywords: self.keywords.iter().copied().filter(|k| !flags.has(*k)).collect(),
            },
        }
    }
}

/// Keywords that messages of a mailbox have had: a bit each, because thousands of mailboxes may
/// have thousands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeywordSet(Vec<u64>);

impl KeywordSet {
    pub(crate) fn insert(&mut self, keyword: KeywordId) {
        let (word, bit) = (usize::from(keyword.0 / 64), keyword.0 % 64);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << bit;
    }

    /// What it takes on the heap, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        heap_bytes(self.0.capacity() * size_of::<u64>())
    }

    /// Ascending by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = KeywordId> + '_ {
        let bits = self.0.iter().zip(0u16..).flat_map(|(word, at)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| KeywordId(at * 64 + bit))
        });
        bits.take(limits::KEYWORDS)
    }
}

impl Extend<KeywordId> for KeywordSet {
    fn extend<T: IntoIterator<Item = KeywordId>>(&mut self, keywords: T) {
        keywords.into_iter().for_each(|keyword| self.insert(keyword));
    }
}

impl FromIterator<KeywordId> for KeywordSet {
    fn from_iter<T: IntoIterator<Item = KeywordId>>(keywords: T) -> Self {
        let mut set = KeywordSet::default();
        set.extend(keywords);
        set
    }
}

/// The memory of a hash table with a capacity of so many entries: an eighth of it is kept free, and
/// each place has a byte besides.
fn table_bytes<T>(capacity: usize) -> usize {
    capacity * 8 / 7 * (size_of::<T>() + 1)
}

/// The account's keywords and sets of flags. Set 0 is the empty one and always there.
#[derive(Clone)]
pub(crate) struct FlagTable {
    keywords: Vec<String>,
    by_name: HashMap<String, KeywordId>,
    sets: Vec<FlagSet>,
    uses: Vec<u32>,
    by_set: HashMap<FlagSet, u32>,
    free: BTreeSet<u32>,
    /// Keywords of all sets together.
    set_keywords: usize,
}

impl FlagTable {
    pub(crate) const EMPTY: FlagSetId = FlagSetId(0);

    pub(crate) fn new() -> Self {
        Self::restore(Vec::new(), vec![Some(FlagSet::default())])
    }

    /// Builds the table from the keywords and the sets by number (`None` for a free number).
    /// [`FlagTable::retain`] counts the uses again.
    pub(crate) fn restore(keywords: Vec<String>, sets: Vec<Option<FlagSet>>) -> Self {
        let by_name =
            keywords.iter().zip(0..).map(|(name, id)| (name.to_ascii_lowercase(), KeywordId(id))).collect();
        let numbered = || sets.iter().zip(0u32..);
        let free = numbered().filter(|(set, id)| set.is_none() && *id != 0).map(|(_, id)| id).collect();
        let by_set = numbered().filter_map(|(set, id)| Some((set.clone()?, id))).collect();
        let uses = vec![0; sets.len()];
        let set_keywords = sets.iter().flatten().map(|set| set.keywords.len()).sum();
        FlagTable {
            set_keywords,
            keywords,
            by_name,
            uses,
            by_set,
            free,
            sets: sets.into_iter().map(Option::unwrap_or_default).collect(),
        }
    }

    pub(crate) fn keywords(&self) -> &[String] {
        &self.keywords
    }

    /// The sets by number; `None` for a free number.
    pub(crate) fn sets(&self) -> impl ExactSizeIterator<Item = Option<&FlagSet>> {
        self.sets.iter().enumerate().map(|(i, set)| {
            let free = u32::try_from(i).is_ok_and(|i| self.free.contains(&i));
            if free { None } else { Some(set) }
        })
    }

    /// How many sets there are.
    pub(crate) fn used_sets(&self) -> usize {
        self.sets.len() - self.free.len()
    }

    /// Keywords of all sets together.
    pub(crate) fn set_keywords(&self) -> usize {
        self.set_keywords
    }

    /// About what all of it takes on the heap, in bytes: names and sets are there twice, by number
    /// and to be found.
    pub(super) fn heap_bytes(&self) -> usize {
        let names: usize = self.keywords.iter().map(|name| 2 * heap_bytes(name.len())).sum();
        let sets = 2 * (self.used_sets() * heap_bytes(1) + self.set_keywords * size_of::<KeywordId>());
        let numbered = self.keywords.capacity() * size_of::<String>()
            + self.sets.capacity() * (size_of::<FlagSet>() + size_of::<u32>());
        let found = table_bytes::<(String, KeywordId)>(self.by_name.capacity())
            + table_bytes::<(FlagSet, u32)>(self.by_set.capacity());
        names + sets + numbered + found
    }

    /// Whether there is such a set.
    pub(crate) fn has_set(&self, set: &FlagSet) -> bool {
        self.by_set.contains_key(set)
    }

    pub(crate) fn set(&self, id: FlagSetId) -> &FlagSet {
        self.sets.get(id.0 as usize).unwrap_or(&self.sets[0])
    }

    pub(crate) fn keyword(&self, name: &str) -> Option<KeywordId> {
        self.by_name.get(&name.to_ascii_lowercase()).copied()
    }

    pub(crate) fn keyword_name(&self, id: KeywordId) -> &str {
        self.keywords.get(usize::from(id.0)).map_or("", String::as_str)
    }

    /// Named flags as a set; new keywords are added up to the limit.
    pub(crate) fn intern_names(&mut self, flags: &Flags) -> FlagSet {
        let mut keywords = BTreeSet::new();
        for name in &flags.keywords {
            if keywords.len() < limits::FLAG_SET_KEYWORDS
                && let Some(id) = self.keyword(name).or_else(|| self.add_keyword(name))
            {
                keywords.insert(id);
            }
        }
        FlagSet { system: flags.system, keywords: keywords.into_iter().collect() }
    }

    fn add_keyword(&mut self, name: &str) -> Option<KeywordId> {
        if self.keywords.len() >= limits::KEYWORDS || name.is_empty() || name.len() > limits::KEYWORD_BYTES {
            return None;
        }
        let id = KeywordId(u16::try_from(self.keywords.len()).ok()?);
        self.keywords.push(name.to_owned());
        self.by_name.insert(name.to_ascii_lowercase(), id);
        Some(id)
    }

    /// The number of a set, one more placement of which exists now. `None` when there are too many sets.
    pub(crate) fn intern(&mut self, set: &FlagSet) -> Option<FlagSetId> {
        let id = match self.by_set.get(set) {
            Some(&id) => id,
            None => self.add_set(set)?,
        };
        self.uses[id as usize] += 1;
        Some(FlagSetId(id))
    }

    fn add_set(&mut self, set: &FlagSet) -> Option<u32> {
        if self.set_keywords + set.keywords.len() > limits::FLAG_SETS_KEYWORDS {
            return None;
        }
        let id = match self.free.pop_first() {
            Some(id) => {
                self.sets[id as usize] = set.clone();
                id
            }
            None if self.sets.len() >= limits::FLAG_SETS => return None,
            None => {
                self.sets.push(set.clone());
                self.uses.push(0);
                u32::try_from(self.sets.len() - 1).ok()?
            }
        };
        self.by_set.insert(set.clone(), id);
        self.set_keywords += set.keywords.len();
        Some(id)
    }

    /// One more placement has a set that another one has.
    pub(crate) fn retain(&mut self, id: FlagSetId) -> FlagSetId {
        match self.uses.get_mut(id.0 as usize) {
            Some(uses) => {
                *uses += 1;
                id
            }
            None => {
                self.uses[0] += 1;
                Self::EMPTY
            }
        }
    }

    /// One placement fewer has the set.
    pub(crate) fn release(&mut self, id: FlagSetId) {
        let uses = &mut self.uses[id.0 as usize];
        *uses = uses.saturating_sub(1);
        if *uses == 0 && id != Self::EMPTY {
            let set = std::mem::take(&mut self.sets[id.0 as usize]);
            self.by_set.remove(&set);
            self.set_keywords -= set.keywords.len();
            self.free.insert(id.0);
        }
    }

    /// The set after a change, for a placement that has `from`. The caller releases `from` if it differs.
    /// `None` if nothing changes, or there are too many sets.
    pub(crate) fn change(
        &mut self,
        from: FlagSetId,
        action: FlagAction,
        flags: &FlagSet,
    ) -> Option<FlagSetId> {
        let before = self.set(from);
        let after = before.after(action, flags);
        if after == *before { None } else { self.intern(&after) }
    }
}
