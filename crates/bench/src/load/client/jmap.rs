//! A JMAP client (RFC 8620, RFC 8621) over HTTP/1.1: one connection, one request at a time.
//!
//! It finds the Session object at `/.well-known/jmap`, logs in with Basic authentication, and sends
//! the requests of the scenario. Of responses it keeps what later requests name: the bench's
//! mailboxes, one email with its thread, a state. A request counts as an error if any of its calls
//! does. Every failure is counted here, under the name of its request.

mod answer;
mod events;
mod http;
mod mailboxes;
mod session;

use std::rc::Rc;
use std::time::Duration;

use hyper::Method;
use sealpost_jmap::capability::Capability;
use serde_json::Value;
use tokio::time::timeout;

use super::{Client, Fail, OpenCount, count};
use crate::load::protocol::Protocol;
use crate::load::scenario::template::Template;
use crate::load::scenario::{Action, Piece, Request, Step};
use crate::mail::base64_line;
use crate::words;
use answer::{Answer, Refusal};
use http::{Http, Outgoing, Received};
use mailboxes::Mailboxes;
use session::Session;

/// A client with its connection.
pub struct Jmap {
    client: Rc<Client>,
    http: Http,
    session: Session,
    mailboxes: Mailboxes,
    known: Known,
    /// The first message that APPEND took from its data set.
    first_appended: Option<u64>,
    /// Deliveries in a row without a notification.
    missed: u32,
    small: bool,
    _open: OpenCount,
}

/// What the client remembers of responses.
#[derive(Debug, Default)]
struct Known {
    email: Option<String>,
    thread: Option<String>,
    state: Option<String>,
    identity: Option<String>,
}

/// Why a request did not succeed.
enum Wrong {
    /// The connection is unusable.
    Failed(Fail),
    /// The server refused; the connection remains usable.
    Refused(Refusal),
}

impl From<Fail> for Wrong {
    fn from(fail: Fail) -> Self {
        Wrong::Failed(fail)
    }
}

impl From<Refusal> for Wrong {
    fn from(refusal: Refusal) -> Self {
        Wrong::Refused(refusal)
    }
}

impl Jmap {
    /// Connects and reads the Session object; CONNECT counts both. `small`: the connection will receive events.
    ///
    /// # Errors
    /// If the server is not there, refuses the login, or has no mail.
    pub async fn connect(client: &Rc<Client>, small: bool, from: Duration) -> Result<Self, Fail> {
        let thread = client.thread.clone();
        let command_timeout = thread.shared.command_timeout;
        let mut http = timeout(command_timeout, opened(client, small)).await.map_err(|_| Fail::Timeout)??;
        let opened = thread.now();
        let session =
            timeout(command_timeout, Session::find(&mut http)).await.map_err(|_| Fail::Timeout)??;
        let jmap = Jmap {
            client: client.clone(),
            http,
            session,
            mailboxes: Mailboxes::default(),
            known: Known::default(),
            first_appended: None,
            missed: 0,
            small,
            _open: OpenCount::new(&client.thread),
        };
        let (sent, received) = jmap.count_traffic();
        thread.ok("CONNECT", from, 0, 0);
        thread.ok("Session", opened, sent, received);
        Ok(jmap)
    }

    /// How many emails the mailbox has that `step` is about.
    ///
    /// # Errors
    /// If the connection is lost.
    pub async fn exists(&mut self, step: &Step) -> Result<u32, Fail> {
        let mailbox = step.actions.iter().flat_map(Action::templates).next();
        let name = mailbox.map(|template| self.below_root(template)).unwrap_or_default();
        if self.mailboxes.total(&name).is_none() {
            let found = self.find_mailboxes().await;
            self.counted("Mailbox/get", found)?;
        }
        Ok(self.mailboxes.total(&name).map_or(0, |total| u32::try_from(total).unwrap_or(u32::MAX)))
    }

