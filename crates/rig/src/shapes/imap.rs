//! A command of the trace in IMAP syntax (RFC 9051 §9).

use anyhow::{Context, Result, bail, ensure};

use super::Shape;
use super::value::Value;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Replaces every message set, every mailbox besides INBOX, every mod-sequence.
const SET: &str = "1:*";
const MAILBOX: &str = "{mailbox}";
const MODSEQ: &str = "{modseq}";
/// Replaces the identifier of a message: the trace has one of a real server.
const MESSAGE_ID: &str = "<sought@trace.example>";

/// The shape of one command.
///
/// # Errors
/// If the trace cannot contain it.
pub fn shape(value: &Value) -> Result<Shape> {
    let verb = value.name().to_ascii_uppercase();
    let arguments = arguments(&verb, value).with_context(|| verb.clone())?;
    let by_uid = value.field("uid").is_ok_and(|uid| uid.name() == "true");
    let prefix = if by_uid { "UID " } else { "" };
    let command = [&*format!("{prefix}{verb}"), &arguments].join(" ").trim_end().to_owned();
    Ok(Shape { verb, key: key(&command), command })
}

fn arguments(verb: &str, value: &Value) -> Result<String> {
    Ok(match verb {
        "NOOP" | "CHECK" | "CAPABILITY" | "CLOSE" | "EXPUNGE" | "IDLE" | "LOGOUT" | "UNSELECT" => {
            String::new()
        }
        "LOGIN" => "{user} {password}".into(),
        "ENABLE" => match value.field("capabilities")?.inside() {
            [Value::Call(name, _)] if name == "Utf8" => "UTF8=ACCEPT".into(),
            capabilities => names(capabilities),
        },
        "SELECT" | "EXAMINE" => {
            let modifiers = value.field("modifiers")?.inside();
            let condstore =
                if modifiers.is_empty() { String::new() } else { format!(" ({})", names(modifiers)) };
            mailbox(value)? + &condstore
        }
        "CREATE" | "SUBSCRIBE" => mailbox(value)?,
        "STATUS" => format!("{} ({})", mailbox(value)?, names(value.field("item_names")?.inside())),
        "LIST" | "LSUB" => list(value)?,
        "APPEND" => {
            let date = if value.field("date")?.name() == "None" { "" } else { " {date}" };
            format!("{} ({}){date} {{message}}", mailbox(value)?, flags(value)?)
        }
        "STORE" => {
            let silent = if value.field("response")?.name() == "Silent" { ".SILENT" } else { "" };
            ensure!(value.field("kind")?.name() == "Add", "the trace only adds flags");
            format!("{SET} +FLAGS{silent} ({})", flags(value)?)
        }
        "MOVE" => format!("{SET} {}", mailbox(value)?),
        "FETCH" => fetch(value)?,
        "SEARCH" => search(value.field("criteria")?)?,
        other => bail!("{other} is not in the trace"),
    })
}

fn mailbox(value: &Value) -> Result<String> {
    let mailbox = value.field("mailbox")?;
    Ok(if mailbox.name() == "Inbox" { "INBOX" } else { MAILBOX }.to_owned())
}

fn names(values: &[Value]) -> String {
    values.iter().map(|value| value.name().to_ascii_uppercase()).collect::<Vec<_>>().join(" ")
}

fn flags(value: &Value) -> Result<String> {
    let flag = |flag: &Value| flag.text().map_or_else(|| format!("\\{}", flag.name()), str::to_owned);
    Ok(value.field("flags")?.inside().iter().map(flag).collect::<Vec<_>>().join(" "))
}

fn list(value: &Value) -> Result<String> {
    let reference = value.field("reference")?.text().unwrap_or_default();
    let reference = if reference.is_empty() { "\"\"" } else { MAILBOX };
    let pattern = value.field("mailbox_wildcard")?.text().unwrap_or_default();
    let pattern = match pattern {
        "" => "\"\"",
        "*" | "%" | "INBOX" => pattern,
        _ => MAILBOX,
    };
    let options = value.field("return").map_or(&[][..], Value::inside);
    let options: Vec<String> = options
        .iter()
        .map(|option| {
            format!("{} ({})", option.name().to_ascii_uppercase(), names(option.inside()[0].inside()))
        })
        .collect();
    let wanted = if options.is_empty() { String::new() } else { format!(" RETURN ({})", options.join(" ")) };
    Ok(format!("{reference} {pattern}{wanted}"))
}

