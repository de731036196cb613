//! [`Target`]: the account that messages are put into.

use std::collections::HashMap;

use sealpost_base::{Error, Kind, Result};
use sealpost_imap::client::Event;
use sealpost_imap::types::Response;
use sealpost_imap::utf7;

use super::contents::Contents;
use crate::client::{Connection, Listing, Patience, Server};
use crate::keep::FolderName;

/// Where it is, and what there is.
pub(super) struct Target {
    server: Server,
    connection: Option<Connection>,
    /// Those that can be selected: names as commands send them, by name.
    folders: HashMap<String, Box<[u8]>>,
    delimiter: Option<char>,
    /// What stands before the names of all folders but INBOX (RFC 2342).
    prefix: String,
}

/// A folder there.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Its name.
    pub(super) name: FolderName,
    /// Its name as commands send it; `None`: it is not there.
    pub(super) wire: Option<Box<[u8]>>,
}

impl Place {
    /// Its name as commands send it, whether it is there or not.
    pub(super) fn encoded(&self) -> Box<[u8]> {
        utf7::encode(self.name.as_str()).into_bytes().into()
    }
}

impl Target {
    /// Nothing is asked yet.
    pub(super) fn new(server: &Server) -> Self {
        let server = server.clone();
        Target { server, connection: None, folders: HashMap::new(), delimiter: None, prefix: String::new() }
    }

    /// The connection, made if there is none.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub(super) async fn connection(&mut self) -> Result<&mut Connection> {
        if self.connection.is_none() {
            let connection = self.look_around().await?;
            self.connection = Some(connection);
        }
        self.connection.as_mut().ok_or_else(|| Error::internal("there is no connection"))
    }

    /// How long to wait for it.
    pub(super) fn patience(&self) -> Patience {
        self.server.patience
    }

    /// The connection is of no use any more.
    pub(super) fn drop_connection(&mut self) {
        self.connection = None;
    }

    /// Says goodbye.
    pub(super) async fn logout(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.logout().await;
        }
    }

    async fn look_around(&mut self) -> Result<Connection> {
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
        // What cannot be selected may be made (RFC 9051 §6.3.4), and has to be before anything is put there.
        let folders = listing.folders.iter().filter(|found| found.selectable);
        self.folders = folders.map(|found| (found.name.as_str().to_owned(), found.wire.clone())).collect();
    }

    /// The folder of these levels.
    ///
    /// # Errors
    /// As [`Target::connection`].
    pub(super) async fn place(&mut self, levels: &[String]) -> Result<Place> {
        self.connection().await?;
        let name = self.name(levels);
        let wire = self.folders.get(name.as_str()).cloned();
        Ok(Place { name, wire })
    }

    /// Makes the folder if it is not there.
    ///
    /// # Errors
    /// `Retry` if the connection is lost; what the server says.
    pub(super) async fn make(&mut self, place: &mut Place) -> Result<Box<[u8]>> {
        if let Some(wire) = &place.wire {
            return Ok(wire.clone());
        }
        let wire = place.encoded();
        let connection = self.connection().await?;
        let created = connection.run(|w| w.raw(b"CREATE ").astring(&wire), |_| Ok(())).await?;
        match created.ok(&format!("making the folder {}", place.name)) {
            Err(e) if e.kind() != Kind::Conflict => return Err(e),
            _ => {}
        }
        // A folder that is not subscribed to is not shown by many clients.
        connection.run(|w| w.raw(b"SUBSCRIBE ").astring(&wire), |_| Ok(())).await?;
        self.folders.insert(place.name.as_str().to_owned(), wire.clone());
        place.wire = Some(wire.clone());
        Ok(wire)
    }

    /// What is in the folder; it is selected afterwards.
    ///
    /// # Errors
    /// `Retry` if the connection is lost; `Invalid` if the server does not list everything: what is there and was not listed
    /// would be put there again; what the server says.
    pub(super) async fn contents(&mut self, place: &Place) -> Result<Contents> {
        let Some(wire) = &place.wire else { return Ok(Contents::default()) };
        let connection = self.connection().await?;
        let mut contents = Contents::of_server(connection, wire).await?;
        if !contents.complete {
            // Some may have gone meanwhile.
            contents = Contents::of_server(connection, wire).await?;
        }
        if !contents.complete {
            let why = format!(
                "the server lists {} messages of the folder and says that there are more; nothing is put there, it \
                 could be there already",
                contents.messages.len()
            );
            return Err(Error::invalid(why));
        }
        Ok(contents)
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
