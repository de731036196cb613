//! Logs in at a smarthost (RFC 4954): by PLAIN (RFC 4616), or by LOGIN where an old server offers only that.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sealpost_smtp::types::{Auth, Command, Reply, Secret};

use crate::outcome::{Failure, PeerReply, Reason, Scope, Step};
use crate::routes::Credentials;
use crate::wire::Wire;

/// Logs in. The caller has made sure that the connection is secured and verified.
pub(crate) async fn log_in(wire: &mut Wire, credentials: &Credentials, host: &str) -> Result<(), Failure> {
    let offered = wire.client.extensions().parameters("AUTH").unwrap_or_default().to_ascii_uppercase();
    let has = |mechanism: &str| offered.split(' ').any(|word| word == mechanism);
    let result = if has("PLAIN") {
        plain(wire, credentials).await
    } else if has("LOGIN") {
        login(wire, credentials).await
    } else {
        return Err(Failure::new(Reason::AuthenticationFailed, host));
    };
    let reply = result.map_err(|reason| Failure::new(reason, host))?;
    match reply.code {
        235 => Ok(()),
        // The operator has to correct wrong credentials, and mail waits for that. So not `with_reply`,
        // which would return the mail to its senders.
        _ => Err(Failure {
            reply: Some(PeerReply::new(&reply)),
            ..Failure::new(Reason::AuthenticationFailed, host).with_scope(Scope::Site)
        }),
    }
}

async fn plain(wire: &mut Wire, credentials: &Credentials) -> Result<Reply, Reason> {
    let response = format!("\0{}\0{}", credentials.user, credentials.password.expose());
    begin(wire, "PLAIN", Some(&encode(&response)));
    let reply = wire.answer(Step::Auth).await?.reply;
    if !reply.is_intermediate() {
        return Ok(reply);
    }
    // A server that ignores initial responses asks for it again.
    respond(wire, &response).await
}

async fn login(wire: &mut Wire, credentials: &Credentials) -> Result<Reply, Reason> {
    begin(wire, "LOGIN", None);
    let mut reply = wire.answer(Step::Auth).await?.reply;
    for response in [&credentials.user, credentials.password.expose()] {
        if !reply.is_intermediate() {
            return Ok(reply);
        }
        reply = respond(wire, response).await?;
    }
    Ok(reply)
}

fn begin(wire: &mut Wire, mechanism: &str, initial: Option<&str>) {
    let auth = Auth { mechanism: mechanism.to_owned(), initial: initial.map(Secret::new) };
    wire.client.command(Command::Auth(auth), &mut wire.out);
}

async fn respond(wire: &mut Wire, response: &str) -> Result<Reply, Reason> {
    wire.client.auth_response(&Secret::new(&encode(response)), &mut wire.out);
    Ok(wire.answer(Step::Auth).await?.reply)
}

fn encode(text: &str) -> String {
    STANDARD.encode(text)
}
