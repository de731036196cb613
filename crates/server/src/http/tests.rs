//! The routes, over connections of this process.

use sealpost_http::{HttpShared, Request, serve};
use sealpost_session::net::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

pub(crate) async fn get(router: Router, ctx: &Arc<Context>, target: &str) -> String {
    let shared = Arc::new(HttpShared::new(ctx.clone(), router));
    let (server, mut client) = Stream::pair().unwrap();
    tokio::spawn(serve(server, shared));
    let request = format!("{target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn jmap_is_there_only_if_something_answers_it() {
    let ctx = Arc::new(crate::context_for_tests());
    let without = router(ctx.clone(), None, None);
    for path in ["/.well-known/jmap", "/jmap/session"] {
        let response = get(without.clone(), &ctx, &format!("GET {path}")).await;
        assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
    }
    assert!(get(without, &ctx, "GET /healthz").await.ends_with("ok\n"));

    let jmap = |request: Request| async move {
        let head = request.head;
        Response::text(
            StatusCode::OK,
            format!("{} {} {}", head.route, head.param("account"), head.param("name")),
        )
    };
    let with = router(ctx.clone(), None, Some(Arc::new(jmap)));
    let redirect = get(with.clone(), &ctx, "GET /.well-known/jmap").await;
    assert!(
        redirect.starts_with("HTTP/1.1 307 ") && redirect.contains("location: /jmap/session\r\n"),
        "{redirect}"
    );
    for (target, answered) in [
        ("GET /jmap/session", "SESSION  "),
        ("POST /jmap/api", "API  "),
        ("POST /jmap/upload/A1/", "UPLOAD A1 "),
        ("GET /jmap/download/A1/B2/a%20b.txt", "DOWNLOAD A1 a b.txt"),
        ("GET /jmap/eventsource?types=*", "EVENTS  "),
    ] {
        let response = get(with.clone(), &ctx, target).await;
        assert!(response.ends_with(answered), "{response}");
    }
}
