//! Reads the messages of a FETCH ahead, while the responses of earlier ones are written.

use std::sync::Arc;

use sealpost_account::MessageNumber;
use sealpost_mailbox::read_ahead::{ReadAhead, reads_stored};

use super::derived::Sources;
use super::items::Plan;
use super::pipeline::stopped;
use super::response::write_message;
use super::rows::FetchRow;
use super::trouble::Trouble;
use super::{AHEAD_ROWS, BATCH_ROWS, LOCAL_AHEAD_ROWS, LOCAL_BATCH_ROWS};
use crate::connection::End;
use crate::reply::Failure;
use crate::responses::Responses;
use crate::selected::Selected;

/// The messages of one FETCH that derived data cannot serve.
pub(super) struct Messages {
    pub(super) sources: Arc<Sources>,
    pub(super) rows: Rows,
    reading: ReadAhead<FetchRow, Plan>,
}

/// How many rows are copied at once, and of how many of them the messages may still be read then.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) batch: usize,
    pub(super) ahead: usize,
}

impl Rows {
    fn of(selected: &Selected, plan: &Plan) -> Self {
        // A pack is memory that rows of another one would take.
        match plan.reads_bytes() && !selected.account().store().wants_packs() {
            true => Rows { batch: LOCAL_BATCH_ROWS, ahead: LOCAL_AHEAD_ROWS },
            false => Rows { batch: BATCH_ROWS, ahead: AHEAD_ROWS },
        }
    }
}

impl Messages {
    pub(super) fn new(selected: &Selected, plan: &Arc<Plan>) -> Self {
        let sources = Sources::new(selected, plan);
        let (packs, structures) = (sources.packs.clone(), sources.structures.clone());
        let reading = ReadAhead::new(selected.account().clone(), plan.clone(), packs, structures);
        Messages { sources: Arc::new(sources), rows: Rows::of(selected, plan), reading }
    }

    /// The number of added messages without a response.
    pub(super) fn len(&self) -> usize {
        self.reading.len()
    }

    /// Adds messages to read.
    pub(super) async fn push(&mut self, plan: &Plan, rows: Vec<FetchRow>) {
        let Sources { packs, headers, structures } = &*self.sources;
        // A request that waits for memory must hold none; `ReadAhead` releases the rest.
        headers.release();
        let (numbers, stored) = {
            let coming = || self.reading.waiting().chain(&rows);
            let stored = coming().filter(|row| reads_stored(plan, &row.message)).map(|row| row.number);
            let numbers: Vec<MessageNumber> = coming().map(|row| row.number).collect();
            (numbers, stored.collect::<Vec<_>>())
        };
        // Segments that may have everything are announced already.
        let is_expected = plan.is_derived() && plan.reads_structure();
        if (plan.reads_outline() || plan.reads_structure()) && !is_expected {
            structures.expect(stored).await;
        }
        packs.expect(numbers).await;
        self.reading.push(rows);
    }

    /// Writes the responses of all but the last `left` messages.
    pub(super) async fn write(
        &mut self,
        selected: &Selected,
        responses: &mut Responses,
        plan: &Plan,
        left: usize,
        trouble: &mut Trouble,
    ) -> Result<(), Failure> {
        while self.reading.len() > left {
            let next = responses.await_with_progress(self.reading.next()).await?.map_err(stopped)?;
            let Some(mut prepared) = next else { return Ok(()) };
            if responses.connection.is_stopping() {
                return Err(End::Shutdown.into());
            }
            write_message(selected, responses, &mut prepared, plan, trouble).await?;
            // The reservation of the message also covers its unsent response.
            responses.relieve().await?;
        }
        Ok(())
    }
}
