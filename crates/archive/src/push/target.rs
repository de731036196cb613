//! [`Target`]: the account that messages are put into.

use std::collections::HashMap;

use sealpost_base::{Error, Kind, Result};
use sealpost_imap::client::Event;
use sealpost_imap::types::Response;
use sealpost_imap::utf7;

use super::contents::Contents;
use crate::backup::{FolderName, Source};
use crate::client::{Connection, Listing, Server, Timeouts};

/// Characters that one server or another refuses in names of folders.
const REFUSED: &str = ".~%*\"\\/{};^";

/// The destination account, and its folders.
pub(super) struct Target {
    server: Server,
    connection: Option<Connection>,
    /// Those that can be selected: names as commands send them, by name.
    folders: HashMap<String, Box<[u8]>>,
    delimiter: Option<char>,
    /// The prefix of the names of all folders but INBOX (RFC 2342).
    prefix: String,
    /// Names that it refused, and the names that these folders have instead.
    instead: HashMap<String, FolderName>,
    /// It lists names in UTF-8, and not in modified UTF-7.
    raw: bool,
}

/// A folder there.
#[derive(Debug, Clone)]
pub(super) struct DestinationFolder {
    /// Its name.
    pub(super) name: FolderName,
    /// Its name as commands send it; `None`: it does not exist.
    pub(super) wire: Option<Box<[u8]>>,
}

impl Target {
    /// Without a connection yet.
    pub(super) fn new(server: &Server) -> Self {
        let server = server.clone();
        let (folders, instead) = (HashMap::new(), HashMap::new());
        let prefix = String::new();
        Target { server, connection: None, folders, delimiter: None, prefix, instead, raw: false }
    }

