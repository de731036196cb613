//! Every command but RCPT, DATA and BDAT.

use std::pin::pin;
use std::sync::Arc;

use sealpost_queue::retry::MAX_HOLD;
use sealpost_smtp::types::{Body, Command, Hello, Mail, Misuse, Reply, ReversePath, Verb};
use sealpost_smtp::write::date_time;

use super::Service;
use super::connection::End;
use super::replies;
use super::session::Session;
use super::submitting::{self, Sender};
use super::transaction::Transaction;
use sealpost_auth::fair_scheduler;
use sealpost_session::metrics::Verdict;

impl Session {
    pub(super) async fn command(&mut self, command: Command) -> Result<(), End> {
        // RFC 2920 §3.2 (2): replies to these may leave together; (5) "MUST NOT buffer responses to
        // EHLO, DATA, VRFY, EXPN, TURN, QUIT, and NOOP". BDAT is answered after its bytes.
        let together =
            matches!(command, Command::Mail(_) | Command::Rcpt(_) | Command::Rset | Command::Bdat(_));
        // A chunk is measured once it is there.
        if !matches!(command, Command::Bdat(_)) {
            self.log.begin_command(command.name());
        }
        match command {
            Command::Hello(hello) => self.hello(hello),
            Command::Mail(mail) => self.mail(mail).await?,
            Command::Rcpt(rcpt) => {
                // Whoever names recipients without end, on a thousand connections, leaves
                // processors to others.
                let queue = self.shared.recipients.clone();
                fair_scheduler::run(&queue, pin!(self.rcpt(rcpt))).await;
            }
            Command::Data => self.data(),
            Command::Bdat(chunk) => self.bdat(chunk),
            Command::Rset => self.rset(),
            Command::Noop => self.reply(replies::ok("Ok")),
            Command::Quit => {
                self.log.end_command(Verdict::Ok);
                return Err(End::Quit);
            }
            Command::Vrfy(_) => self.reply(replies::cannot_verify()),
            // RFC 5321 §7.3: whom a list reaches is nobody else's business.
            Command::Expn(_) => self.refuse(replies::not_implemented()),
            Command::Help(_) => self.reply(help(self.service)),
            Command::StartTls => self.start_tls().await?,
            Command::Auth(auth) => self.auth(auth).await?,
            // Not offered.
            Command::Burl(_) => self.refuse(replies::not_implemented()),
        }
        if together { Ok(()) } else { self.flush().await }
    }

    /// EHLO, HELO, LHLO. The wrong one leaves everything as it was (RFC 5321 §4.1.4).
    fn hello(&mut self, hello: Hello) {
        match (self.is_lmtp(), hello.verb) {
            (true, Verb::Ehlo | Verb::Helo) => {
                return self.refuse(replies::wrong_protocol("This is LMTP: say LHLO"));
            }
            (false, Verb::Lhlo) => return self.refuse(replies::wrong_protocol("This is SMTP: say EHLO")),
            _ => {}
        }
        let reply = match hello.verb {
            Verb::Helo => Reply::new(250, self.shared.ctx.hostname.clone()),
            Verb::Ehlo | Verb::Lhlo => self.extensions(),
        };
        self.log.client(&hello.name.to_string());
        self.transaction = None;
        self.hello = Some(hello);
        self.reply(reply);
    }

    fn extensions(&self) -> Reply {
        let is_tls = self.connection.stream().is_some_and(|stream| stream.is_tls());
        let mut reply = Reply::new(250, self.shared.ctx.hostname.clone())
            .with_line("PIPELINING")
            .with_line(format!("SIZE {}", self.shared.ctx.settings.message_size));
        // RFC 3207 §4.2: never offered again once TLS is spoken.
        if self.shared.ctx.tls.is_some() && !is_tls {
            reply = reply.with_line("STARTTLS");
        }
        if let Some(mechanisms) = self.mechanisms() {
            reply = reply.with_line(format!("AUTH {mechanisms}"));
        }
        reply = reply.with_line("ENHANCEDSTATUSCODES").with_line("8BITMIME");
        if self.service != Service::Submission {
            return reply
                .with_line("BINARYMIME")
                .with_line("CHUNKING")
                .with_line("SMTPUTF8")
                .with_line("HELP");
        }
        // RFC 4865 §4: the longest time, and the last moment, that a message may be held.
        let latest = date_time(self.shared.ctx.clock.now().after(MAX_HOLD).seconds());
        reply = reply
            .with_line("CHUNKING")
            .with_line("SMTPUTF8")
            .with_line("DSN")
            .with_line(format!("FUTURERELEASE {} {latest}", MAX_HOLD.as_secs()));
        // RFC 8689 §2: only over TLS.
        if is_tls {
            reply = reply.with_line("REQUIRETLS");
        }
        reply.with_line("HELP")
    }

