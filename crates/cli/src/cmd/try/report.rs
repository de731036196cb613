//! What a trial says once it accepts connections.

use std::net::SocketAddr;
use std::path::PathBuf;

use sealpost_server::settings::Listen;
use serde::Serialize;

use super::accounts::Login;
use crate::cmd::serve::Endpoint;
use crate::data_dir::DataDir;

/// The line of `sealpost try --json`. Programs read it: keys are added, never changed.
#[derive(Serialize)]
pub struct Ready<'a> {
    dir: PathBuf,
    pid: u32,
    account: &'a str,
    password: Option<&'a str>,
    imap: Option<Endpoint>,
    imaps: Option<Endpoint>,
    smtp: Option<Endpoint>,
    smtps: Option<Endpoint>,
    submission: Option<Endpoint>,
    submissions: Option<Endpoint>,
    lmtp: Option<Endpoint>,
    http: Option<WebEndpoint>,
}

/// Where HTTP is served.
#[derive(Serialize)]
struct WebEndpoint {
    #[serde(flatten)]
    at: Endpoint,
    /// The same as a URL.
    url: String,
}

impl<'a> Ready<'a> {
    /// The addresses of this trial's server, and its logins.
    pub fn new(data_dir: &DataDir, login: &'a Login, listen: &Listen) -> Self {
        let first = |addresses: &[SocketAddr]| addresses.first().copied().map(Endpoint::from);
        Ready {
            dir: data_dir.dir.clone(),
            pid: std::process::id(),
            account: login.account.as_str(),
            password: login.password.as_ref().map(|password| password.as_str()),
            imap: first(&listen.imap),
            imaps: first(&listen.imaps),
            smtp: first(&listen.smtp),
            smtps: first(&listen.smtps),
            submission: first(&listen.submission),
            submissions: first(&listen.submissions),
            lmtp: first(&listen.lmtp),
            http: listen.http.first().map(|address| WebEndpoint {
                at: Endpoint::from(*address),
                url: format!("http://{address}"),
            }),
        }
    }

    /// For people: what to enter into a mail program, and two lines to paste into a shell.
    pub fn to_text(&self) -> String {
        let mut text = format!("Sealpost is running. Its mail is in {}\n\n", self.dir.display());
        let servers = [
            ("IMAP", &self.imap, "STARTTLS"),
            ("", &self.imaps, "TLS"),
            ("SMTP", &self.submission, "STARTTLS"),
            ("", &self.submissions, "TLS"),
            ("Incoming", &self.smtp, "STARTTLS"),
            ("", &self.smtps, "TLS"),
            ("LMTP", &self.lmtp, ""),
        ];
        for (name, endpoint, security) in servers {
            if let Some(Endpoint { host, port }) = endpoint {
                text.push_str(format!("  {name:<10}{host} port {port:<5} {security}").trim_end());
                text.push('\n');
            }
        }
        if let Some(WebEndpoint { url, .. }) = &self.http {
            text.push_str(&format!("  JMAP      {url}\n"));
        }
        let password = self.password.unwrap_or("(the one that you have set)");
        text.push_str(&format!("  Account   {}\n  Password  {password}\n", self.account));
        text.push_str("\nThe certificate is self-signed: mail programs ask once whether to trust it.\n");
        text.push_str(&self.commands());
        text.push_str("\nCtrl-C stops it; the mail stays.\n");
        text
    }

    fn commands(&self) -> String {
        let (Some(imaps), Some(smtp)) = (&self.imaps, &self.smtp) else { return String::new() };
        let user = quoted(&format!("{}:{}", self.account, self.password.unwrap_or("PASSWORD")));
        let imap = format!("imaps://{}:{}", imaps.host, imaps.port);
        let to = quoted(self.account);
        format!(
            "\nSend a message:\n  printf 'From: you@example.org\\r\\nSubject: Hello\\r\\n\\r\\nIt works.\\r\\n' | \
             curl -sS smtp://{}:{} --mail-from you@example.org --mail-rcpt {to} -T -\n\
             Read the newest message in the inbox:\n  curl -sk -u {user} '{imap}/INBOX;MAILINDEX=*'\n\
             List the mailboxes:\n  curl -sk -u {user} '{imap}/'\n{}",
            smtp.host,
            smtp.port,
            self.jmap_command(&user)
        )
    }

    fn jmap_command(&self, user: &str) -> String {
        let session = |http: &WebEndpoint| {
            format!("See what JMAP offers:\n  curl -s -u {user} {}/.well-known/jmap\n", http.url)
        };
        self.http.as_ref().map(session).unwrap_or_default()
    }
}

/// A word for a POSIX shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_cannot_leave_its_quotes() {
        assert_eq!(quoted("me:it's"), r"'me:it'\''s'");
    }
}
