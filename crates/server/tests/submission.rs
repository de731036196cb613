//! Submission against a real session and a real queue: transcripts, and what a transcript cannot say.

#[path = "submission/burl.rs"]
mod burl;
#[path = "submission/faults.rs"]
mod faults;
#[path = "submission/forwarding.rs"]
mod forwarding;
#[path = "submission/logins.rs"]
mod logins;
#[path = "submission/messages.rs"]
mod messages;
#[path = "support/submission_world.rs"]
mod submission_world;
#[path = "support/transcript.rs"]
mod transcript;

macro_rules! transcripts {
    ($($name:ident),* $(,)?) => {
        $(#[tokio::test]
        async fn $name() {
            let name = concat!("submission/", stringify!($name), ".txt");
            submission_world::play(name, include_str!(concat!("submission/", stringify!($name), ".txt"))).await;
        })*
    };
}

transcripts![
    auth,
    auth_tls,
    commands,
    dsn,
    endings,
    forward,
    forward_lmtp,
    future_release,
    limits,
    message,
    recipients,
    relay,
    require_tls,
    senders,
];
