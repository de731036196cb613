//! The routes, over connections of this process.

use sealpost_http::{HttpShared, serve};
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
async fn the_health_of_the_server_needs_no_login() {
    let ctx = Arc::new(crate::context_for_tests());
    let router = router(ctx.clone(), None, &Arc::new(Jmap::new(ctx.clone(), None)));
    assert!(get(router.clone(), &ctx, "GET /healthz").await.ends_with("ok\n"));
    assert!(get(router, &ctx, "GET /nothing").await.starts_with("HTTP/1.1 404 "));
}
