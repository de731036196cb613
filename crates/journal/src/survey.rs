//! Reads all objects at the paths of a log's entries, for `sealpost check`.

use futures::future::try_join_all;
use sealpost_base::{Kind, Position, Result, limits};
use sealpost_vault::mark::{self, NameVerdict};
use sealpost_vault::store::is_too_large;

use crate::disk_paxos::order::{last_of, leading_to};
use crate::manifests::{self, Name};
use crate::noise;
use crate::read::Object;
use crate::{EntryName, Journal, Tail};

/// Objects read at once.
const READ_AHEAD: usize = 16;

/// The objects of a log.
#[derive(Debug, Default)]
pub struct Survey {
    /// Its entries, in order; their contents show whether each follows its predecessor.
    pub entries: Vec<EntryName>,
    /// Objects that are no entries, by position.
    pub unfit: Vec<Unfit>,
}

/// An object at the path of an entry that is no entry.
#[derive(Debug)]
pub struct Unfit {
    /// Its path.
    pub path: String,
    /// The position in its path.
    pub position: Position,
    /// Whether its header is that of the entry there, but it was changed.
    pub is_damaged: bool,
    /// Whether it begins like the entry of that position.
    pub may_be_entry: bool,
    /// The reason, for the operator.
    pub why: String,
}

impl Survey {
    /// The last entry's position.
    pub fn end(&self) -> Position {
        self.entries.last().map_or(Position::ZERO, |place| place.position)
    }

    /// Whether `position` is further after the end than the next entry can be.
    pub fn is_far(&self, position: Position) -> bool {
        position.0 > self.end().0.saturating_add(limits::LOG_GAP)
    }
}

impl Journal {
    /// Objects in the folder of manifests that are named like marks and do not count: their paths, and the
    /// reasons.
    ///
    /// # Errors
    /// Store errors.
    pub async fn survey_marks(&self) -> Result<Vec<(String, String)>> {
        let unfit = self.unfit_marks().await?;
        Ok(unfit.into_iter().map(|(name, why)| (self.judge.mark_path(name), why)).collect())
    }

    async fn unfit_marks(&self) -> Result<Vec<(Name, String)>> {
        let names = manifests::names(&self.store, &self.manifest_prefix(), None).await?;
        let mut unfit = Vec::new();
        for some in names.chunks(READ_AHEAD) {
            let found = try_join_all(some.iter().map(|name| self.unfit_mark(*name))).await?;
            unfit.extend(some.iter().zip(found).filter_map(|(name, why)| Some((*name, why?))));
        }
        Ok(unfit)
    }

    /// Why a mark does not count; `None` if it counts, or did before keys were retired.
    async fn unfit_mark(&self, name: Name) -> Result<Option<String>> {
        match (name, self.judge.name_of(name)) {
            (Name::Witness(..) | Name::PassedOver(..), NameVerdict::Authentic)
            | (Name::Witness(..) | Name::Attestation(_), NameVerdict::Retired) => return Ok(None),
            (Name::Witness(..), NameVerdict::Unknown) => {
                return Ok(Some("its name was not made with this installation's server.key".to_owned()));
            }
            _ => {}
        }
        Ok(match self.judge.read_mark(name).await? {
            manifests::MarkRead::Noise(why) => Some(why),
            manifests::MarkRead::Authentic(_)
            | manifests::MarkRead::Superseded
            | manifests::MarkRead::Gone => None,
        })
    }

