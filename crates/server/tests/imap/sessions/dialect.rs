//! The dialects that clients speak: which extensions they turned on.

/// The dialect. An extension that changes the unsolicited updates of sessions is one more of these,
/// and a line in [`Dialect::setup`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Rev1,
    Rev2,
    CondStore,
    QResync,
    UidOnly,
    UidOnlyQResync,
    /// NOTIFY (SELECTED …): reported at once, whether or not a command is in progress, so it names
    /// messages by UID.
    Notify,
    /// NOTIFY (SELECTED-DELAYED …), with QRESYNC.
    NotifyDelayed,
}

impl Dialect {
    pub const ALL: [Dialect; 8] = [
        Dialect::Rev1,
        Dialect::Rev2,
        Dialect::CondStore,
        Dialect::QResync,
        Dialect::UidOnly,
        Dialect::UidOnlyQResync,
        Dialect::Notify,
        Dialect::NotifyDelayed,
    ];

    /// Commands that begin a session.
    pub fn setup(self) -> &'static [&'static str] {
        match self {
            Dialect::Rev1 => &[],
            Dialect::Rev2 => &["ENABLE IMAP4rev2"],
            Dialect::CondStore => &["ENABLE CONDSTORE"],
            Dialect::QResync => &["ENABLE QRESYNC"],
            Dialect::UidOnly => &["ENABLE UIDONLY"],
            Dialect::UidOnlyQResync => &["ENABLE UIDONLY QRESYNC"],
            Dialect::Notify => &["NOTIFY SET (SELECTED (MessageNew (UID FLAGS) MessageExpunge FlagChange))"],
            Dialect::NotifyDelayed => &[
                "ENABLE QRESYNC",
                "NOTIFY SET (SELECTED-DELAYED (MessageNew (UID FLAGS MODSEQ) MessageExpunge FlagChange))",
            ],
        }
    }

    pub fn modseq(self) -> bool {
        self == Dialect::CondStore || self.qresync()
    }

    pub fn qresync(self) -> bool {
        matches!(self, Dialect::QResync | Dialect::UidOnlyQResync | Dialect::NotifyDelayed)
    }

    pub fn uid_only(self) -> bool {
        matches!(self, Dialect::UidOnly | Dialect::UidOnlyQResync)
    }

    /// Whether messages are named by UID only: because it must, or because numbers may change under
    /// its hands.
    pub fn names_uids(self) -> bool {
        self.uid_only() || self == Dialect::Notify
    }

    pub fn vanished(self) -> bool {
        self.qresync() || self.uid_only()
    }
}
