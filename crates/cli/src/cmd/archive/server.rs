//! Options that name a server and what opens the account there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::ValueEnum;
use sealpost_archive::client::{
    Compress, Credential, Credentials, Security, Server, ServerSeen, Timeouts, Trust,
};
use sealpost_imap::types::Secret;
use serde::{Deserialize, Serialize};

use super::target::MailOwner;
use super::token_command::TokenCommand;
use crate::exit::Usage;
use crate::secret;

/// When TLS is spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    /// Never: the network can read mail and password
    None,
    /// After STARTTLS
    Starttls,
    /// From the first byte
    #[default]
    Implicit,
}

/// Options that name a server and the account there.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Server")]
pub struct ServerArgs {
    /// The server's name, as in its certificate
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Its TCP port [default: 993, or 143 without implicit TLS]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// When TLS starts [default: implicit]
    #[arg(long, value_enum, value_name = "WHEN")]
    pub tls: Option<Tls>,
    /// Trust the certificates in FILE (PEM): issuers, or the server's own [default: those of the system]
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// The user name for the login
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Read the password from FILE; a line end after it does not count
    #[arg(long, value_name = "FILE", conflicts_with = "token_command")]
    pub password_file: Option<PathBuf>,
    /// Run COMMAND for each login and use the first line of its output as an OAuth 2.0 access token
    #[arg(long, value_name = "COMMAND")]
    pub token_command: Option<String>,
}

/// What is remembered of a server; secrets only by where they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceServer {
    /// Its name.
    pub host: String,
    /// Its TCP port.
    pub port: u16,
    /// When TLS is spoken.
    pub tls: Tls,
    /// Whose certificates are trusted; the system's if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// The account's name.
    pub user: String,
    /// The file with the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// What prints a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_command: Option<String>,
}

impl ServerArgs {
    /// The server that the options name; `None` if they name none.
    ///
    /// # Errors
    /// If a part of it is missing.
    pub fn place(&self) -> Result<Option<SourceServer>> {
        let Some(host) = self.host.clone() else {
            let others = [
                ("--port", self.port.is_some()),
                ("--tls", self.tls.is_some()),
                ("--ca", self.ca.is_some()),
                ("--user", self.user.is_some()),
                ("--password-file", self.password_file.is_some()),
                ("--token-command", self.token_command.is_some()),
            ];
            return match others.iter().find(|(_, said)| *said) {
                Some((option, _)) => Err(Usage(format!("{option} needs --host")).into()),
                None => Ok(None),
            };
        };
        let (host, port) = match (host.split_once(':'), self.port) {
            // As other programs take it. An IPv6 address has more colons.
            (Some((name, port)), None) if !port.contains(':') => {
                let port = port.parse().map_err(|_| Usage(format!("--host {host}: {port:?} is no port")))?;
                (name.to_owned(), Some(port))
            }
            _ => (host, self.port),
        };
        let user = self.user.clone().ok_or_else(|| Usage("--host needs --user".into()))?;
        let tls = self.tls.unwrap_or_default();
        let port = port.unwrap_or(if tls == Tls::Implicit { 993 } else { 143 });
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        Ok(Some(SourceServer {
            host,
            port,
            tls,
            ca: self.ca.as_ref().map(absolute),
            user,
            password_file: self.password_file.as_ref().map(absolute),
            token_command: self.token_command.clone(),
        }))
    }
}

impl SourceServer {
    /// Whose account it is.
    pub fn mail_owner(&self) -> MailOwner<'_> {
        MailOwner { user: &self.user, host: &self.host }
    }

    /// The server with its login: prompts for the password if no option gives it.
    ///
    /// # Errors
    /// If the password or the certificates cannot be read.
    pub async fn server(&self) -> Result<Server> {
        self.with(self.credentials().await?)
    }

    /// The login: prompts for the password if no option gives it.
    ///
    /// # Errors
    /// If the password cannot be read.
    pub async fn credentials(&self) -> Result<Arc<dyn Credentials>> {
        Ok(match (&self.password_file, &self.token_command) {
            (Some(file), _) => Arc::new(password(secret::from_file(file)?.bytes())),
            (None, Some(command)) => Arc::new(TokenCommand::new(command.clone())),
            (None, None) => {
                let prompt = format!("Password of {} at {}", self.user, self.host);
                let asked = secret::prompt(prompt, secret::PASSWORD_FILE).await?;
                Arc::new(password(asked.bytes()))
            }
        })
    }

    /// The server, if its login is stored; else the reason: this never prompts.
    pub fn without_prompt(&self) -> Result<Server, String> {
        let credentials: Arc<dyn Credentials> = match (&self.password_file, &self.token_command) {
            (Some(file), _) => {
                let read = secret::from_file(file).map_err(|e| format!("{}: {e:#}", file.display()))?;
                Arc::new(password(read.bytes()))
            }
            (None, Some(command)) => Arc::new(TokenCommand::new(command.clone())),
            (None, None) => {
                return Err(format!(
                    "the password of {} at {} is not stored: `sealpost archive add` stores it, or --password-file",
                    self.user, self.host
                ));
            }
        };
        self.with(credentials).map_err(|e| format!("{e:#}"))
    }

    /// The server, opened by these.
    ///
    /// # Errors
    /// If the certificates cannot be read.
    pub fn with(&self, credentials: Arc<dyn Credentials>) -> Result<Server> {
        let trust = match (&self.ca, self.tls) {
            (_, Tls::None) => Trust::none(),
            (Some(file), _) => Trust::file(Path::new(file)).context("--ca")?,
            (None, _) => Trust::system()?,
        };
        self.trusting(trust, credentials)
    }

    /// The server, opened by these, if it is one of those that are trusted.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub fn trusting(&self, trust: Trust, credentials: Arc<dyn Credentials>) -> Result<Server> {
        let security = match self.tls {
            Tls::None => Security::None,
            Tls::Starttls => Security::StartTls,
            Tls::Implicit => Security::Implicit,
        };
        Ok(Server {
            host: self.host.clone(),
            port: self.port,
            security,
            tls: trust.config()?,
            user: self.user.clone(),
            credentials,
            compress: Compress::Auto,
            timeouts: Timeouts::default(),
            reached: ServerSeen::default(),
        })
    }
}

/// A password as the client takes it.
pub fn password(bytes: &[u8]) -> Credential {
    Credential::Password(Secret::new(bytes.to_vec()))
}
