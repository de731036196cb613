//! The prompts of `archive add` at a terminal: host, trust in its certificate, user, login, and
//! folders. Answers are kept; after an error a prompt offers the answer as its default. It prompts
//! for a password only once there is a server to test it, and never with echo.

use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use sealpost_archive::client::{Credentials, Server, ShownCertificate, Trust};
use sealpost_base::{Error, Kind};
use sealpost_directory::Secret;

use super::super::folders::{FolderArgs, check};
use super::super::server::{ServerArgs, SourceServer, password};
use crate::exit::Usage;
use crate::output::{text, warn};
use crate::secret;

/// Attempts to answer one prompt.
const ATTEMPTS: usize = 5;

/// The person at the terminal.
pub trait Prompter {
    /// Whether there is one.
    fn is_interactive(&self) -> bool;
    /// The line typed at a prompt; empty if none.
    fn line(&mut self, question: &str) -> Result<String>;
    /// A secret, typed without echo; `None` if empty.
    async fn secret(&mut self, question: String) -> Result<Option<Secret>>;
    /// Says something.
    fn show(&mut self, text: &str);
}

/// A person at the terminal.
pub struct Terminal;

impl Prompter for Terminal {
    fn is_interactive(&self) -> bool {
        std::io::stdin().is_terminal()
    }

    fn line(&mut self, question: &str) -> Result<String> {
        if !self.is_interactive() {
            let missing =
                "no terminal for questions: give --host, --user and --password-file or --token-command";
            return Err(Usage(missing.into()).into());
        }
        let mut out = std::io::stderr().lock();
        write!(out, "{question}")?;
        out.flush()?;
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line).context("the answer")? == 0 {
            return Err(Usage("no answer; the account is not remembered".into()).into());
        }
        Ok(line.trim().to_owned())
    }

    async fn secret(&mut self, question: String) -> Result<Option<Secret>> {
        secret::prompt_optional(question, secret::PASSWORD_FILE).await
    }

    fn show(&mut self, text: &str) {
        warn(text);
    }
}

/// A server and the login there, as far as the options name them; prompts for the rest.
pub struct Login {
    options: ServerArgs,
    /// From options and answers.
    server: ServerArgs,
    /// The password that was typed.
    pub typed: Option<Secret>,
    /// The certificate that a person trusts, byte for byte.
    pub certificate: Option<ShownCertificate>,
    /// Errors of servers and of logins so far.
    unreached: usize,
    refused: usize,
}

impl Login {
    /// The options.
    pub fn new(options: &ServerArgs) -> Self {
        let (options, server) = (options.clone(), options.clone());
        Login { options, server, typed: None, certificate: None, unreached: 0, refused: 0 }
    }

    /// Whether anything is answered by a person.
    pub fn is_interactive(&self) -> bool {
        self.options.host.is_none() || self.options.user.is_none() || self.is_opened_by_answer()
    }

    /// Prompts for the server if no option names it.
    ///
    /// # Errors
    /// If there is no answer.
    pub fn ask_server(&mut self, prompter: &mut impl Prompter) -> Result<()> {
        if self.server.host.is_none() {
            self.server.host = Some(answer_or_default(prompter, "IMAP server", None)?);
        }
        self.place().map(drop)
    }

