//! What programs write: delivery reports, read receipts, build results.

use sealpost_mime::Entity;

use super::Sample;
use super::letter::{ADA, Letter, ROBOT};

/// The samples.
pub fn samples(me: &str) -> Vec<Sample> {
    vec![not_delivered(me), displayed(me), build_failed(me)]
}

/// RFC 3464.
fn not_delivered(me: &str) -> Sample {
    let letter = Letter(80);
    let status = "Reporting-MTA: dns; mail.example.org\r\nArrival-Date: Tue, 3 Mar 2026 09:00:00 +0000\r\n\r\n\
                  Final-Recipient: rfc822; absent@example.net\r\nAction: failed\r\nStatus: 5.1.1\r\n\
                  Diagnostic-Code: smtp; 550 5.1.1 User unknown\r\n";
    let original = Letter(180).begin(("", me), "absent@example.net").subject("Are you there?");
    let parts = vec![
        Entity::text(
            "Your message could not be delivered to <absent@example.net>:\n\n  550 5.1.1 User unknown\n",
        ),
        Entity::raw("message/delivery-status", "7bit", status.into()),
        Entity::message(original.body(Entity::text("Hello?\n")).build()),
    ];
    let message = letter
        .begin(("Mail Delivery Subsystem", "MAILER-DAEMON@mail.example.org"), me)
        .subject("Undelivered Mail Returned to Sender")
        .field("Auto-Submitted", "auto-replied")
        .field("Return-Path", "<>")
        .body(Entity::multipart("report; report-type=delivery-status", parts));
    Sample::inbox(&letter, message.build())
}

/// RFC 8098.
fn displayed(me: &str) -> Sample {
    let letter = Letter(81);
    let notification = format!(
        "Reporting-UA: example.org; Mail 1.0\r\nFinal-Recipient: rfc822;ada@example.org\r\n\
         Original-Message-ID: {}\r\nDisposition: manual-action/MDN-sent-manually; displayed\r\n",
        Letter(75).id()
    );
    let parts = vec![
        Entity::text("The message was displayed. This does not mean that it was understood.\n"),
        Entity::raw("message/disposition-notification", "7bit", notification.into()),
    ];
    let message = letter
        .begin(ADA, me)
        .subject("Read: Re: The notes")
        .body(Entity::multipart("report; report-type=disposition-notification", parts));
    Sample::inbox(&letter, message.build()).seen()
}

fn build_failed(me: &str) -> Sample {
    let letter = Letter(82);
    let log = "error[E0382]: borrow of moved value: `rope`\n --> src/knot.rs:12:9\n";
    let parts = vec![
        Entity::text("Build 1871 failed after 00:03:12.\n"),
        Entity::raw("text/x-log; charset=us-ascii", "7bit", log.replace('\n', "\r\n").into())
            .field("Content-Disposition", "attachment; filename=\"build-1871.log\"")
            .field("Content-Description", "the end of the log"),
    ];
    let message = letter
        .begin(ROBOT, me)
        .subject("[ci] Build 1871 failed: knot (main, 3f9c2ab)")
        .field("Auto-Submitted", "auto-generated")
        .field("X-Priority", "1 (Highest)")
        .body(Entity::multipart("mixed", parts));
    Sample::inbox(&letter, message.build())
}