    async fn mail(&mut self, mail: Mail) -> Result<(), End> {
        match self.begin_transaction(mail).await {
            Ok(Ok(transaction)) => {
                self.transaction = Some(transaction);
                self.reply(replies::sender_ok());
            }
            Ok(Err(reply)) => self.refuse(reply),
            Err(end) => return Err(end),
        }
        Ok(())
    }

    async fn begin_transaction(&mut self, mail: Mail) -> Result<Result<Transaction, Reply>, End> {
        let is_submission = self.service == Service::Submission;
        if self.hello.is_none() {
            let hello = if self.is_lmtp() { "Say LHLO first" } else { "Say EHLO first" };
            return Ok(Err(replies::out_of_order(hello)));
        }
        // RFC 4954 §6.
        if is_submission && self.user.is_none() {
            return Ok(Err(replies::authentication_required()));
        }
        if self.transaction.is_some() {
            return Ok(Err(replies::out_of_order("A transaction is open already; send RSET first")));
        }
        if !mail.utf8 && !mail.from.is_ascii() {
            return Ok(Err(replies::sender_needs_utf8()));
        }
        if !self.are_offered(&mail) {
            return Ok(Err(Misuse::Parameter.reply()));
        }
        let limit = self.shared.ctx.settings.message_size;
        if mail.size.is_some_and(|size| size > limit) {
            return Ok(Err(replies::too_large(limit)));
        }
        if !is_submission {
            return Ok(Ok(Transaction::new(mail, None)));
        }
        let sender = self.sender(&mail).await?;
        Ok(sender.map(|sender| Transaction::new(mail, Some(sender))))
    }

    /// Whether all parameters of MAIL were offered (RFC 5321 §4.1.1.11). AUTH of a sender that is not
    /// trusted counts as `<>` (RFC 4954 §5), as it does in any case here.
    fn are_offered(&self, mail: &Mail) -> bool {
        if self.service != Service::Submission {
            return !mail.require_tls && mail.hold.is_none();
        }
        let is_tls = self.connection.stream().is_some_and(|stream| stream.is_tls());
        // What the queue sends on may be converted to 7 bit, which binary content cannot be.
        (is_tls || !mail.require_tls) && mail.body != Some(Body::BinaryMime)
    }

    /// Who submits: the account as it is now, which must be allowed to send as the reverse-path
    /// (RFC 6409 §6.1).
    async fn sender(&mut self, mail: &Mail) -> Result<Result<Sender, Reply>, End> {
        let (Some(user), Some(outbox)) = (&self.user, &self.shared.outbox) else {
            return Ok(Err(replies::unfinished()));
        };
        let ctx = &self.shared.ctx;
        let account = match ctx.directory.find(&user.name).await {
            Ok(Some(account)) if account.id == user.id && account.lets_in() => Arc::new(account),
            Ok(_) => return Err(End::Revoked),
            Err(error) => {
                tracing::warn!(%error, "the account of a session could not be read");
                return Ok(Err(replies::storage(&error)));
            }
        };
        let release = match submitting::release(mail.hold, ctx.clock.now()) {
            Ok(release) => release,
            Err(reply) => return Ok(Err(reply)),
        };
        // RFC 5321 §4.5.5: notifications have the null sender; their From is checked all the same.
        if let ReversePath::Mailbox(mailbox) = &mail.from
            && let Err(refusal) = outbox.check_sender(&account, &mailbox.to_string()).await
        {
            return Ok(Err(replies::submission(&refusal, &account, "MAIL")));
        }
        Ok(Ok(Sender { account, release }))
    }

    fn rset(&mut self) {
        self.transaction = None;
        self.reply(replies::ok("Ok"));
    }

    async fn start_tls(&mut self) -> Result<(), End> {
        if self.connection.stream().is_some_and(|stream| stream.is_tls()) {
            self.out_of_order("TLS is active already");
            return Ok(());
        }
        let Some(config) = self.shared.ctx.tls.clone() else {
            self.refuse(replies::not_implemented());
            return Ok(());
        };
        self.reset();
        self.reply(replies::start_tls());
        self.connection.start_tls(&self.shared.ctx, &config).await?;
        if let Some(stream) = self.connection.stream() {
            self.log.observe(stream);
        }
        Ok(())
    }
}

/// RFC 5321 §4.1.1.8.
fn help(service: Service) -> Reply {
    match service {
        Service::Submission => {
            Reply::status(214, (2, 0, 0), "Mail of users of this server is taken here; see RFC 6409")
                .with_line("EHLO HELO AUTH MAIL RCPT DATA BDAT RSET NOOP QUIT VRFY HELP STARTTLS")
        }
        Service::Smtp | Service::Lmtp => Reply::status(
            214,
            (2, 0, 0),
            "Mail for accounts on this server is taken here; see RFC 5321 and RFC 2033",
        )
        .with_line("EHLO HELO LHLO MAIL RCPT DATA BDAT RSET NOOP QUIT VRFY HELP STARTTLS"),
    }
}