    /// The connection, made if there is none.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub(super) async fn connection(&mut self) -> Result<&mut Connection> {
        if self.connection.is_none() {
            let connection = self.discover().await?;
            self.connection = Some(connection);
        }
        self.connection.as_mut().ok_or_else(|| Error::internal("there is no connection"))
    }

    /// The account.
    pub(super) fn account(&self) -> Source {
        self.server.source()
    }

    /// How long to wait for it.
    pub(super) fn timeouts(&self) -> Timeouts {
        self.server.timeouts
    }

    /// Drops the connection, which is unusable.
    pub(super) fn drop_connection(&mut self) {
        self.connection = None;
    }

    /// Logs out.
    pub(super) async fn logout(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.logout().await;
        }
    }

    async fn discover(&mut self) -> Result<Connection> {
        let mut connection = Connection::open(&self.server).await?;
        let listing = connection.listing().await?;
        let mut delimiter = listing.folders.iter().find_map(|found| found.name.delimiter());
        let mut prefix = String::new();
        if connection.capabilities().has("NAMESPACE") {
            let on = |event| {
                if let Event::Response(Response::Namespace(namespaces)) = event
                    && let Some(personal) = namespaces.personal.first()
                {
                    prefix = personal.prefix.as_str().to_owned();
                    delimiter = personal.delimiter.or(delimiter);
                }
                Ok(())
            };
            connection.run(|w| w.raw(b"NAMESPACE"), on).await?;
        }
        self.know(&listing);
        (self.delimiter, self.prefix) = (delimiter, prefix);
        Ok(connection)
    }

    /// What the server lists now.
    ///
    /// # Errors
    /// As [`Connection::open`] and [`Connection::listing`].
    pub(super) async fn list_again(&mut self) -> Result<Listing> {
        let listing = self.connection().await?.listing().await?;
        self.know(&listing);
        Ok(listing)
    }

    fn know(&mut self, listing: &Listing) {
        self.raw = listing
            .folders
            .iter()
            .any(|found| !found.name.as_str().is_ascii() && *found.wire == *found.name.as_str().as_bytes());
        // Folders that cannot be selected may be creatable (RFC 9051 §6.3.4), and have to be
        // created before messages are put there.
        let folders = listing.folders.iter().filter(|found| found.selectable);
        self.folders = folders.map(|found| (found.name.as_str().to_owned(), found.wire.clone())).collect();
    }

    /// The folder of these levels.
    ///
    /// # Errors
    /// As [`Target::connection`].
    pub(super) async fn place(&mut self, levels: &[String]) -> Result<DestinationFolder> {
        self.connection().await?;
        let name = self.name(levels);
        Ok(self.known(self.instead.get(name.as_str()).cloned().unwrap_or(name)))
    }

    /// A folder's name as commands send it, whether it exists or not: in the encoding that the
    /// server lists.
    pub(super) fn encoded(&self, place: &DestinationFolder) -> Box<[u8]> {
        match (&place.wire, place.name.as_str()) {
            (Some(wire), _) => wire.clone(),
            (None, name) if self.raw => name.as_bytes().into(),
            (None, name) => utf7::encode(name).into_bytes().into(),
        }
    }

    fn known(&self, name: FolderName) -> DestinationFolder {
        let wire = self.folders.get(name.as_str()).cloned();
        DestinationFolder { name, wire }
    }

    /// Creates the folder if it does not exist; returns whether it did. If the server refuses its
    /// name, `place` becomes the replacement folder.
    ///
    /// # Errors
    /// `Retry` if the connection is lost; the server's errors.
    pub(super) async fn make(&mut self, place: &mut DestinationFolder) -> Result<bool> {
        if place.wire.is_some() {
            return Ok(true);
        }
        let Err(refused) = self.create(place).await else { return Ok(false) };
        let plain = FolderName::new(self.plain(place.name.as_str()), self.delimiter);
        if refused.kind() != Kind::Invalid || plain == place.name {
            return Err(refused);
        }
        let mut instead = self.known(plain);
        let was_there = instead.wire.is_some();
        if !was_there && let Err(e) = self.create(&mut instead).await {
            return Err(if e.kind() == Kind::Retry { e } else { refused });
        }
        self.instead.insert(place.name.as_str().to_owned(), instead.name.clone());
        *place = instead;
        Ok(was_there)
    }

    /// For a dry run, which creates nothing: `place` becomes the folder that an earlier run created
    /// because the name was refused, if there is one and `ours` accepts its name.
    pub(super) fn find_instead(&mut self, place: &mut DestinationFolder, ours: impl Fn(&str) -> bool) {
        let instead = self.known(FolderName::new(self.plain(place.name.as_str()), self.delimiter));
        if place.wire.is_none() && instead.wire.is_some() && ours(instead.name.as_str()) {
            self.instead.insert(place.name.as_str().to_owned(), instead.name.clone());
            *place = instead;
        }
    }

    async fn create(&mut self, place: &mut DestinationFolder) -> Result<()> {
        let wire = self.encoded(place);
        let connection = self.connection().await?;
        let created = connection.run(|w| w.raw(b"CREATE ").astring(&wire), |_| Ok(())).await?;
        match created.ok(&format!("making the folder {}", place.name)) {
            Err(e) if e.kind() != Kind::Conflict => return Err(e),
            _ => {}
        }
        // Many clients do not show folders without a subscription.
        connection.run(|w| w.raw(b"SUBSCRIBE ").astring(&wire), |_| Ok(())).await?;
        self.folders.insert(place.name.as_str().to_owned(), wire.clone());
        place.wire = Some(wire);
        Ok(())
    }

    /// The name with `_` for characters that some servers refuse: those that have a meaning in
    /// their directories, or in LIST.
    fn plain(&self, name: &str) -> String {
        let refused = |c: char| Some(c) != self.delimiter && (c.is_control() || REFUSED.contains(c));
        let below = name.strip_prefix(&*self.prefix).unwrap_or(name);
        let at = name.len() - below.len();
        format!("{}{}", &name[..at], below.replace(refused, "_"))
    }

    /// The messages of the folder; it is selected afterwards.
    ///
    /// # Errors
    /// `Retry` if the connection is lost; `Invalid` if the server does not list everything, as
    /// messages that were not listed would be appended again; the server's errors.
    pub(super) async fn contents(&mut self, place: &DestinationFolder) -> Result<Contents> {
        let Some(wire) = &place.wire else { return Ok(Contents::default()) };
        let connection = self.connection().await?;
        let mut contents = Contents::of_server(connection, wire).await?;
        if !contents.complete {
            // Some may have been expunged meanwhile.
            contents = Contents::of_server(connection, wire).await?;
        }
        if !contents.complete {
            let why = format!(
                "the server lists {} messages of the folder but announces more; the folder is skipped, \
                 because messages could be copied twice",
                contents.messages.len()
            );
            return Err(Error::invalid(why));
        }
        Ok(contents)
    }

    /// Why a folder of these levels has another name here, even before the server is asked.
    pub(super) fn renames(&self, levels: &[String]) -> Option<String> {
        let renamed = levels.iter().any(|level| self.level(level) != *level);
        renamed.then(|| format!("where `{}` separates levels", self.separator()))
    }

    fn separator(&self) -> char {
        self.delimiter.unwrap_or('/')
    }

    /// A level of a name, without characters that no level can have here.
    fn level(&self, level: &str) -> String {
        level.replace([self.separator(), '\0', '\r', '\n'], "_")
    }

    /// The folder's name here.
    fn name(&self, levels: &[String]) -> FolderName {
        let levels: Vec<String> = levels.iter().map(|level| self.level(level)).collect();
        let name = levels.join(&self.separator().to_string());
        if name.eq_ignore_ascii_case("INBOX") || name.starts_with(&self.prefix) {
            return FolderName::new(name, self.delimiter);
        }
        FolderName::new(format!("{}{name}", self.prefix), self.delimiter)
    }
}
