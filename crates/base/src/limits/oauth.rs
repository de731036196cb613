//! Limits on OAuth: grants, tokens, clients, requests.

use std::time::Duration;

/// OAuth grants of one account, authorization codes that wait among them; one more is refused once
/// unused ones are gone.
pub const ACCOUNT_GRANTS: usize = 50;
/// A grant that no client has used for so long is over (draft-ietf-mailmaint-oauth-public §3.9: at
/// least 30 days).
pub const GRANT_IDLE: Duration = Duration::from_secs(90 * 86_400);
/// How long an authorization code is good (draft-ietf-mailmaint-oauth-public §3.4: at least ten
/// minutes; RFC 6749 §4.1.2: at most).
pub const OAUTH_CODE_LIFETIME: Duration = Duration::from_secs(600);
/// How long an access token is good (draft-ietf-mailmaint-oauth-public §3.9: at least an hour).
pub const OAUTH_ACCESS_LIFETIME: Duration = Duration::from_secs(3600);
/// For so long after a refresh the same refresh token gets the same answer: the first may be lost.
pub const OAUTH_REFRESH_GRACE: Duration = Duration::from_secs(30);
/// Bytes of a form or a registration that a client of OAuth sends.
pub const OAUTH_BODY_BYTES: usize = 16 * 1024;
/// Parameters in a request of OAuth.
pub const OAUTH_PARAMETERS: usize = 64;
/// Bytes of one parameter of a request of OAuth.
pub const OAUTH_PARAMETER_BYTES: usize = 4 * 1024;
/// Redirect URIs of one client.
pub const OAUTH_REDIRECT_URIS: usize = 8;
/// Bytes of one redirect URI.
pub const OAUTH_REDIRECT_URI_BYTES: usize = 256;
/// Bytes of the name of a client; the rest is cut off.
pub const OAUTH_CLIENT_NAME_BYTES: usize = 100;
/// Bytes of the id of a client: all that it registered.
pub const OAUTH_CLIENT_ID_BYTES: usize = OAUTH_PARAMETER_BYTES;
