//! The consent page: what is shown to the user, what goes back to the client, and who may send it.

use std::time::Duration;

use sealpost_base::limits::ACCOUNT_GRANTS;

use super::*;

#[tokio::test]
async fn requests_without_a_valid_client_are_not_redirected() {
    let node = TestNode::with_account().await;
    let client = node.client().await;
    let request = authorization(&client);
    let mut forged = client.clone();
    forged.replace_range(20..21, if &client[20..21] == "A" { "B" } else { "A" });
    for request in [
        changed(&request, "client_id", ""),
        changed(&request, "client_id", "si_AAAA"),
        changed(&request, "client_id", &forged),
        changed(&request, "redirect_uri", ""),
        changed(&request, "redirect_uri", "https://evil.example/"),
        changed(&request, "redirect_uri", "//evil.example/"),
        changed(&request, "redirect_uri", "http://127.0.0.1:1@evil.example/back"),
        changed(&request, "redirect_uri", "http://127.0.0.1/other"),
        changed(&request, "redirect_uri", "http://127.0.0.1/back\r\nSet-Cookie: a=b"),
        changed(&request, "redirect_uri", "com.example.mail:/back/../x"),
        [&request[..], &[("redirect_uri", REDIRECT)]].concat(),
        [&request[..], &[("client_id", client.as_str())]].concat(),
    ] {
        for answer in [node.show(&request).await, node.consent(&request, "me@localhost", "secret").await] {
            assert_eq!((answer.status, answer.field("location")), (400, ""), "{request:?}");
            assert!(answer.field("content-security-policy").contains("form-action 'none'"));
        }
    }
    assert_eq!(node.record().await.revocable().count(), 0);
}

#[tokio::test]
async fn other_mistakes_go_back_to_the_client() {
    let node = TestNode::with_account().await;
    let client = node.client().await;
    let request = authorization(&client);
    for (request, expected) in [
        (changed(&request, "response_type", ""), "invalid_request"),
        (changed(&request, "response_type", "token"), "unsupported_response_type"),
        (changed(&request, "code_challenge", ""), "invalid_request"),
        (changed(&request, "code_challenge", "short"), "invalid_request"),
        (changed(&request, "code_challenge_method", ""), "invalid_request"),
        (changed(&request, "code_challenge_method", "plain"), "invalid_request"),
        (changed(&request, "scope", "openid"), "invalid_scope"),
        (changed(&request, "resource", "https://evil.example/jmap"), "invalid_target"),
        ([&request[..], &[("scope", MAIL)]].concat(), "invalid_request"),
    ] {
        let answer = node.show(&request).await;
        let location = answer.field("location");
        assert!(answer.status == 303 && location.starts_with(&format!("{REDIRECT}?")), "{location}");
        assert_eq!(parameter(location, "error").as_deref(), Some(expected), "{request:?}");
        assert_eq!(parameter(location, "state").as_deref(), Some("s t&a=t\"e"));
        assert_eq!(parameter(location, "iss").as_deref(), Some("http://localhost"));
    }
    let injected = changed(&request, "state", "a\r\nSet-Cookie: x=y\r\n\r\n<html>");
    let answer = node.show(&changed(&injected, "response_type", "token")).await;
    assert!(answer.field("location").contains("state=a%0D%0ASet-Cookie%3A%20x%3Dy%0D%0A"));
    assert_eq!(answer.field("set-cookie"), "");
}

#[tokio::test]
async fn only_the_password_on_the_own_page_consents() {
    let node = TestNode::with_account().await;
    let record = node.record().await;
    let client = node.client().await;
    let request = authorization(&client);
    // Refusing needs no password; so does any other button.
    for decision in ["deny", "", "ALLOW"] {
        let body = form(&[&request[..], &[("decision", decision)]].concat());
        let answer = node.ask("POST /oauth/authorize", FORM_TYPE, &body).await;
        assert_eq!(parameter(answer.field("location"), "error").as_deref(), Some("access_denied"));
    }
    let (name, password) = ("\"><script>alert(1)</script>@localhost", "secret");
    for (name, password) in [("me@localhost", "wrong"), (name, password), ("me@localhost", "")] {
        let answer = node.consent(&request, name, password).await;
        assert_eq!((answer.status, answer.field("location")), (403, ""), "{name}");
        assert!(answer.body.contains("Wrong name or password") && !answer.body.contains("<script"));
        assert!(!answer.body.contains("secret"));
    }
    let fields = [("username", "me@localhost"), ("password", "secret"), ("decision", "allow")];
    let body = form(&[&request[..], &fields].concat());
    for foreign in ["Origin: https://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"]
    {
        let answer = node.ask("POST /oauth/authorize", &format!("{FORM_TYPE}{foreign}"), &body).await;
        assert_eq!((answer.status, answer.field("location")), (403, ""), "{foreign}");
    }
    let other = "Content-Type: text/plain\r\nOrigin: http://localhost\r\n";
    assert_eq!(node.ask("POST /oauth/authorize", other, &body).await.status, 400);
    assert_eq!(record.version, node.record().await.version, "nothing was made");
}

#[tokio::test]
async fn an_app_password_makes_no_grant() {
    let node = TestNode::new();
    let (record, root) = node.account("me@localhost").await;
    let token = node.ctx.directory.add_app_password(&record.name, &root, "phone").await.unwrap().1;
    let client = node.client().await;
    assert_eq!(node.consent(&authorization(&client), "me@localhost", &token).await.status, 403);
    assert_eq!(node.record().await.revocable().count(), 1);
}

#[tokio::test]
async fn guesses_at_the_page_are_held_back() {
    let mut settings = sealpost_session::settings::Settings::default();
    settings.login.free_failures = 0;
    let node = TestNode::with(settings);
    node.account("me@localhost").await;
    let client = node.client().await;
    let request = authorization(&client);
    assert_eq!(node.consent(&request, "me@localhost", "wrong").await.status, 403);
    let guess = node.consent(&request, "me@localhost", "other");
    let held_back = async {
        while node.ctx.auth.held_back() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = held_back => {}
        _ = guess => panic!("it was checked at once"),
    }
}

#[tokio::test]
async fn codes_that_no_client_claims_give_way() {
    let node = TestNode::new();
    let (record, root) = node.account("me@localhost").await;
    for n in 0..ACCOUNT_GRANTS {
        node.ctx.directory.add_grant(&record, &root, &n.to_string()).await.unwrap();
    }
    let client = node.client().await;
    let refused = node.consent(&authorization(&client), "me@localhost", "secret").await;
    assert!(refused.status == 403 && refused.body.contains("Too many programs"), "{}", refused.body);
    node.advance(Duration::from_secs(601));
    let code = node.code(&client).await;
    assert_eq!(node.record().await.revocable().count(), 1);
    assert_eq!(node.exchange(&client, &code).await.status, 200);
}
