//! A client for tests that a transcript is too small for.

use bytes::BytesMut;
use sealpost_session::net::Stream;
use sealpost_smtp::client::{Client, Protocol};
use sealpost_smtp::parse;
use sealpost_smtp::types::{ClientName, Command};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// One connection.
pub struct Mailer {
    client: Client,
    stream: Stream,
    out: BytesMut,
    input: BytesMut,
}

impl Mailer {
    /// Greets the server.
    pub async fn greet(stream: Stream, protocol: Protocol) -> Self {
        let (client, out, input) = (Client::new(protocol), BytesMut::new(), BytesMut::new());
        let mut mailer = Mailer { client, stream, out, input };
        assert_eq!(mailer.answer().await, 220);
        mailer.client.hello(ClientName::new("client.example").unwrap(), &mut mailer.out);
        assert_eq!(mailer.answer().await, 250);
        mailer
    }

    /// Sends a command and returns the code of its reply.
    pub async fn ask(&mut self, line: &str) -> u16 {
        self.client.command(parse::command(line.as_bytes()).unwrap(), &mut self.out);
        self.answer().await
    }

    /// MAIL and RCPT; the codes of the RCPTs.
    pub async fn envelope(&mut self, recipients: &[&str]) -> Vec<u16> {
        assert_eq!(self.ask("MAIL FROM:<sender@client.example>").await, 250);
        let mut codes = Vec::new();
        for recipient in recipients {
            codes.push(self.ask(&format!("RCPT TO:<{recipient}>")).await);
        }
        codes
    }

    /// A whole message by DATA; the codes of `replies` replies.
    pub async fn send(&mut self, message: &[u8], replies: usize) -> Vec<u16> {
        self.client.command(Command::Data, &mut self.out);
        match self.answer().await {
            354 => {}
            code => return vec![code],
        }
        for piece in message.chunks(50_000) {
            self.client.data(piece, &mut self.out);
            self.flush().await;
        }
        self.client.end_data(&mut self.out);
        self.answers(replies).await
    }

    /// A whole message by BDAT, in pieces of `size`; the codes of all replies.
    pub async fn send_chunks(&mut self, message: &[u8], size: usize, replies: usize) -> Vec<u16> {
        let mut codes = Vec::new();
        for chunk in message.chunks(size) {
            self.client.chunk(chunk, false, &mut self.out);
            codes.push(self.answer().await);
        }
        self.client.chunk(b"", true, &mut self.out);
        codes.extend(self.answers(replies).await);
        codes
    }

    /// Part of a message, without its end.
    pub async fn send_part(&mut self, message: &[u8]) {
        assert_eq!(self.ask("DATA").await, 354);
        self.client.data(message, &mut self.out);
        self.flush().await;
    }

    async fn answers(&mut self, count: usize) -> Vec<u16> {
        let mut codes = Vec::new();
        for _ in 0..count {
            codes.push(self.answer().await);
        }
        codes
    }

    async fn flush(&mut self) {
        self.stream.write_all_buf(&mut self.out).await.unwrap();
    }

    /// Sends what is queued and returns the code of the next reply.
    pub async fn answer(&mut self) -> u16 {
        self.flush().await;
        loop {
            if let Some(answer) = self.client.next_answer().unwrap() {
                return answer.reply.code;
            }
            self.read().await;
        }
    }

    /// The line the server says unasked before it hangs up.
    pub async fn last_words(mut self) -> String {
        let mut words = Vec::new();
        self.stream.read_to_end(&mut words).await.unwrap();
        String::from_utf8(words).unwrap()
    }

    async fn read(&mut self) {
        self.input.clear();
        let read = self.stream.read_buf(&mut self.input).await.unwrap();
        assert!(read > 0, "the server hung up");
        self.client.feed(&self.input);
    }
}
