//! The consent page: GET shows the form, POST takes it.
//!
//! The form carries the whole request, which is checked again: there is nothing to keep for a page
//! that may never come back. A page of another site cannot show the form in a frame, nor send it.

use std::sync::Arc;

use sealpost_http::{Request, RequestHead, Response, StatusCode};
use sealpost_oauth::{Authorization, AuthorizationRefused, OAuth, Parameters, error_page};

use super::super::small_body::media_type;
use super::form::form;

/// Answers GET.
pub(super) async fn get(oauth: Arc<OAuth>, request: Request) -> Response {
    let head = request.head;
    let pairs = head.query_pairs().unwrap_or_default();
    let parameters = match Parameters::new(pairs) {
        Ok(parameters) => parameters,
        Err(error) => return refused(StatusCode::BAD_REQUEST, error.description),
    };
    match oauth.authorization(&parameters, head.base_url()) {
        Ok(authorization) => {
            Response::page(StatusCode::OK, authorization.page(None, None), &authorization.policy())
        }
        Err(refusal) => told(refusal),
    }
}

/// Answers POST.
pub(super) async fn post(oauth: Arc<OAuth>, request: Request) -> Response {
    let Request { head, body } = request;
    if head.sender().is_foreign() {
        return refused(StatusCode::FORBIDDEN, "The form was sent by a page of another site.");
    }
    let parameters = match form(&media_type(&head.headers), body).await {
        Ok(parameters) => parameters,
        Err(error) => return refused(StatusCode::BAD_REQUEST, error.description),
    };
    let authorization = match oauth.authorization(&parameters, head.base_url()) {
        Ok(authorization) => authorization,
        Err(refusal) => return told(refusal),
    };
    // A key in the form sends the first button, so anything but consent is a refusal.
    if parameters.get("decision") != Ok(Some("allow")) {
        return on_to(&authorization.refusal());
    }
    consent(&oauth, &head, &authorization, &parameters).await
}

async fn consent(
    oauth: &OAuth,
    head: &RequestHead,
    authorization: &Authorization,
    parameters: &Parameters,
) -> Response {
    let field = |name| parameters.get(name).ok().flatten().unwrap_or_default();
    let (name, password) = (field("username").trim(), field("password"));
    match oauth.consent(authorization, name, password.as_bytes(), head.client).await {
        Ok(url) => on_to(&url),
        Err(why) => {
            head.login_failed();
            let page = authorization.page(Some(name), Some(why.text()));
            Response::page(StatusCode::FORBIDDEN, page, &authorization.policy())
        }
    }
}

fn told(refusal: AuthorizationRefused) -> Response {
    match refusal {
        AuthorizationRefused::Page(why) => refused(StatusCode::BAD_REQUEST, why),
        AuthorizationRefused::Redirect(url) => on_to(&url),
    }
}

fn refused(status: StatusCode, why: &str) -> Response {
    let (page, policy) = error_page(why);
    Response::page(status, page, &policy)
}

/// Redirect URIs are checked, so they can be in a field.
fn on_to(url: &str) -> Response {
    Response::see_other(url).unwrap_or_else(|| refused(StatusCode::BAD_REQUEST, "The address is malformed."))
}
