//! Mail archives outside the store: mbox, Maildir and single messages, read and written as streams.
