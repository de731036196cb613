//! Bringing the summaries of some messages together, in a block that is as large as what was asked for.

use std::sync::Arc;

use futures::StreamExt;
use sealpost_base::{Error, Result};
use sealpost_mime::{Structure, Text};

use super::stream::Wanted;
use super::{Block, Entry, Parts, Summary};
use crate::account::Account;
use crate::event::Message;

/// Messages whose structure and text are read at once.
const AT_ONCE: usize = 8;

/// The summaries of `wanted`, in order; as many as fit into `bytes`, at least one.
pub(super) async fn gather(
    account: &Account,
    wanted: &[Wanted],
    parts: Parts,
    bytes: usize,
) -> Vec<Result<Summary>> {
    let mut block = Block { parts, ..Block::default() };
    let mut places: Vec<Result<u32>> = Vec::new();
    let mut entries =
        futures::stream::iter(wanted.to_vec()).map(|wanted| direct(account, wanted)).buffered(AT_ONCE);
    while let Some(entry) = entries.next().await {
        places.push(entry.map(|entry| {
            block.push(entry.sent, entry.headers_complete, entry.parts());
            block.entries.len() as u32 - 1
        }));
        if block.text.len() > bytes {
            break;
        }
    }
    let block = Arc::new(block);
    places.into_iter().map(|at| at.map(|at| Summary { block: block.clone(), at })).collect()
}

/// Makes the summary from what is stored with the message.
async fn direct(account: &Account, wanted: Wanted) -> Result<Entry> {
    let message = account.state().message(wanted.number).filter(|m| m.object == wanted.object).cloned();
    let message = message.ok_or_else(|| Error::not_found("the message is gone"))?;
    make(account, &message).await
}

pub(super) async fn make(account: &Account, message: &Message) -> Result<Entry> {
    let (structure, text) = account.reader(message).structure_and_text().await?;
    Ok(Entry::new(&Structure::decode(&structure)?, &Text::decode(&text)?))
}
