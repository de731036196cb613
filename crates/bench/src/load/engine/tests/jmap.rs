//! JMAP clients beside servers that answer by a script: what is counted, what is left out, what ends
//! a client.

use sealpost_base::limits::BENCH_RESPONSE_BYTES;

use super::*;

const ACCOUNT: &str = r#""accounts":{"a":{}},"apiUrl":"https://other.example/api","uploadUrl":"/upload","eventSourceUrl":"/events""#;

/// A response with a status and a body.
fn reply(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn session() -> String {
    let capabilities = r#"{"urn:ietf:params:jmap:core":{},"urn:ietf:params:jmap:mail":{}}"#;
    reply("200 OK", &format!("{{\"capabilities\":{capabilities},{ACCOUNT}}}"))
}

/// The response of a method, and its head.
fn answer(response: &str) -> String {
    reply("200 OK", &format!("{{\"methodResponses\":[{response}],\"sessionState\":\"s\"}}"))
}

/// An HTTP server that answers each request, by its first line, with all of the returned bytes.
fn http(answer: impl Fn(&str) -> String + Clone + Send + Sync + 'static) -> Target {
    let connect = move || {
        let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
        let answer = answer.clone();
        tokio::task::spawn_local(async move {
            let (mut input, mut buffer) = (String::new(), [0; 4096]);
            while let Ok(count @ 1..) = theirs.read(&mut buffer).await {
                input.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
                let Some((head, body)) = input.split_once("\r\n\r\n") else { continue };
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if body.len() < length.map_or(0, |length| length.parse().unwrap()) {
                    continue;
                }
                let answer = answer(head.lines().next().unwrap());
                input.clear();
                if theirs.write_all(answer.as_bytes()).await.is_err() || answer.contains("Connection: close")
                {
                    break;
                }
            }
        });
        Box::new(ours) as Box<dyn Io>
    };
    let jmap = Endpoint { addr: TargetAddr::Inside(Arc::new(connect)), tls: None };
    Target { name: "x".into(), jmap: Some(jmap), users: vec![user("a")], ..Target::default() }
}

fn steps(steps: &str) -> Scenario {
    scenario(&format!("name = \"x\"\n[[phase]]\nname = \"p\"\nprotocol = \"jmap\"\nsteps = [{steps}]\n"))
}

const GET: &str = r#"'[["Email/get", {"ids": []}]]'"#;
const EMPTY: &str = r#"["Email/get",{"list":[],"state":"1"},"0"]"#;

#[test]
fn requests_without_their_capability_are_left_out_and_reported() {
    let scenario = steps(&format!("'[[\"Identity/get\", {{}}]]', {GET}"));
    let outcome = run_paused(
        &scenario,
        http(|line| if line.contains("well-known") { session() } else { answer(EMPTY) }),
    );
    assert_eq!(command(&outcome, "p", "Email/get").count, 1);
    assert!(outcome.phases[0].commands.iter().all(|command| command.name != "Identity/get"));
    let wanted = "p: Identity/get was left out: the server does not announce urn:ietf:params:jmap:submission";
    assert!(outcome.warnings.iter().any(|warning| warning == wanted), "{:?}", outcome.warnings);
}

#[test]
fn refused_requests_are_counted_by_their_errors() {
    for (refusal, kind) in [
        (answer(r#"["error",{"type":"serverFail"},"0"]"#), "serverFail"),
        (reply("429 Too Many Requests", r#"{"type":"urn:ietf:params:jmap:error:limit"}"#), "429"),
        (reply("200 OK", "no JSON"), "wrong"),
        (answer(r#"["Email/query",{},"0"]"#), "wrong"),
    ] {
        let scripted =
            http(move |line| if line.contains("well-known") { session() } else { refusal.clone() });
        let outcome = run_paused(&steps(&format!("{GET}, {GET}")), scripted);
        let get = command(&outcome, "p", "Email/get");
        assert_eq!((get.count, get.errors[kind].count), (0, 2), "the connection goes on: {kind}");
        assert_eq!(command(&outcome, "p", "CONNECT").count, 1);
    }
}

#[test]
fn a_refused_login_is_not_tried_again() {
    let outcome = run_paused(&steps(GET), http(|_| reply("401 Unauthorized", "")));
    assert_eq!(command(&outcome, "p", "CONNECT").errors["denied"].count, 1);
    let warnings = outcome.warnings.join("\n");
    assert!(
        warnings.contains("no client got in: /.well-known/jmap: 401: the login was refused"),
        "{warnings}"
    );
}

#[test]
fn session_objects_are_found_behind_redirections() {
    let redirect =
        "HTTP/1.1 307 x\r\nLocation: https://other.example/jmap/session\r\nContent-Length: 0\r\n\r\n";
    let target = http(move |line| match line {
        "GET /.well-known/jmap HTTP/1.1" => redirect.to_owned(),
        "GET /jmap/session HTTP/1.1" => session(),
        "POST /api HTTP/1.1" => answer(EMPTY),
        line => panic!("{line}"),
    });
    assert_eq!(command(&run_paused(&steps(GET), target), "p", "Email/get").count, 1);
    let outcome = run_paused(&steps(GET), http(move |_| redirect.to_owned()));
    assert!(outcome.warnings.join("\n").contains("redirects without end"), "{:?}", outcome.warnings);
}

#[test]
fn connections_closed_between_requests_are_opened_again() {
    let target = http(|line| match line.contains("well-known") {
        true => session(),
        false => answer(EMPTY).replacen("\r\n", "\r\nConnection: close\r\n", 1),
    });
    let outcome = run_paused(&steps(&format!("{{ do = {GET}, times = 3, think = \"1s\" }}")), target);
    let get = command(&outcome, "p", "Email/get");
    assert_eq!((get.count, get.errors(), command(&outcome, "p", "CONNECT").count), (3, 0, 3));
}

#[test]
fn responses_beyond_the_limit_are_refused() {
    let long =
        |length: usize| answer(&format!("[\"Email/get\",{{\"state\":\"{}\"}},\"0\"]", "x".repeat(length)));
    let target =
        move |length| http(move |line| if line.contains("well-known") { session() } else { long(length) });
    let outcome = run_paused(&steps(GET), target(BENCH_RESPONSE_BYTES));
    let errors = &command(&outcome, "p", "Email/get").errors;
    assert!(errors["protocol"].example.contains("a response of more than"), "{errors:?}");
    assert_eq!(
        command(&run_paused(&steps(GET), target(BENCH_RESPONSE_BYTES - 1000)), "p", "Email/get").count,
        1
    );
}

#[test]
fn deliveries_that_no_stream_hears_of_end_the_client() {
    let text = "name = \"x\"\n[[phase]]\nname = \"f\"\nprotocol = \"jmap\"\nsetup = true\nsteps = [\"FILL {Bench/m} 0 tiny\"]\n\
                [[phase]]\nname = \"s\"\nprotocol = \"jmap\"\nsteps = [\"EVENTS\"]\nhold = true\n\
                [[phase]]\nname = \"d\"\nprotocol = \"jmap\"\nrepeat = 20\n\
                steps = [{ do = \"APPEND {Bench/m} tiny\", notified = true }]\n";
    let outcome = run_paused(&scenario(text), null_target());
    assert_eq!(command(&outcome, "d", "notification").errors["timeout"].count, 5);
    assert_eq!(command(&outcome, "d", "APPEND").count, 5);
}

#[test]
fn missing_objects_are_errors() {
    let scripted = || http(|line| if line.contains("well-known") { session() } else { answer(EMPTY) });
    for (expect, ok) in [("0 Email", 1), ("1 Email", 0)] {
        let outcome = run_paused(&steps(&format!("{{ do = {GET}, expect = \"{expect}\" }}")), scripted());
        let get = command(&outcome, "p", "Email/get");
        assert_eq!((get.count, get.errors()), (ok, 1 - ok), "{:?}", get.errors);
    }
}

#[test]
fn placeholders_without_a_value_are_errors() {
    let scripted = http(|line| if line.contains("well-known") { session() } else { answer(EMPTY) });
    let outcome = run_paused(&steps(r#"'[["Email/get", {"ids": ["{email}"]}]]'"#), scripted);
    let errors = &command(&outcome, "p", "Email/get").errors;
    assert!(errors["wrong"].example.contains("{email} is not known yet"), "{errors:?}");
}
