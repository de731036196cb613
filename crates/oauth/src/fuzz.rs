//! Entry functions for fuzzing: they take any bytes, and panic if an invariant is broken.

use sealpost_session::settings::Origin;

use crate::page::escaped;
use crate::parameters::Parameters;
use crate::pkce::{challenge_of, is_challenge};
use crate::redirect_uri::RedirectUri;

/// Redirect URIs, parameters and what pages show; the first byte says which.
///
/// # Panics
/// If a redirect URI could leave its field, a page or its origin; a challenge is none; or text on a
/// page is not text.
pub fn fuzz_oauth_requests(data: &[u8]) {
    let Some((which, data)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(data);
    match which % 4 {
        0 => fuzz_redirect(&text),
        1 => {
            let pairs = text.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
            let owned = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
            if let Ok(parameters) = Parameters::new(owned) {
                assert!(parameters.get("a") != Ok(Some("")));
                assert!(parameters.all("a").count() < 2 || parameters.get("a").is_err());
            }
        }
        2 => assert!(challenge_of(&text).is_none_or(|challenge| is_challenge(&challenge))),
        _ => assert!(!escaped(&text).contains(['<', '>', '"', '\''])),
    }
}

fn fuzz_redirect(text: &str) {
    let web: Vec<Origin> = "https://web.example".parse().into_iter().collect();
    let Some(uri) = RedirectUri::parse(text, &web) else { return };
    assert!(uri.is_as_registered(&uri));
    let url = uri.with(&[("state", text), ("code", "\r\n ;,\"")]);
    assert!(url.starts_with(text) && url.bytes().all(|c| c.is_ascii_graphic() && c != b'"'));
    let prefixes =
        ["http://127.0.0.1:", "http://127.0.0.1/", "http://[::1]:", "http://[::1]/", "https://web.example"];
    let is_known = prefixes.iter().any(|prefix| url.starts_with(prefix));
    let scheme = url.split(':').next().unwrap_or_default();
    assert!(is_known || scheme.contains('.'), "{url}");
    assert!(!uri.csp_source().contains([';', ',', ' ', '\'']), "{}", uri.csp_source());
}
