//! All commands except AUTH, MAIL, RCPT, DATA and BDAT.

use std::pin::pin;

use sealpost_queue::retry::MAX_HOLD;
use sealpost_smtp::types::{Command, Hello, Reply, Verb};
use sealpost_smtp::write::date_time;

use super::Service;
use super::connection::End;
use super::replies;
use super::session::Session;
use sealpost_auth::fair_scheduler;
use sealpost_session::metrics::Verdict;

impl Session {
    pub(super) async fn command(&mut self, command: Command) -> Result<(), End> {
        // RFC 2920 §3.2 (2): replies to these may leave together; (5) "MUST NOT buffer responses to
        // EHLO, DATA, VRFY, EXPN, TURN, QUIT, and NOOP". BDAT is answered after its bytes.
        let together =
            matches!(command, Command::Mail(_) | Command::Rcpt(_) | Command::Rset | Command::Bdat(_));
        // The bytes of a chunk are counted when they have arrived.
        if !matches!(command, Command::Bdat(_)) {
            self.log.begin_command(command.name());
        }
        match command {
            Command::Hello(hello) => self.hello(hello),
            Command::Mail(mail) => self.mail(mail).await?,
            Command::Rcpt(rcpt) => {
                // Clients that send RCPT without end, on a thousand connections, share one place in the
                // fair scheduler, so that other sessions get processors.
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
            // RFC 5321 §7.3: the members of a list are private.
            Command::Expn(_) => self.refuse(replies::not_implemented()),
            Command::Help(_) => self.reply(help(self.service, self.offers_burl())),
            Command::StartTls => self.start_tls().await?,
            Command::Auth(auth) => self.auth(auth).await?,
            Command::Burl(burl) => self.scheduled_burl(burl).await?,
        }
        if together { Ok(()) } else { self.flush().await }
    }

    /// EHLO, HELO, LHLO. A command of the other protocol changes nothing (RFC 5321 §4.1.4).
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
        // RFC 3207 §4.2: not offered within TLS.
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
        if self.offers_burl() {
            reply = reply.with_line("BURL imap");
        }
        // RFC 8689 §2: only over TLS.
        if is_tls {
            reply = reply.with_line("REQUIRETLS");
        }
        reply.with_line("HELP")
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
fn help(service: Service, burl: bool) -> Reply {
    match service {
        Service::Submission => {
            let burl = if burl { " BURL" } else { "" };
            Reply::status(214, (2, 0, 0), "Mail of users of this server is taken here; see RFC 6409")
                .with_line(format!(
                    "EHLO HELO AUTH MAIL RCPT DATA BDAT{burl} RSET NOOP QUIT VRFY HELP STARTTLS"
                ))
        }
        Service::Smtp | Service::Lmtp => Reply::status(
            214,
            (2, 0, 0),
            "Mail for accounts on this server is taken here; see RFC 5321 and RFC 2033",
        )
        .with_line("EHLO HELO LHLO MAIL RCPT DATA BDAT RSET NOOP QUIT VRFY HELP STARTTLS"),
    }
}
