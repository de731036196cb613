//! Conversations: a thread with References, a mailing list, and what was sent.

use sealpost_account::SystemFlags;
use sealpost_mime::Entity;

use super::Sample;
use super::letter::{ADA, GRACE, JOERG, Letter};

/// The mailbox of the mailing list.
pub const LISTS: &str = "Lists/Knots";

/// The samples.
pub fn samples(me: &str) -> Vec<Sample> {
    let mut samples = thread(me);
    samples.extend(list(me));
    samples.extend([sent(me), archived(me), junk(me), trash(me)]);
    samples
}

/// Five messages; the fourth answers the second.
fn thread(me: &str) -> Vec<Sample> {
    let first = Letter(60);
    let root =
        first.begin(ADA, me).subject("Where shall we meet?").body(Entity::text("The usual place?\n")).build();
    let mut samples = vec![Sample::inbox(&first, root).seen().with(SystemFlags::ANSWERED)];
    type Answer<'a> = (u32, (&'a str, &'a str), &'a [u32], &'a str);
    let answers: [Answer<'_>; 4] = [
        (61, GRACE, &[60], "> The usual place?\n\nIt is closed on Mondays.\n"),
        (62, ADA, &[60, 61], "> It is closed on Mondays.\n\nTuesday, then.\n"),
        (63, JOERG, &[60, 61], "> It is closed on Mondays.\n\nSeit wann? Früher war es doch geöffnet.\n"),
        (64, GRACE, &[60, 61, 62], ">> It is closed on Mondays.\n> Tuesday, then.\n\nTuesday it is.\n"),
    ];
    for (number, from, references, text) in answers {
        let letter = Letter(number);
        let references: Vec<String> = references.iter().map(|&number| Letter(number).id()).collect();
        let message = letter
            .begin(from, me)
            .subject("Re: Where shall we meet?")
            .field("In-Reply-To", references.last().map_or("", String::as_str))
            .field("References", &references.join("\r\n "))
            .body(Entity::text(text));
        samples.push(Sample::inbox(&letter, message.build()));
    }
    samples
}

fn list(me: &str) -> Vec<Sample> {
    let posts = [
        (70, ADA, "[knots] A bend for wet rope", "Which bend holds in wet rope?\n", None),
        (
            71,
            JOERG,
            "Re: [knots] A bend for wet rope",
            "> Which bend holds in wet rope?\n\nThe zeppelin bend.\n",
            Some(70),
        ),
        (
            72,
            GRACE,
            "[knots] Splicing workshop",
            "There are two places left for the workshop on splicing.\n",
            None,
        ),
    ];
    let post = |(number, from, subject, text, parent): (u32, (&str, &str), &str, &str, Option<u32>)| {
        let letter = Letter(number);
        let mut message = letter
            .begin(from, "knots@lists.example.org")
            .subject(subject)
            .field("Reply-To", "knots@lists.example.org")
            .field("Sender", "knots-bounces@lists.example.org")
            .field("List-Id", "Knots <knots.lists.example.org>")
            .field("List-Post", "<mailto:knots@lists.example.org>")
            .field("List-Help", "<mailto:knots-request@lists.example.org?subject=help>")
            .field("Delivered-To", me)
            .field("Precedence", "list");
        if let Some(parent) = parent {
            message =
                message.field("In-Reply-To", &Letter(parent).id()).field("References", &Letter(parent).id());
        }
        let footer = "\n_______________________________________________\nknots mailing list\n";
        let message = message.body(Entity::text(&format!("{text}{footer}")));
        Sample::inbox(&letter, message.build()).in_mailbox(LISTS)
    };
    posts.into_iter().map(post).collect()
}

fn sent(me: &str) -> Sample {
    let letter = Letter(75);
    let message = letter
        .begin(("", me), "ada@example.org")
        .addresses("Cc", &[GRACE, JOERG])
        .addresses("Bcc", &[("", "archive@example.org")])
        .subject("Re: The notes")
        .field("In-Reply-To", &Letter(2).id())
        .field("References", &Letter(2).id())
        .body(Entity::text("Found them, thank you. The ink has dried.\n"));
    Sample::inbox(&letter, message.build()).in_mailbox("Sent").seen()
}

fn archived(me: &str) -> Sample {
    let letter = Letter(76);
    let message =
        letter.begin(GRACE, me).subject("Minutes of the last meeting").body(Entity::text("All agreed.\n"));
    Sample::inbox(&letter, message.build()).in_mailbox("Archive").seen()
}

fn junk(me: &str) -> Sample {
    let letter = Letter(77);
    let html =
        "<html><body><font size=7 color=red>You have WON!!!</font><br>C l i c k &nbsp; here</body></html>";
    let message = letter
        .begin(("Dr. Prince", "win@lottery.example"), me)
        .subject("CONGRATULATIONS!!! 100% FREE $$$")
        .body(Entity::html(html));
    Sample::inbox(&letter, message.build()).in_mailbox("Junk").keyword("$Junk")
}

fn trash(me: &str) -> Sample {
    let letter = Letter(78);
    let message =
        letter.begin(JOERG, me).subject("Mittagessen heute?").body(Entity::text("12:30 wie immer?\n"));
    Sample::inbox(&letter, message.build()).in_mailbox("Trash").seen()
}
