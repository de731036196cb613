//! One append-only, hash-chained, sealed log per account: append, replay, checkpoint, trim, doorbell.
