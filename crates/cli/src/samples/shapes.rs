//! The usual shapes: plain, HTML, alternatives, calendar, flowed, signed.

use sealpost_account::SystemFlags;
use sealpost_mime::Entity;

use super::Sample;
use super::letter::{ADA, GRACE, JOERG, Letter, ROBOT};

const WELCOME: &str = "Welcome to Sealpost!\n\
    \n\
    This mailbox is sealed with your key: every message was encrypted when it came in, and only a login opens it.\n\
    \n\
    The other messages here are samples of what mail looks like: attachments, scripts, threads, broken ones.\n\
    Delete what you like; they do not come back.\n";

const WELCOME_HTML: &str = "<!DOCTYPE html><html><body><h1>Welcome to Sealpost!</h1><p>This mailbox is <b>sealed \
    with your key</b>: every message was encrypted when it came in, and only a login opens it.</p><p>The other \
    messages here are samples of what mail looks like: attachments, scripts, threads, broken ones. Delete what you \
    like; they do not come back.</p></body></html>\n";

const FLOWED: &str = "> Do you want to come along on Saturday? The trail is about twelve \r\n> kilometres long and \
    there is a hut halfway.\r\n\r\nGladly! I would come by train and be at the station at nine, if that \r\nsuits \
    you. I'll bring bread and cheese, and the big thermos flask \r\nthat you liked the last time.\r\n\r\n-- \r\nGrace\r\n";

const INVITATION: &str = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Example//Calendar//EN\r\nMETHOD:REQUEST\r\n\
    BEGIN:VEVENT\r\nUID:tea-2026@example.org\r\nDTSTAMP:20260302T080000Z\r\nDTSTART:20260320T150000Z\r\n\
    DTEND:20260320T160000Z\r\nSUMMARY:Tea and engines\r\nLOCATION:12 St James's Square\r\n\
    ORGANIZER;CN=Ada Lovelace:mailto:ada@example.org\r\nATTENDEE;RSVP=TRUE:mailto:me@localhost\r\n\
    END:VEVENT\r\nEND:VCALENDAR\r\n";

const SIGNATURE: &str = "-----BEGIN PGP SIGNATURE-----\r\n\r\niHUEARYKAB0WIQTb0A7sample0signature0of0no0worth0\r\n\
    =abcd\r\n-----END PGP SIGNATURE-----\r\n";

/// The samples.
pub fn samples(me: &str) -> Vec<Sample> {
    vec![
        welcome(me),
        plain(me),
        umlauts(me),
        flowed(me),
        newsletter(me),
        invitation(me),
        signed(me),
        draft(me),
    ]
}

fn welcome(me: &str) -> Sample {
    let letter = Letter(1);
    let body = Entity::multipart("alternative", vec![Entity::text(WELCOME), Entity::html(WELCOME_HTML)]);
    let message =
        letter.begin(("Sealpost", "sealpost@example.org"), me).subject("Welcome to Sealpost").body(body);
    Sample::inbox(&letter, message.build()).with(SystemFlags::FLAGGED)
}

fn plain(me: &str) -> Sample {
    let letter = Letter(2);
    let text = "Hello,\n\nthe notes on the engine are in the second drawer. Mind the ink.\n\nAda\n";
    Sample::inbox(&letter, letter.begin(ADA, me).subject("The notes").body(Entity::text(text)).build()).seen()
}

fn umlauts(me: &str) -> Sample {
    let letter = Letter(3);
    let text = "Schöne Grüße aus Köln!\n\nDie Straßenbahn fährt über die Brücke, und für zwölf Euro gibt es ein \
                Frühstück mit Käse, Brötchen und Öl. Größere Überraschungen: keine.\n\nJörg\n";
    let message = letter
        .begin(JOERG, me)
        .subject("Schöne Grüße aus der größten Stadt am Rhein")
        .body(Entity::text(text));
    Sample::inbox(&letter, message.build()).seen().with(SystemFlags::ANSWERED)
}

fn flowed(me: &str) -> Sample {
    let letter = Letter(4);
    let body = Entity::raw("text/plain; charset=us-ascii; format=flowed; delsp=no", "7bit", FLOWED.into());
    Sample::inbox(&letter, letter.begin(GRACE, me).subject("Re: Saturday").body(body).build())
}

fn newsletter(me: &str) -> Sample {
    let letter = Letter(5);
    let mut rows = String::new();
    for (nth, what) in ["Lamps", "Compasses", "Rope", "Tar", "Signal flags"].iter().enumerate() {
        let price = 3 * (nth + 1);
        rows.push_str(&format!(
            "<tr><td>{what}</td><td style=\"color:#8a1c1c\">&pound;{price}.99</td></tr>\n"
        ));
    }
    let html = format!(
        "<html><head><style>td {{ padding: 4px }}</style><title>News</title></head><body><h1>This week at the \
         chandler&rsquo;s</h1>\n<table>{rows}</table>\n<p>You get this because you asked for it. <a \
         href=\"https://example.com/unsubscribe\">Unsubscribe</a></p><script>document.title='x'</script></body></html>\n"
    );
    let message = letter
        .begin(("The Chandler", "news@shop.example.com"), me)
        .subject("Everything must go: lamps, rope & tar")
        .field("List-Unsubscribe", "<https://example.com/unsubscribe>, <mailto:leave@shop.example.com>")
        .field("List-Unsubscribe-Post", "List-Unsubscribe=One-Click")
        .field("Precedence", "bulk")
        .body(Entity::html(&html));
    Sample::inbox(&letter, message.build()).keyword("$NotJunk")
}

fn invitation(me: &str) -> Sample {
    let letter = Letter(6);
    let text = "You are invited: Tea and engines, 20 March, 15:00 UTC, 12 St James's Square\n";
    let calendar = Entity::raw("text/calendar; charset=utf-8; method=REQUEST", "7bit", INVITATION.into());
    let file = Entity::attachment("application/ics", "invite.ics", INVITATION.as_bytes());
    let alternative = Entity::multipart("alternative", vec![Entity::text(text), calendar]);
    let body = Entity::multipart("mixed", vec![alternative, file]);
    Sample::inbox(&letter, letter.begin(ADA, me).subject("Invitation: Tea and engines").body(body).build())
        .with(SystemFlags::FLAGGED)
}

fn signed(me: &str) -> Sample {
    let letter = Letter(7);
    let subtype = "signed; micalg=pgp-sha256; protocol=\"application/pgp-signature\"";
    let signature =
        Entity::raw("application/pgp-signature; name=\"signature.asc\"", "7bit", SIGNATURE.into());
    let body = Entity::multipart(subtype, vec![Entity::text("Release 4.2 is out.\n"), signature]);
    Sample::inbox(&letter, letter.begin(ROBOT, me).subject("[SECURITY] Release 4.2").body(body).build())
}

fn draft(me: &str) -> Sample {
    let letter = Letter(8);
    let message = letter
        .begin(("", me), "ada@example.org")
        .subject("Tea")
        .body(Entity::text("Dear Ada,\n\nI'd love to"));
    Sample::inbox(&letter, message.build()).in_mailbox("Drafts").seen().with(SystemFlags::DRAFT)
}
