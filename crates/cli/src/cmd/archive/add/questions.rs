//! What `archive add` asks at a terminal: host, user, what opens the account, and folders. What a person answers is asked again
//! if it is no good.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;

use anyhow::{Context, Result};
use sealpost_account::directory::Secret;
use sealpost_archive::client::Server;
use sealpost_base::{Error, Kind};

use super::super::folders::{FolderArgs, check};
use super::super::server::{Place, ServerArgs, password};
use crate::exit::Usage;
use crate::output::{text, warn};
use crate::secret;

/// Answers that are tried before it is given up.
const ATTEMPTS: usize = 3;

/// Who answers.
pub trait Answers {
    /// The line that is said to a question; empty if nothing is said.
    fn line(&mut self, question: &str) -> Result<String>;
    /// A secret, which is not shown; `None` if nothing is said.
    async fn secret(&mut self, question: String) -> Result<Option<Secret>>;
    /// Says something.
    fn tell(&mut self, text: &str);
}

/// A person at the terminal.
pub struct Terminal;

impl Answers for Terminal {
    fn line(&mut self, question: &str) -> Result<String> {
        if !std::io::stdin().is_terminal() {
            let missing =
                "there is no terminal to ask at: name --host, --user and --password-file or --token-command";
            return Err(Usage(missing.into()).into());
        }
        let mut out = std::io::stderr().lock();
        write!(out, "{question}")?;
        out.flush()?;
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line).context("the answer")? == 0 {
            return Err(Usage("nothing was said, and nothing is remembered".into()).into());
        }
        Ok(line.trim().to_owned())
    }

    async fn secret(&mut self, question: String) -> Result<Option<Secret>> {
        secret::ask_if_any(question, secret::PASSWORD_FILE).await
    }

    fn tell(&mut self, text: &str) {
        warn(text);
    }
}

/// A server and what opens the account there, as far as they are said; what is not is asked.
pub struct Login {
    said: ServerArgs,
    /// Said or answered.
    server: ServerArgs,
    /// The password that was typed.
    pub typed: Option<Secret>,
    attempts: usize,
}

impl Login {
    /// What is said.
    pub fn new(said: &ServerArgs) -> Self {
        Login { said: said.clone(), server: said.clone(), typed: None, attempts: 1 }
    }

    /// Whether anything is answered by a person.
    pub fn is_asked(&self) -> bool {
        self.said.host.is_none() || self.said.user.is_none() || self.is_opened_by_answer()
    }

    /// Asks for everything that is not known yet.
    ///
    /// # Errors
    /// If nobody answers.
    pub async fn ask(&mut self, who: &mut impl Answers) -> Result<Place> {
        if self.server.host.is_none() {
            self.server.host = Some(something(who, "IMAP server")?);
        }
        if self.server.user.is_none() {
            self.server.user = Some(something(who, "User")?);
        }
        let place = self.server.place()?.context("a host was said")?;
        if self.typed.is_none() && place.password_file.is_none() && place.token_command.is_none() {
            let question = format!(
                "Password of {} at {} (nothing: a command prints an OAuth 2.0 token)",
                place.user, place.host
            );
            self.typed = who.secret(question).await?;
            if self.typed.is_none() {
                self.server.token_command = Some(something(who, "Command that prints the token")?);
            }
        }
        self.server.place()?.context("a host was said")
    }

    /// The server, opened so.
    ///
    /// # Errors
    /// If the password or the certificates cannot be read.
    pub async fn at(&self, place: &Place) -> Result<Server> {
        match &self.typed {
            Some(typed) => place.with(Arc::new(password(typed.bytes()))),
            None => place.server().await,
        }
    }

    /// Forgets the answers that may have led to an error, which is told, so that they are asked for again.
    ///
    /// # Errors
    /// The error, if no answer led to it, or too many did.
    pub fn forget(&mut self, error: anyhow::Error, who: &mut impl Answers) -> Result<()> {
        let refused =
            error.chain().any(|e| e.downcast_ref::<Error>().is_some_and(|e| e.kind() == Kind::Denied));
        let asked = if refused {
            self.said.user.is_none() || self.is_opened_by_answer()
        } else {
            self.said.host.is_none()
        };
        if !asked || self.attempts == ATTEMPTS {
            return Err(error);
        }
        self.attempts += 1;
        who.tell(&format!("sealpost: {}", text(&error)));
        if refused {
            self.server.user.clone_from(&self.said.user);
            self.server.token_command.clone_from(&self.said.token_command);
            self.typed = None;
        } else {
            self.server.host = None;
        }
        Ok(())
    }

    fn is_opened_by_answer(&self) -> bool {
        self.said.password_file.is_none() && self.said.token_command.is_none()
    }
}