    /// Prompts for the user and the login, if no option gives them.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn ask_login(&mut self, prompter: &mut impl Prompter) -> Result<()> {
        if self.options.user.is_none() {
            self.server.user = Some(answer_or_default(prompter, "User", self.server.user.as_deref())?);
        }
        if !self.is_opened_by_answer() {
            return Ok(());
        }
        let place = self.place()?;
        let question = format!(
            "Password of {} at {} (nothing: a command prints an OAuth 2.0 token)",
            place.user, place.host
        );
        self.typed = prompter.secret(question).await?;
        self.server.token_command = match self.typed {
            Some(_) => None,
            None => {
                let last = self.server.token_command.as_deref();
                Some(answer_or_default(prompter, "Command that prints the token", last)?)
            }
        };
        Ok(())
    }

    /// The options and answers so far.
    ///
    /// # Errors
    /// If that is no server.
    pub fn place(&self) -> Result<SourceServer> {
        // The connection does not depend on the user.
        let user = Some(self.server.user.clone().unwrap_or_default());
        ServerArgs { user, ..self.server.clone() }.place()?.context("no host was given")
    }

    /// The server, before a login.
    ///
    /// # Errors
    /// If the certificates cannot be read.
    pub fn server(&self) -> Result<Server> {
        self.with(Arc::new(password(b"")))
    }

    /// The server, opened so.
    ///
    /// # Errors
    /// If the password or the certificates cannot be read.
    pub async fn opened(&self) -> Result<Server> {
        match &self.typed {
            Some(typed) => self.with(Arc::new(password(typed.bytes()))),
            None => self.with(self.place()?.credentials().await?),
        }
    }

    fn with(&self, credentials: Arc<dyn Credentials>) -> Result<Server> {
        let place = self.place()?;
        match &self.certificate {
            Some(trusted) => place.trusting(Trust::pinning(trusted.pem().as_bytes())?, credentials),
            None => place.with(credentials),
        }
    }

    /// The server was not reached: prompts for it again, unless an option names it.
    ///
    /// # Errors
    /// The error, if it was not, or too often.
    pub fn is_unreached(&mut self, error: anyhow::Error, prompter: &mut impl Prompter) -> Result<()> {
        self.unreached += 1;
        if self.options.host.is_some() || self.unreached == ATTEMPTS {
            return Err(error);
        }
        prompter.show(&format!("sealpost: {}", text(&error)));
        let answer = answer_or_default(prompter, "IMAP server", self.server.host.as_deref())?;
        if self.server.host.as_ref() != Some(&answer) {
            // Another one's certificate is another one.
            (self.server.host, self.certificate) = (Some(answer), None);
        }
        Ok(())
    }

    /// The server's certificate is not trusted: prompts whether to trust it, or which authority.
    ///
    /// # Errors
    /// The error, if it is not trusted.
    pub fn is_untrusted(
        &mut self,
        error: anyhow::Error,
        shown: ShownCertificate,
        prompter: &mut impl Prompter,
    ) -> Result<()> {
        self.unreached += 1;
        if !prompter.is_interactive() || self.unreached == ATTEMPTS {
            return Err(error);
        }
        prompter.show(&format!(
            "sealpost: {}\nThe SHA-256 fingerprint of the certificate, to compare with the one from the \
             server's operator:\n{}",
            text(&error),
            shown.fingerprint()
        ));
        for _ in 0..ATTEMPTS {
            match &*prompter.line(
                "Trust this certificate for this account? (yes, no, or a PEM file with the issuer's) [no]: ",
            )? {
                "" | "n" | "no" => break,
                "y" | "yes" => {
                    self.certificate = Some(shown);
                    return Ok(());
                }
                file => match Trust::file(Path::new(file)) {
                    Ok(_) => {
                        self.server.ca = Some(file.into());
                        return Ok(());
                    }
                    Err(e) => prompter.show(&format!("sealpost: {}", text(&e.into()))),
                },
            }
        }
        Err(error)
    }

    /// The login failed. Prompts for its parts again if the server refused it; if the server was
    /// not reached any more, whether to continue.
    ///
    /// # Errors
    /// The error, if nothing was answered, or too often.
    pub fn is_refused(&mut self, error: anyhow::Error, prompter: &mut impl Prompter) -> Result<()> {
        if !error.chain().any(|e| e.downcast_ref::<Error>().is_some_and(|e| e.kind() == Kind::Denied)) {
            return self.is_unreached(error, prompter);
        }
        self.refused += 1;
        if !(self.options.user.is_none() || self.is_opened_by_answer()) || self.refused == ATTEMPTS {
            return Err(error);
        }
        prompter.show(&format!("sealpost: {}", text(&error)));
        Ok(())
    }

    fn is_opened_by_answer(&self) -> bool {
        self.options.password_file.is_none() && self.options.token_command.is_none()
    }
}