fn fetch(value: &Value) -> Result<String> {
    let items = value.field("macro_or_item_names")?;
    ensure!(items.name() == "MessageDataItemNames", "{} is not in the trace", items.name());
    let items = items.inside().first().context("no items")?.inside().iter().map(item);
    let items: Vec<String> = items.collect::<Result<_>>()?;
    let modifiers = value.field("modifiers")?.inside().iter().map(|modifier| match modifier.name() {
        // RFC 7162 §3.1.4.1.
        "ChangedSince" => Ok(format!(" (CHANGEDSINCE {MODSEQ})")),
        other => bail!("{other} is not in the trace"),
    });
    let modifiers: String = modifiers.collect::<Result<_>>()?;
    Ok(format!("{SET} ({}){modifiers}", items.join(" ")))
}

fn item(value: &Value) -> Result<String> {
    Ok(match value.name() {
        "Rfc822Size" => "RFC822.SIZE".into(),
        "Rfc822Header" => "RFC822.HEADER".into(),
        "BodyExt" => {
            let peek = if value.field("peek")?.name() == "true" { ".PEEK" } else { "" };
            let section = match value.field("section")?.inside() {
                [section] => section_text(section)?,
                _ => String::new(),
            };
            let partial = match value.field("partial")?.inside() {
                [Value::List(range)] if range.len() == 2 => {
                    format!("<{}.{}>", range[0].name(), range[1].name())
                }
                _ => String::new(),
            };
            format!("BODY{peek}[{section}]{partial}")
        }
        "Uid" | "Flags" | "Envelope" | "InternalDate" | "BodyStructure" | "ModSeq" => {
            value.name().to_ascii_uppercase()
        }
        other => bail!("{other} is not in the trace"),
    })
}

fn section_text(section: &Value) -> Result<String> {
    let inside = section.inside();
    Ok(match section.name() {
        "Header" => "HEADER".into(),
        "Text" => "TEXT".into(),
        "HeaderFields" => {
            let fields = inside.get(1).context("no fields")?.inside();
            let fields: Vec<&str> = fields.iter().filter_map(Value::text).collect();
            format!("HEADER.FIELDS ({})", fields.join(" "))
        }
        "Part" => {
            let numbers = inside.first().and_then(|part| part.inside().first()).context("no part")?.inside();
            numbers.iter().map(Value::name).collect::<Vec<_>>().join(".")
        }
        other => bail!("{other} is not in the trace"),
    })
}

fn search(key: &Value) -> Result<String> {
    let inside = key.inside();
    let first = || inside.first().with_context(|| format!("{} of nothing", key.name()));
    Ok(match key.name() {
        "And" => {
            let keys = first()?.inside().iter().map(search);
            keys.collect::<Result<Vec<_>>>()?.join(" ")
        }
        "Not" => format!("NOT {}", search(first()?)?),
        "SequenceSet" => SET.into(),
        "Since" | "Before" => format!("{} {}", key.name().to_ascii_uppercase(), date(first()?.name())?),
        "Header" => format!("HEADER {} {MESSAGE_ID}", first()?.text().context("no field")?),
        "All" | "Deleted" | "Undeleted" | "Unseen" => key.name().to_ascii_uppercase(),
        other => bail!("{other} is not in the trace"),
    })
}

/// `2024-02-07` in the syntax of searches: `7-Feb-2024`.
fn date(text: &str) -> Result<String> {
    let parts: Vec<u32> =
        text.split('-').map(str::parse).collect::<Result<_, _>>().with_context(|| text.to_owned())?;
    let [year, month @ 1..=12, day] = parts[..] else { bail!("{text} is no date") };
    Ok(format!("{day}-{}-{year}", MONTHS[month as usize - 1]))
}

