//! GETJMAPACCESS (RFC 9698): where JMAP shows the same mailboxes and messages, under the same ids. It is
//! announced while JMAP is served: the same logins are good for both.

use sealpost_imap::types::Response;

use super::reply::Reply;
use super::responses::Responses;
use super::user::User;

/// Answers it.
pub(super) fn get(user: &User, responses: &mut Responses) -> Reply {
    match user.shared.ctx.settings.jmap_url() {
        Some(url) => {
            responses.out().response(&Response::JmapAccess(url));
            Reply::ok("GETJMAPACCESS completed")
        }
        // RFC 9698 §4
        None => Reply::bad("there is no JMAP server"),
    }
}