/// The folders to copy; those of `rarely` are seldom useful.
///
/// # Errors
/// If there is no answer, or never one with an existing folder.
pub fn folders(prompter: &mut impl Prompter, names: &[String], rarely: &[String]) -> Result<FolderArgs> {
    let example = rarely.iter().map(|name| format!("-{name}")).collect::<Vec<_>>().join(", ");
    let example = if example.is_empty() { "-Junk".to_owned() } else { example };
    prompter.show("Folders to back up: Enter for all, `INBOX, Work/*` for these, `-Junk` for all but this.");
    let mut attempt = 1;
    loop {
        let chosen = parse(&prompter.line(&format!("Folders (most people: {example}): "))?);
        let all = FolderArgs { only: [&*chosen.only, &chosen.exclude].concat(), exclude: vec![] };
        let checked = check(&all, names.iter().map(String::as_str)).and_then(|()| {
            let some = names.iter().any(|name| chosen.wants(name));
            some.then_some(()).ok_or_else(|| Error::not_found("no folder is left"))
        });
        match checked {
            Ok(()) => return Ok(chosen),
            Err(e) if attempt == ATTEMPTS => return Err(e.into()),
            Err(e) => prompter.show(&format!("sealpost: {e}")),
        }
        attempt += 1;
    }
}

/// Globs, separated by commas; those that are left out with a minus.
fn parse(answer: &str) -> FolderArgs {
    let mut chosen = FolderArgs::default();
    for part in answer.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            Some(left_out) => chosen.exclude.push(left_out.trim().to_owned()),
            None => chosen.only.push(part.to_owned()),
        }
    }
    chosen
}