/// Commands that differ in a date or the length of a part are one shape, and so are two ways to
/// write UNDELETED (RFC 9051 §6.4.4).
fn key(command: &str) -> String {
    let words = command.replace("NOT DELETED", "UNDELETED");
    let is_date = |word: &str| MONTHS.iter().any(|month| word.contains(&format!("-{month}-")));
    let word = |word: &str| match word.split_once("]<") {
        Some((section, _)) => format!("{section}]<0>"),
        None if is_date(word) => "date".to_owned(),
        None => word.to_owned(),
    };
    words.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Shape {
        shape(&Value::parse(line).unwrap()).unwrap()
    }

    #[test]
    fn commands_are_written_as_clients_send_them() {
        for (line, command) in [
            (
                r#"Fetch { sequence_set: SequenceSet([Range(Value(1), Value(2))]+), modifiers: [], macro_or_item_names: MessageDataItemNames([Uid, Rfc822Size, BodyExt { section: Some(HeaderFields(None, [Atom(AtomExt("From")), Atom(AtomExt("To"))]+)), partial: None, peek: true }, BodyStructure]), uid: false } }"#,
                "FETCH 1:* (UID RFC822.SIZE BODY.PEEK[HEADER.FIELDS (From To)] BODYSTRUCTURE)",
            ),
            (
                "Fetch { sequence_set: SequenceSet([Single(Value(6))]+), modifiers: [], macro_or_item_names: MessageDataItemNames([BodyExt { section: Some(Part(Part([1, 2]+))), partial: Some((0, 711)), peek: true }, BodyExt { section: None, partial: None, peek: false }]), uid: true } }",
                "UID FETCH 1:* (BODY.PEEK[1.2]<0.711> BODY[])",
            ),
            (
                r#"Search { charset: None, criteria: And([Header(Atom(AtomExt("Message-ID")), Atom(AtomExt("<a@b>"))), Not(Deleted)]+), uid: true } }"#,
                "UID SEARCH HEADER Message-ID <sought@trace.example> NOT DELETED",
            ),
            (
                r#"List { reference: Other(MailboxOther(String(Quoted(Quoted(""))))), mailbox_wildcard: String(Quoted(Quoted("*"))), return: [Status([Unseen])] } }"#,
                "LIST \"\" * RETURN (STATUS (UNSEEN))",
            ),
            (
                r#"Store { sequence_set: SequenceSet([Single(Value(5))]+), kind: Add, response: Silent, flags: [Keyword(Atom("NonJunk")), Seen], modifiers: [], uid: true } }"#,
                "UID STORE 1:* +FLAGS.SILENT (NonJunk \\Seen)",
            ),
            ("Enable { capabilities: [Utf8(Accept)]+ } }", "ENABLE UTF8=ACCEPT"),
            ("Select { mailbox: Inbox, modifiers: [Condstore] } }", "SELECT INBOX (CONDSTORE)"),
        ] {
            assert_eq!(of(line).command, command);
        }
    }

    #[test]
    fn dates_and_lengths_do_not_make_another_shape() {
        assert_eq!(key("SEARCH SINCE 7-Feb-2024 ALL"), key("SEARCH SINCE 9-Feb-2024 ALL"));
        assert_eq!(key("FETCH 1:* (BODY.PEEK[1]<0.7>)"), key("FETCH 1:* (BODY.PEEK[1]<0.9>)"));
        assert_ne!(key("FETCH 1:* (BODY.PEEK[1]<0.7>)"), key("FETCH 1:* (BODY.PEEK[1])"));
        assert_eq!(key("SEARCH 1:* NOT DELETED"), key("SEARCH 1:* UNDELETED"));
    }

    #[test]
    fn unknown_commands_of_a_trace_are_refused() {
        for line in ["Frob", "Fetch { uid: true }", "Search { criteria: Since(2024-13-01), uid: true }"] {
            assert!(shape(&Value::parse(line).unwrap()).is_err(), "{line}");
        }
    }
}
