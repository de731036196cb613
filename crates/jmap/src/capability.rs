//! Names of capabilities (RFC 8620 §2, §9.4): what `using` lists, and what each method needs.

use crate::read::string_enum;

string_enum! {
    /// A capability that this crate has the types of.
    pub enum Capability {
        /// RFC 8620.
        Core = "urn:ietf:params:jmap:core",
        /// RFC 8621 §1.3.1: Mailbox, Thread, Email, SearchSnippet.
        Mail = "urn:ietf:params:jmap:mail",
        /// RFC 8621 §1.3.2: Identity, EmailSubmission.
        Submission = "urn:ietf:params:jmap:submission",
        /// RFC 8621 §1.3.3.
        VacationResponse = "urn:ietf:params:jmap:vacationresponse",
        /// RFC 9404.
        Blob = "urn:ietf:params:jmap:blob",
        /// RFC 8887; it has no methods.
        WebSocket = "urn:ietf:params:jmap:websocket",
        /// RFC 9749; it has no methods.
        WebPushVapid = "urn:ietf:params:jmap:webpush-vapid",
        /// RFC 9007.
        Mdn = "urn:ietf:params:jmap:mdn",
        /// RFC 9425.
        Quota = "urn:ietf:params:jmap:quota",
        /// RFC 9670 §1.5.1: Principal, ShareNotification.
        Principals = "urn:ietf:params:jmap:principals",
        /// RFC 9670 §1.5.2: a key of accounts only, which no request uses.
        PrincipalsOwner = "urn:ietf:params:jmap:principals:owner",
        /// RFC 9610: AddressBook, ContactCard.
        Contacts = "urn:ietf:params:jmap:contacts",
    }
}

impl Capability {
    /// The capability that defines a method, by its name: `Email/get` needs [`Capability::Mail`].
    /// A client must list it in `using` (RFC 8620 §3.3). `None` for a name of no specification.
    pub fn of_method(method: &str) -> Option<Capability> {
        let (data_type, _) = method.split_once('/')?;
        Some(match data_type {
            // Copying blobs is of the core (RFC 8620 §6.3); the other methods are not.
            "Blob" if method == "Blob/copy" => Capability::Core,
            "Core" | "PushSubscription" => Capability::Core,
            "Mailbox" | "Thread" | "Email" | "SearchSnippet" => Capability::Mail,
            "Identity" | "EmailSubmission" => Capability::Submission,
            "VacationResponse" => Capability::VacationResponse,
            "Blob" => Capability::Blob,
            "MDN" => Capability::Mdn,
            "Quota" => Capability::Quota,
            "Principal" | "ShareNotification" => Capability::Principals,
            "AddressBook" | "ContactCard" => Capability::Contacts,
            _ => return None,
        })
    }
}
