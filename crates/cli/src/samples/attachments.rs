//! Files: attached, inline, forwarded, large.

use sealpost_account::SystemFlags;
use sealpost_base::{Random, SeededRandom};
use sealpost_mime::Entity;

use super::letter::{ADA, GRACE, JOERG, Letter};
use super::{SEED, Sample};

/// One red pixel.
const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9cc\xf8\
    \xcf\xc0\0\0\x03\x01\x01\0\xc9\xfe\x92\xef\0\0\0\0IEND\xaeB`\x82";

const PDF: &str = "%PDF-1.1\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>\
    endobj\n3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n";

/// Bytes of the large attachment.
const LARGE: usize = 5 * 1024 * 1024;

/// The samples.
pub fn samples(me: &str) -> Vec<Sample> {
    vec![invoice(me), holiday(me), everything(me), forwarded(me), digest(me), vcard(me), large(me)]
}

fn invoice(me: &str) -> Sample {
    let letter = Letter(50);
    let parts = vec![
        Entity::text("Please find the invoice attached.\n"),
        Entity::attachment("application/pdf", "Rechnung Nr. 7 für März – «Büro».pdf", PDF.as_bytes()),
        Entity::attachment(
            "text/csv; charset=utf-8",
            "positions.csv",
            "item,price\nÖl,12\nRope,3\n".as_bytes(),
        ),
    ];
    let message = letter.begin(JOERG, me).subject("Invoice 7").body(Entity::multipart("mixed", parts));
    Sample::inbox(&letter, message.build()).with(SystemFlags::FLAGGED)
}

fn holiday(me: &str) -> Sample {
    let letter = Letter(51);
    let html = "<p>Look at this: <img src=\"cid:pixel@example.org\" alt=\"a red dot\"></p>";
    let parts = vec![Entity::html(html), Entity::inline("image/png", "dot.png", "pixel@example.org", PNG)];
    let message = letter.begin(GRACE, me).subject("A picture").body(Entity::multipart("related", parts));
    Sample::inbox(&letter, message.build()).seen()
}

/// Alternative in related in mixed, as many mail programs make it.
fn everything(me: &str) -> Sample {
    let letter = Letter(52);
    let html = Entity::html("<p>Three things: <b>text</b>, <img src=\"cid:dot@example.org\">, a file.</p>");
    let alternative = Entity::multipart("alternative", vec![Entity::text("Three things.\n"), html]);
    let image = Entity::inline("image/png", "dot.png", "dot@example.org", PNG);
    let related = Entity::multipart("related", vec![alternative, image]);
    let file = Entity::attachment("application/octet-stream", "data.bin", &random(1, 3000));
    let parts = vec![related, file, Entity::text("-- \nSent through a list that adds a footer\n")];
    let message = letter.begin(ADA, me).subject("All at once").body(Entity::multipart("mixed", parts));
    Sample::inbox(&letter, message.build())
}

fn inner(number: u32, subject: &str, text: &str) -> Vec<u8> {
    Letter(number).begin(GRACE, "ada@example.org").subject(subject).body(Entity::text(text)).build()
}

/// A message in a message in a message.
fn forwarded(me: &str) -> Sample {
    let letter = Letter(53);
    let innermost = Entity::multipart(
        "mixed",
        vec![Entity::text("The innermost.\n"), Entity::attachment("image/png", "dot.png", PNG)],
    );
    let innermost = Letter(153).begin(JOERG, "grace@example.com").subject("Fragen").body(innermost).build();
    let middle = Entity::multipart("mixed", vec![Entity::text("See below.\n"), Entity::message(innermost)]);
    let middle = Letter(154).begin(GRACE, "ada@example.org").subject("Fwd: Fragen").body(middle).build();
    let outer =
        Entity::multipart("mixed", vec![Entity::text("Could you answer?\n"), Entity::message(middle)]);
    let message = letter.begin(ADA, me).subject("Fwd: Fwd: Fragen").body(outer);
    Sample::inbox(&letter, message.build()).with(SystemFlags::ANSWERED).seen()
}

fn digest(me: &str) -> Sample {
    let letter = Letter(54);
    let messages = vec![
        Entity::message(inner(155, "First of the day", "One.\n")),
        Entity::message(inner(156, "Second of the day", "Two.\n")),
        Entity::message(inner(157, "Grüße zum Schluss", "Drei: schön!\n")),
    ];
    let parts = vec![Entity::text("Today's messages: 3\n"), Entity::multipart("digest", messages)];
    let message = letter
        .begin(("Knots", "knots-request@lists.example.org"), me)
        .subject("Knots digest, vol. 12, issue 3")
        .field("List-Id", "Knots <knots.lists.example.org>")
        .body(Entity::multipart("mixed", parts));
    Sample::inbox(&letter, message.build()).in_mailbox(super::threads::LISTS)
}

fn vcard(me: &str) -> Sample {
    let letter = Letter(55);
    let card = "BEGIN:VCARD\r\nVERSION:3.0\r\nN:Lovelace;Ada;;;\r\nFN:Ada Lovelace\r\nEMAIL:ada@example.org\r\nEND:VCARD\r\n";
    let parts = vec![
        Entity::text("My new address.\n"),
        Entity::raw("text/vcard; charset=utf-8; name=ada.vcf", "7bit", card.into())
            .field("Content-Disposition", "attachment; filename=ada.vcf"),
    ];
    let message = letter.begin(ADA, me).subject("New address").body(Entity::multipart("mixed", parts));
    Sample::inbox(&letter, message.build()).in_mailbox("Archive").seen()
}

fn large(me: &str) -> Sample {
    let letter = Letter(56);
    let parts = vec![
        Entity::text("The recording you asked for, 5 MB.\n"),
        Entity::attachment("audio/x-recording", "recording.raw", &random(2, LARGE)),
    ];
    let message =
        letter.begin(GRACE, me).subject("The recording (large)").body(Entity::multipart("mixed", parts));
    Sample::inbox(&letter, message.build())
}

fn random(stream: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SeededRandom::new(SEED ^ stream).fill(&mut bytes);
    bytes
}