/// Which of the folders, of which those of `rarely` are seldom wanted.
///
/// # Errors
/// If nobody answers, or never with a folder that there is.
pub fn folders(who: &mut impl Answers, names: &[String], rarely: &[String]) -> Result<FolderArgs> {
    let example = rarely.iter().map(|name| format!("-{name}")).collect::<Vec<_>>().join(", ");
    let example = if example.is_empty() { "-Junk".to_owned() } else { example };
    who.tell("Which folders? Enter: all. `INBOX, Work/*`: these. `-Junk`: all but this.");
    let mut attempt = 1;
    loop {
        let chosen = parse(&who.line(&format!("Folders (most people: {example}): "))?);
        let all = FolderArgs { only: [&*chosen.only, &chosen.exclude].concat(), exclude: vec![] };
        let checked = check(&all, names.iter().map(String::as_str)).and_then(|()| {
            let some = names.iter().any(|name| chosen.wants(name));
            some.then_some(()).ok_or_else(|| Error::not_found("that leaves no folder"))
        });
        match checked {
            Ok(()) => return Ok(chosen),
            Err(e) if attempt == ATTEMPTS => return Err(e.into()),
            Err(e) => who.tell(&format!("sealpost: {e}")),
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

fn something(who: &mut impl Answers, question: &str) -> Result<String> {
    for _ in 0..ATTEMPTS {
        let answer = who.line(&format!("{question}: "))?;
        if !answer.is_empty() {
            return Ok(answer);
        }
    }
    Err(Usage(format!("{question}: nothing was said, and nothing is remembered")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody who says these things in their order.
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

    impl Answers for Script {
        fn line(&mut self, question: &str) -> Result<String> {
            self.asked.push(question.to_owned());
            self.answers.pop().map(str::to_owned).context("nobody answers")
        }

        async fn secret(&mut self, question: String) -> Result<Option<Secret>> {
            let answer = self.line(&question)?;
            (!answer.is_empty()).then(|| Ok(Secret::new(answer.as_bytes())?)).transpose()
        }

        fn tell(&mut self, text: &str) {
            self.told.push(text.to_owned());
        }
    }

    fn said(host: Option<&str>, user: Option<&str>) -> ServerArgs {
        ServerArgs { host: host.map(str::to_owned), user: user.map(str::to_owned), ..ServerArgs::default() }
    }

    fn denied() -> anyhow::Error {
        Error::denied("the login was refused").into()
    }

    #[tokio::test]
    async fn what_is_not_said_is_asked() {
        let mut who = Script::new(&["", "imap.example.org:1143", "jane", "secret"]);
        let mut login = Login::new(&said(None, None));
        let place = login.ask(&mut who).await.unwrap();
        assert_eq!((&*place.host, place.port, &*place.user), ("imap.example.org", 1143, "jane"));
        assert_eq!(login.typed.as_ref().unwrap().bytes(), b"secret");
        assert!(login.is_asked());
        // Only what is missing.
        let mut who = Script::new(&["h", "", "print-token"]);
        let mut login = Login::new(&said(None, Some("jane")));
        let place = login.ask(&mut who).await.unwrap();
        assert_eq!((&*place.user, place.token_command.as_deref()), ("jane", Some("print-token")));
        assert!(login.typed.is_none() && who.asked.len() == 3, "{:?}", who.asked);
        let all = ServerArgs { token_command: Some("t".into()), ..said(Some("h"), Some("u")) };
        let mut login = Login::new(&all);
        assert!(!login.is_asked() && login.ask(&mut Script::new(&[])).await.is_ok());
        // Nobody says anything.
        let mut login = Login::new(&said(None, None));
        assert!(login.ask(&mut Script::new(&["", "", "", "h"])).await.is_err());
    }

    #[tokio::test]
    async fn answers_that_were_no_good_are_asked_for_again() {
        let mut who = Script::new(&["h", "jane", "wrong", "joan", "right"]);
        let mut login = Login::new(&said(None, None));
        login.ask(&mut who).await.unwrap();
        login.forget(denied(), &mut who).unwrap();
        assert_eq!(who.told, ["sealpost: the login was refused"]);
        let place = login.ask(&mut who).await.unwrap();
        assert_eq!((&*place.host, &*place.user), ("h", "joan"));
        assert_eq!(login.typed.as_ref().unwrap().bytes(), b"right");
        // A host that is not there: user and password stay.
        let mut who = Script::new(&["h", "pw", "other", "third"]);
        let mut login = Login::new(&said(None, Some("jane")));
        login.ask(&mut who).await.unwrap();
        for host in ["other", "third"] {
            login.forget(Error::retry("nobody is there").into(), &mut who).unwrap();
            assert_eq!(login.ask(&mut who).await.unwrap().host, host);
        }
        assert!(login.forget(Error::retry("nobody is there").into(), &mut who).is_err(), "the third time");
        // What was said is no answer.
        let mut who = Script::new(&["pw"]);
        let mut login = Login::new(&said(Some("h"), Some("jane")));
        login.ask(&mut who).await.unwrap();
        assert!(login.forget(Error::retry("nobody is there").into(), &mut who).is_err());
        login.forget(denied(), &mut who).unwrap();
        let all = ServerArgs { token_command: Some("t".into()), ..said(Some("h"), Some("u")) };
        assert!(Login::new(&all).forget(denied(), &mut who).is_err());
    }

    #[test]
    fn folders_are_chosen_until_there_are_some() {
        let names = ["INBOX", "Work/a", "Work/b", "Junk"].map(str::to_owned);
        let choose = |answers: &[&'static str]| {
            let mut who = Script::new(answers);
            let chosen = folders(&mut who, &names, &["Junk".to_owned()]);
            (chosen.map(|c| (c.only, c.exclude)), who)
        };
        let strings = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert_eq!(choose(&[""]).0.unwrap(), (vec![], vec![]));
        assert_eq!(choose(&["-Junk"]).0.unwrap(), (vec![], strings(&["Junk"])));
        let (chosen, who) = choose(&["Wrok/*", "-*", "inbox, Work/*, -Work/b"]);
        assert_eq!(chosen.unwrap(), (strings(&["inbox", "Work/*"]), strings(&["Work/b"])));
        assert!(
            who.told[1].contains("no folder matches") && who.told[2].contains("no folder"),
            "{:?}",
            who.told
        );
        assert!(who.asked[0].contains("-Junk"));
        assert!(choose(&["x", "y", "z", ""]).0.is_err());
    }
}
