//! [`Target`]: the account that messages are put into.

use std::collections::HashMap;

use sealpost_base::{Result, Timestamp};
use sealpost_imap::client::{Event, FetchData};
use sealpost_imap::types::{DateTime, Response};
use sealpost_imap::utf7;

use super::key::{Keys, key};
use crate::client::{Connection, Server};
use crate::keep::FolderName;

/// A connection to it, and what there is.
pub(super) struct Target {
    pub(super) connection: Connection,
    /// Names as commands send them, by name.
    folders: HashMap<String, Box<[u8]>>,
    delimiter: Option<char>,
    /// What stands before the names of all folders but INBOX (RFC 2342).
    prefix: String,
    /// The folder that messages go to, as commands send it.
    pub(super) selected: Box<[u8]>,
}

/// The items by which messages are recognized.
pub(super) const KEY_ITEMS: &str = "(UID INTERNALDATE RFC822.SIZE BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)])";

impl Target {
    /// Connects and looks around.
    pub(super) async fn open(server: &Server) -> Result<Self> {
        let mut connection = Connection::open(server).await?;
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
        let folders =
            listing.folders.into_iter().map(|found| (found.name.as_str().to_owned(), found.wire)).collect();
        Ok(Target { connection, folders, delimiter, prefix, selected: Box::default() })
    }

    /// Goes to the folder of these levels, which is made if it is not there; what is in it.
    ///
    /// # Errors
    /// `Retry` if the connection is lost; what the server says.
    pub(super) async fn select(&mut self, levels: &[String], dry_run: bool) -> Result<Keys> {
        let name = self.name(levels);
        if let Some(wire) = self.folders.get(name.as_str()) {
            self.selected = wire.clone();
        } else {
            let wire: Box<[u8]> = utf7::encode(name.as_str()).into_bytes().into();
            if dry_run {
                return Ok(Keys::default());
            }
            let created = self.connection.run(|w| w.raw(b"CREATE ").astring(&wire), |_| Ok(())).await?;
            match created.ok(&format!("making the folder {name}")) {
                Err(e) if e.kind() != sealpost_base::Kind::Conflict => return Err(e),
                _ => {}
            }
            // A folder that is not subscribed to is not shown by many clients.
            self.connection.run(|w| w.raw(b"SUBSCRIBE ").astring(&wire), |_| Ok(())).await?;
            self.folders.insert(name.as_str().to_owned(), wire.clone());
            self.selected = wire;
        }
        let wire = self.selected.clone();
        let selected = self.connection.examine(&wire).await?;
        let mut keys = Keys::default();
        if selected.messages > 0 {
            list(&mut self.connection, "1:*", |_, key| keys.add(key)).await?;
        }
        Ok(keys)
    }

    /// The folder's name here.
    fn name(&self, levels: &[String]) -> FolderName {
        let delimiter = self.delimiter.unwrap_or('/');
        let clean: Vec<String> = levels
            .iter()
            .map(|level| level.replace(delimiter, "_").replace(['\0', '\r', '\n'], "_"))
            .collect();
        let name = clean.join(&delimiter.to_string());
        if name.eq_ignore_ascii_case("INBOX") || name.starts_with(&self.prefix) {
            return FolderName::new(name, self.delimiter);
        }
        FolderName::new(format!("{}{name}", self.prefix), self.delimiter)
    }
}

/// UIDs and keys of messages of the selected folder.
pub(super) async fn list(
    connection: &mut Connection,
    set: &str,
    mut on: impl FnMut(u32, super::key::Key),
) -> Result<()> {
    let (mut uid, mut size, mut date, mut header) = (0, 0, None, Vec::new());
    let take = |event| {
        match event {
            Event::FetchBegin(_) => (uid, size, date, header) = (0, 0, None, Vec::new()),
            Event::Fetch(FetchData::Uid(n)) => uid = n,
            Event::Fetch(FetchData::Rfc822Size(n)) => size = n,
            Event::Fetch(FetchData::InternalDate(at)) => date = Some(DateTime::timestamp(at)),
            Event::Fetch(FetchData::Body(_, octets)) => header = octets.unwrap_or_default(),
            Event::FetchEnd if uid > 0 => on(uid, key(&header, size, date.map(|at: Timestamp| at))),
            _ => {}
        }
        Ok(())
    };
    let command = format!("UID FETCH {set} {KEY_ITEMS}");
    connection.run(|w| w.raw(&command), take).await?.ok("looking at what is there")?;
    Ok(())
}
