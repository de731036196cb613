//! What becomes of the labels of Gmail in a file of Google Takeout.

use sealpost_account::{AccountState, SpecialUse, SpecialUses, name, ops};
use sealpost_base::Result;
use sealpost_mailformat::Meta;
use sealpost_mailformat::takeout::Label;

use super::Args;
use super::target::{below, tame};

/// What labels are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LabelsAs {
    /// As mailboxes: each label names a mailbox that gets the message
    #[default]
    Mailboxes,
    /// As keywords of messages in the mailbox of their file
    Keywords,
    /// Not at all; flags neither
    Ignore,
}

/// A mailbox that a label names, and what it is for if it has to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub name: String,
    pub uses: SpecialUses,
}

impl Target {
    /// A mailbox for nothing in particular.
    pub fn plain(name: String) -> Self {
        Target { name, uses: SpecialUses::default() }
    }
}

/// The mailboxes of a message of an archive whose own is `mailbox`, at least one and each once.
/// Labels that become keywords are added to its flags.
///
/// # Errors
/// If no mailbox can be called so.
pub fn targets(state: &AccountState, meta: &mut Meta, mailbox: &str, args: &Args) -> Result<Vec<Target>> {
    let of_the_file = || vec![Target::plain(mailbox.to_owned())];
    let Some(labels) = &meta.labels else { return Ok(of_the_file()) };
    if args.labels == LabelsAs::Keywords {
        meta.flags.get_or_insert_default().extend(labels.keywords());
    }
    if args.labels != LabelsAs::Mailboxes || args.mailbox.is_some() {
        return Ok(of_the_file());
    }
    let mut targets: Vec<Target> = Vec::new();
    for label in labels.mailboxes() {
        let target = self::mailbox(state, &label, args.prefix.as_deref())?;
        if !targets.iter().any(|other| other.name == target.name) {
            targets.push(target);
        }
    }
    Ok(targets)
}

/// The mailbox that `label` names. Of Gmail's own it is the one that the account has for that (RFC
/// 6154), and is called as most programs call it if there is none.
///
/// # Errors
/// If no mailbox can be called so.
fn mailbox(state: &AccountState, label: &Label, prefix: Option<&str>) -> Result<Target> {
    let (use_, plain) = match label {
        Label::Sent => (SpecialUse::Sent, "Sent"),
        Label::Draft => (SpecialUse::Drafts, "Drafts"),
        Label::Junk => (SpecialUse::Junk, "Junk"),
        Label::Trash => (SpecialUse::Trash, "Trash"),
        Label::Named(label) => {
            let name = name::normal(&below(prefix, &tame(label))).into_owned();
            name::check(&name)?;
            return Ok(Target::plain(name));
        }
        Label::Inbox => return Ok(Target::plain(below(prefix, "INBOX"))),
        _ => (SpecialUse::Archive, "Archive"),
    };
    if prefix.is_some() {
        return Ok(Target::plain(below(prefix, plain)));
    }
    Ok(match state.mailbox_for(use_) {
        Some(mailbox) => Target::plain(mailbox.name().to_owned()),
        None if ops::find(state, plain).is_some() => Target::plain(plain.to_owned()),
        None => Target { name: plain.to_owned(), uses: [use_].into_iter().collect() },
    })
}
