//! Values of the protocol. Every value that can be constructed is valid: no later check is needed.

mod address;
mod command;
mod misuse;
mod reply;

pub(crate) use address::is_atext;
pub use address::{ForwardPath, Host, LocalPart, Mailbox, ReversePath};
pub use command::{
    Auth, Body, Burl, Chunk, ClientName, Command, HOLD_SECONDS, Hello, Hold, Mail, Notify, OriginalRecipient,
    Rcpt, Return, Secret, Verb,
};
pub use misuse::Misuse;
pub use reply::{Enhanced, Reply};