    /// Does what `step` asks for, once. The first action counts from `from`.
    ///
    /// # Errors
    /// If the connection is unusable.
    pub async fn step(&mut self, step: &Step, names: &[Rc<str>], from: Duration) -> Result<(), Fail> {
        let mut first = Some(from);
        for (action, name) in step.actions.iter().zip(names) {
            let from = first.take().unwrap_or_else(|| self.client.thread.now());
            self.reopen(from).await?;
            let done = match action {
                Action::Request(request) => self.request(request, name, step, from).await,
                Action::Append { mailbox, data, flags } => {
                    self.append((mailbox, data, flags), name, step, from).await
                }
                Action::Events => self.events(name, from).await,
                Action::Fill(fill) => self.fill(fill).await.map(|()| self.client.thread.ok(name, from, 0, 0)),
                Action::Clean => self.clean().await.map(|()| self.client.thread.ok(name, from, 0, 0)),
                Action::Wait(pause) => {
                    let pause = pause.draw(&self.client.random);
                    self.client.pause(self.client.within_phase(pause)).await?;
                    Ok(())
                }
                // The others are not of JMAP.
                _ => Ok(()),
            };
            self.count_traffic();
            self.counted(name, done)?;
        }
        Ok(())
    }

    /// Connects again if the server closed the connection between two requests, which it may
    /// (RFC 9112 §9.5).
    async fn reopen(&mut self, from: Duration) -> Result<(), Fail> {
        if !self.http.is_closed() {
            return Ok(());
        }
        let command_timeout = self.client.thread.shared.command_timeout;
        let opened = timeout(command_timeout, opened(&self.client, self.small)).await;
        let opened = opened.unwrap_or(Err(Fail::Timeout)).map_err(Wrong::Failed);
        match opened {
            Ok(http) => {
                self.http = http;
                self.client.thread.ok("CONNECT", from, 0, 0);
                Ok(())
            }
            Err(wrong) => self.counted("CONNECT", Err(wrong)),
        }
    }

    /// Counts what went wrong, if anything did.
    fn counted(&self, name: &str, done: Result<(), Wrong>) -> Result<(), Fail> {
        match done {
            Ok(()) => Ok(()),
            Err(Wrong::Refused(refusal)) => {
                self.client.thread.error(name, &refusal.kind, || refusal.example);
                Ok(())
            }
            // Each delivery without a notification was counted already.
            Err(Wrong::Failed(fail @ (Fail::NotNotified | Fail::Stopped))) => Err(fail),
            Err(Wrong::Failed(fail)) => {
                self.client.thread.error(name, fail.kind(), || fail.to_string());
                Err(fail)
            }
        }
    }

    async fn request(
        &mut self,
        request: &Request,
        name: &str,
        step: &Step,
        from: Duration,
    ) -> Result<(), Wrong> {
        let thread = self.client.thread.clone();
        let needs = request.needs();
        if let Some(missing) = needs.iter().find(|name| !self.session.announces(name)) {
            thread.leave_out(name, missing);
            // A round may consist of this alone.
            tokio::task::yield_now().await;
            return Ok(());
        }
        let mailboxes: Vec<String> = request.mailboxes().map(|mailbox| self.below_root(mailbox)).collect();
        if mailboxes.iter().any(|name| self.mailboxes.id(name).is_none()) {
            self.find_mailboxes().await?;
            self.count_traffic();
        }
        let calls = self.rendered(request)?;
        let body = format!("{{\"using\":{},\"methodCalls\":{calls}}}", Value::from_iter(needs));
        let answer = self.answer(body, request.methods()).await?;
        self.learn(request, &answer);
        if let Some(expect) = &step.expect {
            let found = answer.objects(&expect.word) as u64;
            if found != expect.count {
                let why = format!("{found} {}, not {}", expect.word, expect.count);
                return Err(Refusal::wrong(why).into());
            }
        }
        let (sent, received) = self.count_traffic();
        thread.ok(name, from, sent, received);
        Ok(())
    }

    /// Calls one method of mail; not counted.
    async fn query(&mut self, method: &str, mut arguments: Value) -> Result<Answer, Wrong> {
        arguments["accountId"] = Value::from(self.session.account.clone());
        let body = serde_json::json!({
            "using": [Capability::Core.name(), Capability::Mail.name()],
            "methodCalls": [[method, arguments, "0"]],
        });
        self.answer(body.to_string(), &[method.to_owned()]).await
    }

    async fn answer(&mut self, body: String, methods: &[String]) -> Result<Answer, Wrong> {
        let path = self.session.api_url.clone();
        let outgoing = Outgoing {
            method: Method::POST,
            path: &path,
            accept: "application/json",
            body: Some(("application/json", body.into())),
        };
        let received = self.exchange(outgoing).await?;
        if received.status != 200 {
            return Err(Refusal::of_status(received.status, &received.body).into());
        }
        Ok(Answer::parse(&received.body, methods)?)
    }