/// An answer; if it is empty, `before` if there is one.
fn answer_or_default(prompter: &mut impl Prompter, question: &str, before: Option<&str>) -> Result<String> {
    let default = before.map_or_else(String::new, |before| format!(" [{before}]"));
    for _ in 0..ATTEMPTS {
        match (prompter.line(&format!("{question}{default}: "))?, before) {
            (answer, Some(before)) if answer.is_empty() => return Ok(before.to_owned()),
            (answer, _) if !answer.is_empty() => return Ok(answer),
            _ => {}
        }
    }
    Err(Usage(format!("{question}: no answer; the account is not remembered")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A person who types these lines in their order.
    struct Script {
        answers: Vec<&'static str>,
        asked: Vec<String>,
        told: Vec<String>,
    }

    impl Script {
        fn new(answers: &[&'static str]) -> Self {
            Script { answers: answers.iter().rev().copied().collect(), asked: vec![], told: vec![] }
        }
    }

    impl Prompter for Script {
        fn is_interactive(&self) -> bool {
            true
        }

        fn line(&mut self, question: &str) -> Result<String> {
            self.asked.push(question.to_owned());
            self.answers.pop().map(str::to_owned).context("nobody answers")
        }

        async fn secret(&mut self, question: String) -> Result<Option<Secret>> {
            let answer = self.line(&question)?;
            (!answer.is_empty()).then(|| Ok(Secret::new(answer.as_bytes())?)).transpose()
        }

        fn show(&mut self, text: &str) {
            self.told.push(text.to_owned());
        }
    }

    fn options(host: Option<&str>, user: Option<&str>) -> ServerArgs {
        ServerArgs { host: host.map(str::to_owned), user: user.map(str::to_owned), ..ServerArgs::default() }
    }

    fn denied() -> anyhow::Error {
        Error::denied("the login was refused").into()
    }

    async fn asked(login: &mut Login, prompter: &mut Script) -> Result<SourceServer> {
        login.ask_server(prompter)?;
        login.ask_login(prompter).await?;
        login.place()
    }

    #[tokio::test]
    async fn missing_answers_are_prompted() {
        let mut prompter = Script::new(&["", "imap.example.org:1143", "jane", "secret"]);
        let mut login = Login::new(&options(None, None));
        let place = asked(&mut login, &mut prompter).await.unwrap();
        assert_eq!((&*place.host, place.port, &*place.user), ("imap.example.org", 1143, "jane"));
        assert_eq!(login.typed.as_ref().unwrap().bytes(), b"secret");
        assert!(login.is_interactive());
        // Only what is missing.
        let mut prompter = Script::new(&["h", "", "print-token"]);
        let mut login = Login::new(&options(None, Some("jane")));
        let place = asked(&mut login, &mut prompter).await.unwrap();
        assert_eq!((&*place.user, place.token_command.as_deref()), ("jane", Some("print-token")));
        assert!(login.typed.is_none() && prompter.asked.len() == 3, "{:?}", prompter.asked);
        let all = ServerArgs { token_command: Some("t".into()), ..options(Some("h"), Some("u")) };
        let mut login = Login::new(&all);
        assert!(!login.is_interactive() && asked(&mut login, &mut Script::new(&[])).await.is_ok());
        // No answers.
        let mut login = Login::new(&options(None, None));
        assert!(asked(&mut login, &mut Script::new(&["", "", "", "", "", "h"])).await.is_err());
    }

    #[tokio::test]
    async fn answers_are_kept_and_the_default_the_next_time() {
        let mut prompter = Script::new(&["h", "jane", "wrong", "", "wrong too", "joan", "right"]);
        let mut login = Login::new(&options(None, None));
        asked(&mut login, &mut prompter).await.unwrap();
        for _ in 0..2 {
            login.is_refused(denied(), &mut prompter).unwrap();
            login.ask_login(&mut prompter).await.unwrap();
        }
        assert_eq!(prompter.told, ["sealpost: the login was refused"; 2]);
        let place = login.place().unwrap();
        assert_eq!((&*place.host, &*place.user), ("h", "joan"));
        assert_eq!(login.typed.as_ref().unwrap().bytes(), b"right");
        assert_eq!(prompter.asked[3], "User [jane]: ");
        assert!(
            prompter.asked[4].starts_with("Password of jane at h") && prompter.asked[5] == "User [jane]: ",
            "{:?}",
            prompter.asked
        );
        // Not for ever.
        let mut left = 0;
        while login.is_refused(denied(), &mut prompter).is_ok() {
            left += 1;
        }
        assert_eq!(left, ATTEMPTS - 3);
        // A command instead, and one that is typed again.
        let mut prompter = Script::new(&["", "print", "", "", "pw"]);
        let mut login = Login::new(&options(Some("h"), Some("jane")));
        for answered in [Some("print"), Some("print"), None] {
            login.ask_login(&mut prompter).await.unwrap();
            assert_eq!(login.place().unwrap().token_command.as_deref(), answered);
        }
        assert_eq!(prompter.asked[3], "Command that prints the token [print]: ");
        // The line is no valid answer.
        let all = ServerArgs { token_command: Some("t".into()), ..options(Some("h"), Some("u")) };
        assert!(Login::new(&all).is_refused(denied(), &mut prompter).is_err());
    }

    #[tokio::test]
    async fn only_the_server_is_prompted_again_after_a_failed_connection() {
        let unreached = || anyhow::Error::from(Error::retry("nobody is there"));
        let mut prompter = Script::new(&["h", "other", "", "jane", "pw", ""]);
        let mut login = Login::new(&options(None, None));
        login.ask_server(&mut prompter).unwrap();
        for host in ["other", "other"] {
            login.is_unreached(unreached(), &mut prompter).unwrap();
            assert_eq!(login.place().unwrap().host, host);
        }
        assert_eq!(prompter.asked, ["IMAP server: ", "IMAP server [h]: ", "IMAP server [other]: "]);
        login.ask_login(&mut prompter).await.unwrap();
        // The server disappeared during the login.
        login.is_refused(unreached(), &mut prompter).unwrap();
        assert_eq!((login.typed.as_ref().unwrap().bytes(), prompter.answers.len()), (&b"pw"[..], 0));
        let mut login = Login::new(&options(Some("h"), None));
        assert!(login.is_unreached(unreached(), &mut prompter).is_err(), "an option names it");
    }

    #[test]
    fn folders_are_chosen_until_there_are_some() {
        let names = ["INBOX", "Work/a", "Work/b", "Junk"].map(str::to_owned);
        let choose = |answers: &[&'static str]| {
            let mut prompter = Script::new(answers);
            let chosen = folders(&mut prompter, &names, &["Junk".to_owned()]);
            (chosen.map(|c| (c.only, c.exclude)), prompter)
        };
        let strings = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert_eq!(choose(&[""]).0.unwrap(), (vec![], vec![]));
        assert_eq!(choose(&["-Junk"]).0.unwrap(), (vec![], strings(&["Junk"])));
        let (chosen, prompter) = choose(&["Wrok/*", "-*", "inbox, Work/*, -Work/b"]);
        assert_eq!(chosen.unwrap(), (strings(&["inbox", "Work/*"]), strings(&["Work/b"])));
        assert!(
            prompter.told[1].contains("no folder matches") && prompter.told[2].contains("no folder"),
            "{:?}",
            prompter.told
        );
        assert!(prompter.asked[0].contains("-Junk"));
        assert!(choose(&["x", "y", "z", "x", "y", ""]).0.is_err());
    }
}
