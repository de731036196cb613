//! [`Stored`]: a message in the store to which no event refers yet.

use bytes::Bytes;
use minicbor::bytes::ByteVec;
use sealpost_base::{ObjectId, Result, Timestamp};
use sealpost_vault::message::{Layout, MessageKey};

use super::age::Age;
use crate::event::Message;
use crate::thread::Threading;

/// A stored message to which no event refers yet.
#[derive(Clone)]
pub struct Stored {
    pub(super) object: ObjectId,
    pub(super) key: MessageKey,
    pub(super) layout: Layout,
    /// The object from which it was sealed again.
    pub(super) origin: Option<Box<ObjectId>>,
    /// Its sealed structure, for readers of its delivery.
    pub(super) structure: Option<Bytes>,
    pub(super) threading: Threading,
    pub(super) age: Age,
}

impl Stored {
    pub(super) fn new(
        object: ObjectId,
        key: MessageKey,
        layout: Layout,
        threading: Threading,
        age: Age,
    ) -> Self {
        Stored { object, key, layout, origin: None, structure: None, threading, age }
    }

    /// RFC822.SIZE of the message.
    pub fn size(&self) -> u64 {
        self.layout.raw_bytes
    }

    /// Bytes on disk that its body takes.
    pub fn body_bytes(&self) -> u64 {
        self.layout.sealed_raw.saturating_add(self.layout.sealed_index.into())
    }

    /// The sealed object.
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// Checks that an event may still refer to it.
    ///
    /// # Errors
    /// `Retry` if it is so old that it may have been collected.
    pub fn check_age(&self) -> Result<()> {
        self.age.check()
    }

    /// The structure for the event of its delivery.
    pub(crate) fn sealed_structure(&self) -> Option<ByteVec> {
        self.structure.as_ref().map(|sealed| sealed.to_vec().into())
    }

    /// The message for events.
    pub fn message(&self, received: Timestamp) -> Message {
        let (key, origin) = (self.key.clone(), self.origin.clone());
        let Threading { thread, links } = self.threading.clone();
        Message { object: self.object, key, layout: self.layout, received, origin, thread, links }
    }
}