    async fn exchange(&mut self, outgoing: Outgoing<'_>) -> Result<Received, Fail> {
        let command_timeout = self.client.thread.shared.command_timeout;
        timeout(command_timeout, self.http.exchange(outgoing)).await.map_err(|_| Fail::Timeout)?
    }

    /// Adds the bytes since the last call to the run's; returns them.
    fn count_traffic(&self) -> (u64, u64) {
        let (sent, received) = self.http.traffic();
        count(&self.client.thread.shared.sent, sent);
        count(&self.client.thread.shared.received, received);
        (sent, received)
    }

    fn below_root(&self, mailbox: &Template) -> String {
        mailbox.below_root(&self.client.values(0, 0))
    }

    /// The calls with everything filled in.
    fn rendered(&self, request: &Request) -> Result<String, Refusal> {
        let mut text = String::new();
        for piece in request.pieces() {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Mailbox(mailbox) => {
                    let name = self.below_root(mailbox);
                    let missing = || Refusal::wrong(format!("there is no {{Bench/{name}}}: FILL makes it"));
                    text.push_str(&escaped(self.mailboxes.id(&name).ok_or_else(missing)?));
                }
                Piece::Value(name) => text.push_str(&escaped(&self.value(name)?)),
            }
        }
        Ok(text)
    }

    fn value(&self, name: &str) -> Result<String, Refusal> {
        let (client, known) = (&self.client, &self.known);
        let (first, last) = client.batch.get();
        let unknown =
            |source: &str| Refusal::wrong(format!("{{{name}}} is not known yet: {source} tells it"));
        let learnt = |value: &Option<String>, source| value.clone().ok_or_else(|| unknown(source));
        Ok(match name {
            "account" => self.session.account.clone(),
            "email" => learnt(&known.email, "Email/query in {Bench/…}")?,
            "thread" => learnt(&known.thread, "Email/get of threadId with an Email/query")?,
            "state" => learnt(&known.state, "Email/get")?,
            "identity" => learnt(&known.identity, "Identity/get")?,
            "position" => first.saturating_sub(1).to_string(),
            "limit" => (1 + last.saturating_sub(first)).to_string(),
            "user" => client.user().to_owned(),
            "connection" => (client.connection + 1).to_string(),
            "round" => (client.round.get() + 1).to_string(),
            "word" => words::frequent(client.random.below(u64::from(u32::MAX)) as u32).to_owned(),
            "rare" => words::RARE.to_owned(),
            _ => return Err(Refusal::wrong(format!("there is no {{{name}}}"))),
        })
    }

    /// Remembers what later requests name.
    fn learn(&mut self, request: &Request, answer: &Answer) {
        let known = &mut self.known;
        if let Some(identity) = answer.of("Identity/get").and_then(|get| get.list.first()) {
            known.identity.clone_from(&identity.id);
        }
        if answer.of("Mailbox/get").is_some_and(|get| get.list.iter().any(|mailbox| mailbox.name.is_some())) {
            self.mailboxes = Mailboxes::of(answer);
        }
        let got = answer.of("Email/get");
        // Between the two an email may change: then it is the older state that the client continues with.
        if let Some(changes) = answer.of("Email/changes") {
            known.state.clone_from(&changes.new_state);
        } else if known.state.is_none() {
            known.state = got.and_then(|get| get.state.clone());
        }
        let found = answer.of("Email/query").filter(|query| request.picks_email() && !query.ids.is_empty());
        if let Some(query) = found {
            let id = &query.ids[self.client.random.below(query.ids.len() as u64) as usize];
            let of = got.and_then(|get| get.list.iter().find(|email| email.id.as_ref() == Some(id)));
            known.thread = of.and_then(|email| email.thread_id.clone());
            known.email = Some(id.clone());
        }
    }
}

async fn opened(client: &Rc<Client>, small: bool) -> Result<Http, Fail> {
    let shared = &client.thread.shared;
    let endpoint = shared.target.endpoint(Protocol::Jmap);
    let endpoint = endpoint.ok_or_else(|| Fail::Protocol("no jmap server is known".into()))?;
    let user = shared.target.users.get(client.account);
    let user = user.ok_or_else(|| Fail::Denied("no account was given".into()))?;
    let secret = base64_line(format!("{}:{}", user.name, user.password).as_bytes());
    Http::connect(endpoint, &format!("Basic {secret}"), small).await
}

/// A value within a JSON string.
fn escaped(value: &str) -> String {
    let quoted = Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