    /// Removes objects that this installation never wrote: those in the folder of manifests that do not
    /// count, and those after the end of the log. The first of the latter stays, since it may have been an
    /// entry once: the next entry is then written after it and starts a new generation of UIDs (decision 50).
    /// Objects at skipped positions stay too. Returns the paths of the removed objects. The caller must be
    /// sure of `server.key`: under an old copy, objects that other nodes wrote under the next key look like
    /// noise.
    ///
    /// # Errors
    /// Store errors. The call can be repeated.
    pub async fn remove_noise(&self) -> Result<Vec<String>> {
        let mut paths = Vec::new();
        for (name, _) in self.unfit_marks().await? {
            let path = self.judge.mark_path(name);
            if !self.may_have_been_manifest(name, &path).await? {
                paths.push(path);
            }
        }
        let survey = self.survey(Position::ZERO).await?;
        let passed_over = self.marked(Some(survey.end())).await?.passed_over;
        let mut kept = survey.end().next();
        while passed_over.contains(&kept.next())
            && kept.0 + 1 < survey.end().0.saturating_add(limits::LOG_GAP)
        {
            kept = kept.next();
        }
        let behind = survey.unfit.iter().filter(|unfit| unfit.position > kept && !unfit.may_be_entry);
        paths.extend(behind.map(|unfit| unfit.path.clone()));
        self.store.delete_in_order(paths.clone()).await?;
        self.look_again();
        Ok(paths)
    }

    /// Whether a damaged manifest is there. Readable or not, it shows writers that the log may be trimmed.
    async fn may_have_been_manifest(&self, name: Name, path: &str) -> Result<bool> {
        let Name::Checkpoint(position) = name else { return Ok(false) };
        match self.store.read_confirmed(path).await {
            Ok(object) => Ok(mark::begins_as(self.account, position, name.kind(), &object)),
            Err(e) if e.kind() == Kind::NotFound => Ok(false),
            Err(e) if e.kind() == Kind::Corrupt => Ok(!is_too_large(&e)),
            Err(e) => Err(e),
        }
    }

    /// Reads the objects at all paths of entries from `from` on.
    ///
    /// # Errors
    /// Store errors.
    pub async fn survey(&self, from: Position) -> Result<Survey> {
        self.look_again();
        let listed = self.chain.list(Position(from.0.saturating_sub(1))).await?;
        let (mut authentic, mut survey) = (Vec::new(), Survey::default());
        for places in listed.chunks(READ_AHEAD) {
            let looked = try_join_all(places.iter().map(|place| self.look_at(*place))).await?;
            for (place, unfit) in places.iter().zip(looked) {
                match unfit {
                    Some(unfit) => survey.unfit.extend(unfit),
                    None => authentic.push(*place),
                }
            }
        }
        survey.unfit.extend(self.before_the_first().await?);
        let last = last_of(&authentic, &Tail::EMPTY);
        survey.entries = last.map_or_else(Vec::new, |last| leading_to(&authentic, last, Position::ZERO));
        Ok(survey)
    }

    /// An object at the position before the first one.
    async fn before_the_first(&self) -> Result<Option<Unfit>> {
        let path = self.log_path(Position::ZERO);
        match self.store.size(&path).await {
            Err(e) if e.kind() == Kind::NotFound => Ok(None),
            Err(e) if e.kind() != Kind::Corrupt => Err(e),
            _ => {
                let why = "no log has an entry at that position".to_owned();
                Ok(Some(Unfit {
                    path,
                    position: Position::ZERO,
                    is_damaged: false,
                    may_be_entry: false,
                    why,
                }))
            }
        }
    }

    /// `None` if it is an entry; else the fault, or `Some(None)` if it has been trimmed meanwhile.
    async fn look_at(&self, place: EntryName) -> Result<Option<Option<Unfit>>> {
        let unfit = match self.object(&place, true).await {
            Ok(Object::Entry(..)) => return Ok(None),
            Ok(Object::Gone) => return Ok(Some(None)),
            Ok(Object::Unfit(unfit)) => unfit,
            Err(e) if e.kind() == Kind::Retry => return Err(e),
            Err(_) => noise::Unfit::Damaged,
        };
        let (why, may_be_entry) = match self.store.read_confirmed(&self.path(&place)).await {
            Ok(object) => {
                let why = self.judge.entry(&place, &object).await?.err().map(|(_, why)| why);
                (why, self.judge.may_have_been(&place, &object))
            }
            Err(e) => (Some(e.to_string()), !is_too_large(&e)),
        };
        Ok(Some(Some(Unfit {
            path: self.path(&place),
            position: place.position,
            is_damaged: unfit == noise::Unfit::Damaged,
            may_be_entry,
            why: why.unwrap_or_else(|| "the store returned a different object before".to_owned()),
        })))
    }
}
