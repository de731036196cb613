//! Forms of OAuth: what clients and the consent page send.

use sealpost_http::{RequestBody, form_pairs};
use sealpost_oauth::{OAuthError, Parameters};

use super::super::small_body::small_body;

/// The media type of a form.
const FORM: &str = "application/x-www-form-urlencoded";

/// The parameters of a form.
pub(super) async fn form(request_type: &str, body: RequestBody) -> Result<Parameters, OAuthError> {
    if request_type != FORM {
        return Err(OAuthError::invalid_request("the body is application/x-www-form-urlencoded"));
    }
    let body = small_body(body).await.map_err(|_| OAuthError::invalid_request("the body is too long"))?;
    let pairs = std::str::from_utf8(&body).ok().and_then(form_pairs);
    Parameters::new(pairs.ok_or_else(|| OAuthError::invalid_request("the form is malformed"))?)
}
