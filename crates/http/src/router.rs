//! Maps requests to handlers.

use std::sync::Arc;

use futures::future::BoxFuture;
use http::Method;

use crate::request::Request;
use crate::response::Response;

/// Handles requests.
pub trait Handler: Send + Sync {
    /// The response to a request. The server drops the future if the client disconnects.
    fn handle(&self, request: Request) -> BoxFuture<'static, Response>;
}

impl<H, F> Handler for H
where
    H: Fn(Request) -> F + Send + Sync,
    F: Future<Output = Response> + Send + 'static,
{
    fn handle(&self, request: Request) -> BoxFuture<'static, Response> {
        Box::pin(self(request))
    }
}

/// How a route treats the bodies of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// Its requests have no body.
    None,
    /// The body is held as a whole, up to this many bytes; the handler acquires the memory when it reads it.
    Held(usize),
    /// The body is read piece by piece, up to this many bytes.
    Streamed(u64),
}

/// A path and a method with their handler.
#[derive(Clone)]
pub struct Route {
    /// The name of its requests in the metrics: one of the commands of
    /// [`sealpost_session::metrics::Protocol::Http`].
    pub name: &'static str,
    /// The method; GET includes HEAD.
    pub method: Method,
    /// The path. A segment in braces matches any segment that is not empty: `/upload/{account}/`.
    pub path: &'static str,
    /// How it treats bodies.
    pub body: Body,
    /// The handler.
    pub handler: Arc<dyn Handler>,
}

/// All routes.
#[derive(Clone, Default)]
pub struct Router {
    routes: Vec<Route>,
}

/// The result of a lookup.
pub(crate) enum Found<'a> {
    /// A route, with the values of the segments in braces.
    Route(&'a Route, Vec<(&'static str, String)>),
    /// The path exists, with these methods only.
    Methods(Vec<Method>),
    /// The path does not exist.
    Nothing,
}

impl Router {
    /// Adds a route. Earlier routes take precedence.
    #[must_use]
    pub fn with(mut self, route: Route) -> Self {
        self.routes.push(route);
        self
    }

    pub(crate) fn find(&self, method: &Method, path: &str) -> Found<'_> {
        let wanted = if method == Method::HEAD { &Method::GET } else { method };
        let mut methods = Vec::new();
        for route in &self.routes {
            let Some(params) = matched(route.path, path) else { continue };
            if route.method == wanted {
                return Found::Route(route, params);
            }
            methods.push(route.method.clone());
        }
        if methods.is_empty() {
            return Found::Nothing;
        }
        if methods.contains(&Method::GET) {
            methods.push(Method::HEAD);
        }
        methods.push(Method::OPTIONS);
        Found::Methods(methods)
    }

    /// The methods of a path.
    pub(crate) fn methods(&self, path: &str) -> Option<Vec<Method>> {
        // No route uses this method.
        match self.find(&Method::OPTIONS, path) {
            Found::Methods(methods) => Some(methods),
            Found::Route(..) | Found::Nothing => None,
        }
    }
}

fn matched(pattern: &'static str, path: &str) -> Option<Vec<(&'static str, String)>> {
    let (mut wanted, mut given) = (pattern.split('/'), path.split('/'));
    let mut params = Vec::new();
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(params),
            (Some(wanted), Some(given)) => {
                match wanted.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                    Some(name) => params.push((name, decoded(given, false).filter(|text| !text.is_empty())?)),
                    None if wanted == given => {}
                    None => return None,
                }
            }
            _ => return None,
        }
    }
}

/// Decodes percent-encoding (RFC 3986 §2.1); in forms `+` is a space. `None` if the encoding is invalid or
/// the result is not UTF-8.
pub(crate) fn decoded(text: &str, is_form: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' if is_form => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn router() -> Router {
        let route = |method, path| Route {
            name: "API",
            method,
            path,
            body: Body::None,
            handler: Arc::new(|_| async { Response::empty(StatusCode::OK) }),
        };
        Router::default()
            .with(route(Method::GET, "/a"))
            .with(route(Method::POST, "/a"))
            .with(route(Method::POST, "/up/{account}/"))
            .with(route(Method::GET, "/down/{account}/{blob}/{name}"))
    }

    fn told(method: Method, path: &str) -> String {
        match router().find(&method, path) {
            Found::Route(route, params) => format!("{} {} {params:?}", route.method, route.path),
            Found::Methods(methods) => format!("{methods:?}"),
            Found::Nothing => "nothing".to_owned(),
        }
    }

    #[test]
    fn routes_are_found_by_method_and_path() {
        for (method, path, expected) in [
            (Method::GET, "/a", "GET /a []"),
            (Method::HEAD, "/a", "GET /a []"),
            (Method::POST, "/a", "POST /a []"),
            (Method::DELETE, "/a", "[GET, POST, HEAD, OPTIONS]"),
            (Method::GET, "/a/", "nothing"),
            (Method::GET, "a", "nothing"),
            (Method::POST, "/up/x1/", "POST /up/{account}/ [(\"account\", \"x1\")]"),
            (Method::POST, "/up//", "nothing"),
            (Method::POST, "/up/x1", "nothing"),
            (
                Method::GET,
                "/down/x/y/gr%C3%BC%2Fn+.txt",
                "GET /down/{account}/{blob}/{name} [(\"account\", \"x\"), (\"blob\", \"y\"), (\"name\", \"grü/n+.txt\")]",
            ),
            (Method::GET, "/down/x/y/%", "nothing"),
            (Method::GET, "/down/x/y/%4", "nothing"),
            (Method::GET, "/down/x/y/%zz", "nothing"),
            (Method::GET, "/down/x/y/%ff", "nothing"),
            (Method::GET, "/down/x/y/z/", "nothing"),
            (Method::GET, "/a?b", "nothing"),
        ] {
            assert_eq!(told(method, path), expected, "{path}");
        }
    }
}
