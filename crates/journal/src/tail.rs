//! [`Tail`]: the end of a log.

use sealpost_base::Position;
use sealpost_vault::Hash;
use sealpost_vault::entry::Generation;

use crate::ballot::Ballot;

/// The end of a log as a process knows it: the last position and the hash of the entry there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub struct Tail {
    /// The last entry's position; [`Position::ZERO`] for an empty log.
    #[n(0)]
    pub position: Position,
    /// The last entry's hash; [`Hash::ZERO`] for an empty log.
    #[n(1)]
    pub hash: Hash,
    /// The ballot of the last entry, on a store without conditional create.
    #[n(2)]
    pub ballot: Option<Ballot>,
    /// The generation of UIDs after it.
    #[n(3)]
    pub generation: Generation,
}

impl Tail {
    /// The end of an empty log.
    pub const EMPTY: Tail =
        Tail { position: Position::ZERO, hash: Hash::ZERO, ballot: None, generation: Generation(0) };
}
