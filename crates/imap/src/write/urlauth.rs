//! Authorized URLs (RFC 4467 §9), for the client.

use super::Writer;
use crate::types::UrlCommand;

impl Writer {
    pub(super) fn url_command(&mut self, command: &UrlCommand) -> &mut Self {
        match command {
            UrlCommand::Generate(urls) => urls.iter().fold(self, |w, (url, mechanism)| {
                w.space().astring(url.as_bytes()).space().raw(mechanism.as_str())
            }),
            UrlCommand::Fetch(urls) => urls.iter().fold(self, |w, url| w.space().astring(url.as_bytes())),
            UrlCommand::ResetKey(None) => self,
            UrlCommand::ResetKey(Some((mailbox, mechanisms))) => mechanisms
                .iter()
                .fold(self.space().mailbox(mailbox), |w, mechanism| w.space().raw(mechanism.as_str())),
        }
    }
}
