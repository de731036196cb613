//! The event source (RFC 8620 §7.3): states of the account, as they change.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream};
use sealpost_base::limits::{JMAP_PING_LEAST, JMAP_PING_MOST, JMAP_PUSH_TYPES, JMAP_STATE_BYTES};
use sealpost_http::{Event, Request, RequestHead, Response, StatusCode, event_stream};
use sealpost_jmap::State;
use sealpost_jmap_session::StateChanges;

use super::{Jmap, login};

/// What a client asks for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    /// Types by name; `None`: all.
    types: Option<Vec<String>>,
    /// Whether the stream ends after a change.
    closes_after_state: bool,
    /// Zero: no pings.
    ping: Duration,
    /// The state that the client knows already.
    known: Option<State>,
}

/// Answers GET.
pub(super) async fn get(jmap: Arc<Jmap>, request: Request) -> Response {
    let head = request.head;
    let caller = match login::caller_for_long(&jmap, &head).await {
        Ok(caller) => caller,
        Err(refusal) => return refusal,
    };
    let wanted = match Wanted::of(&head) {
        Ok(wanted) => wanted,
        Err(why) => return Response::problem(StatusCode::BAD_REQUEST, why),
    };
    match caller.follow(wanted.known.as_ref()).await {
        Ok(changes) => {
            let ping = ping(wanted.ping);
            event_stream(events(changes, wanted), ping)
        }
        Err(error) => {
            tracing::warn!(%error, "a stream of events cannot begin");
            Response::problem(StatusCode::SERVICE_UNAVAILABLE, "the account cannot be read now")
        }
    }
}

impl Wanted {
    fn of(head: &RequestHead) -> Result<Self, &'static str> {
        let param = |name| head.query_param(name).unwrap_or_default();
        let known = head.headers.get("last-event-id").and_then(|id| id.to_str().ok());
        let known = known.filter(|id| !id.is_empty() && id.len() <= JMAP_STATE_BYTES).map(State::new);
        Wanted::parse(&param("types"), &param("closeafter"), &param("ping"), known)
    }

    fn parse(types: &str, closeafter: &str, ping: &str, known: Option<State>) -> Result<Self, &'static str> {
        let types = match types {
            "" | "*" => None,
            names => Some(names.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>()),
        };
        if types.iter().flatten().any(String::is_empty)
            || types.as_ref().is_some_and(|it| it.len() > JMAP_PUSH_TYPES)
        {
            return Err("types is * or the names of at most 64 types, with commas between them");
        }
        let closes_after_state = match closeafter {
            "" | "no" => false,
            "state" => true,
            _ => return Err("closeafter is state or no"),
        };
        let seconds: u64 = match ping {
            "" => 0,
            digits => digits.parse().map_err(|_| "ping is a number of seconds")?,
        };
        let ping = match seconds {
            0 => Duration::ZERO,
            seconds => Duration::from_secs(seconds).clamp(JMAP_PING_LEAST, JMAP_PING_MOST),
        };
        Ok(Wanted { types, closes_after_state, ping, known })
    }
}

/// What is sent when nothing else was for that long. A client that wants no pings gets comments
/// instead, which find out whether it is there.
fn ping(interval: Duration) -> Option<(Duration, Event)> {
    if interval.is_zero() {
        return Some((JMAP_PING_MOST, Event::comment()));
    }
    let data = format!("{{\"interval\":{}}}", interval.as_secs());
    Some((interval, Event::new("ping", None, &data).unwrap_or_else(|_| Event::comment())))
}

/// The changes as events, until the login is over.
fn events(changes: StateChanges, wanted: Wanted) -> impl Stream<Item = Event> + Send {
    stream::unfold(Some((changes, wanted)), |following| {
        Box::pin(async {
            let (mut changes, wanted) = following?;
            let event = loop {
                let mut change = changes.next().await?;
                if let Some(types) = &wanted.types {
                    change.retain_types(types);
                }
                if !change.changed.is_empty() {
                    // Types that JSON can write.
                    let data = serde_json::to_string(&change).unwrap_or_default();
                    break Event::new("state", Some(changes.state().as_str()), &data).ok()?;
                }
            };
            let rest = (!wanted.closes_after_state).then_some((changes, wanted));
            Some((event, rest))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_say_their_interval() {
        let told = |seconds| {
            let (interval, event) = ping(Duration::from_secs(seconds)).unwrap();
            (interval.as_secs(), String::from_utf8(event.as_bytes().to_vec()).unwrap())
        };
        assert_eq!(told(30), (30, "event: ping\ndata: {\"interval\":30}\n\n".to_owned()));
        assert_eq!(told(0), (JMAP_PING_MOST.as_secs(), ":\n\n".to_owned()));
    }

    #[test]
    fn query_parameters_of_an_event_stream_are_parsed() {
        let told = |types, closeafter, ping| {
            Wanted::parse(types, closeafter, ping, None)
                .map(|it| (it.types.map(|it| it.join("+")), it.closes_after_state, it.ping.as_secs()))
        };
        let ok = |types: &str, closes, ping| Ok((Some(types.to_owned()), closes, ping));
        assert_eq!(told("*", "no", "0"), Ok((None, false, 0)));
        assert_eq!(told("", "", ""), Ok((None, false, 0)));
        assert_eq!(told("Email,Mailbox", "state", "60"), ok("Email+Mailbox", true, 60));
        assert_eq!(told("Email", "no", "1"), ok("Email", false, JMAP_PING_LEAST.as_secs()));
        assert_eq!(told("Email", "no", "86400"), ok("Email", false, JMAP_PING_MOST.as_secs()));
        let many = vec!["Email"; JMAP_PUSH_TYPES + 1].join(",");
        for (types, closeafter, ping) in [
            ("Email,", "no", "0"),
            ("*", "yes", "0"),
            ("*", "no", "-1"),
            ("*", "no", "x"),
            (&many, "no", "0"),
        ] {
            assert!(told(types, closeafter, ping).is_err(), "{types} {closeafter} {ping}");
        }
    }
}
