//! [`Places`]: which folder of the destination holds which folder of the source, as the destination
//! reports.
//!
//! A server may treat two names as one: it ignores case, or does not tell forms of Unicode apart.
//! Two folders are then in one, and making it equal to one of them would remove the other's
//! messages.

use std::collections::{BTreeMap, HashMap, HashSet};

use sealpost_base::{Kind, Result};

use super::contents::Contents;
use super::origin::From;
use super::run::{Run, unless};
use super::target::{DestinationFolder, Target};
use crate::client::Listing;

/// Where folders are.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The names that the source's folders were given.
    names: HashSet<String>,
    /// Folders of the source that share a folder with others, and the name of one of these.
    shared: HashMap<String, String>,
    /// Names that are not listed although the folder exists: as commands send them.
    folded: HashMap<String, Box<[u8]>>,
}

impl Places {
    /// Another folder of the source that shares this one's folder at the destination.
    pub(super) fn shared(&self, folder: &str) -> Option<&str> {
        self.shared.get(folder).map(String::as_str)
    }

    /// Whether a folder of the source has this name at the destination.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// The name as commands send it; `None`: the folder does not exist.
    pub(super) fn wire(&self, place: &DestinationFolder) -> Option<Box<[u8]>> {
        place.wire.clone().or_else(|| self.folded.get(place.name.as_str()).cloned())
    }

    /// Folders of the source by the names of the folders that hold, or may hold, them.
    fn share(&mut self, by_place: BTreeMap<String, Vec<String>>) {
        for folders in by_place.values().filter(|folders| folders.len() > 1) {
            for folder in folders {
                if let Some(other) = folders.iter().find(|other| *other != folder) {
                    self.shared.entry(folder.clone()).or_insert_with(|| other.clone());
                }
            }
        }
    }
}

impl Run<'_> {
    /// Lists the destination again, over as many connections as needed, and finds the folders.
    pub(super) async fn places(&mut self, folders: &[From]) -> Result<Places> {
        loop {
            match self.find_places(folders).await {
                _ if self.stopped() => return Ok(Places::default()),
                Err(e) if e.kind() == Kind::Retry => self.pause(e).await?,
                places => return places,
            }
        }
    }

    async fn find_places(&mut self, folders: &[From]) -> Result<Places> {
        let stop = &self.options.stop;
        let listing = unless(stop, self.target.list_again()).await?;
        let (mut places, mut by_place) = (Places::default(), BTreeMap::<String, Vec<String>>::new());
        for from in folders {
            let place = self.place(from).await?;
            let name = place.name.as_str();
            let mut is_in = vec![name.to_owned()];
            if place.wire.is_none() {
                let wire = self.target.encoded(&place);
                if let Some(others) = unless(stop, folded(&mut self.target, &wire, &listing)).await? {
                    places.folded.insert(name.to_owned(), wire);
                    is_in.extend(others);
                }
            }
            for at in is_in {
                by_place.entry(at).or_default().push(from.name().to_string());
            }
            places.names.insert(name.to_owned());
        }
        places.share(by_place);
        Ok(places)
    }
}

/// The listed folders that an unlisted name may refer to, judged by their messages. `None`: it does
/// not exist, or is empty.
async fn folded(target: &mut Target, wire: &[u8], listing: &Listing) -> Result<Option<Vec<String>>> {
    let connection = target.connection().await?;
    let this = match Contents::of_server(connection, wire).await {
        Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Invalid | Kind::Denied) => return Ok(None),
        this => this?,
    };
    if this.messages.is_empty() {
        return Ok(None);
    }
    let (mut same, mut alike) = (Vec::new(), Vec::new());
    for found in listing.folders.iter().filter(|found| found.selectable) {
        if found.numbers.as_ref().is_some_and(|numbers| numbers.uidvalidity != this.uidvalidity) {
            continue;
        }
        let other = match Contents::of_server(connection, &found.wire).await {
            Err(e) if e.kind() == Kind::Retry => return Err(e),
            Err(_) => continue,
            Ok(other) => other,
        };
        if other.uidvalidity != this.uidvalidity {
            continue;
        }
        let uids =
            |contents: &Contents| contents.messages.iter().map(|message| message.uid).collect::<Vec<_>>();
        if uids(&other) == uids(&this) {
            same.push(found.name.to_string());
        }
        alike.push(found.name.to_string());
    }
    // A message may have arrived meanwhile.
    Ok(Some(if same.is_empty() { alike } else { same }))
}
