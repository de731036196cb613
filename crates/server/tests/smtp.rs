//! SMTP and LMTP against a real session: transcripts, and what a transcript cannot say.

#[path = "smtp/endings.rs"]
mod endings;
#[path = "smtp/faults.rs"]
mod faults;
#[path = "smtp/mailer.rs"]
mod mailer;
#[path = "smtp/messages.rs"]
mod messages;
#[path = "support/smtp_world.rs"]
mod smtp_world;
#[path = "support/transcript.rs"]
mod transcript;
#[path = "smtp/usage.rs"]
mod usage;

macro_rules! transcripts {
    ($($name:ident),* $(,)?) => {
        $(#[tokio::test]
        async fn $name() {
            let name = concat!("smtp/", stringify!($name), ".txt");
            smtp_world::play(name, include_str!(concat!("smtp/", stringify!($name), ".txt"))).await;
        })*
    };
}

transcripts![
    addresses,
    bdat,
    commands,
    delivery,
    errors,
    forwarding_off,
    lmtp,
    lmtp_bdat,
    loops,
    http,
    pipelining,
    quota,
    quota_lmtp,
    recipients,
    size,
    smuggling,
    starttls,
    utf8,
];
