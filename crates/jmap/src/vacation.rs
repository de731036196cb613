//! Vacation responses (RFC 8621 §8): one for each account.

use crate::data_type::data_type;
use crate::date::UtcDate;
use crate::id::Id;
use crate::standard::{GetRequest, GetResponse, SetRequest, SetResponse};

data_type! {
    /// What is answered to mail while the user is away.
    pub struct VacationResponse, VacationProperty {
        /// [`VacationResponse::ID`].
        id: Id = Id "id" [server_set],
        /// Whether anything is answered.
        is_enabled: bool = IsEnabled "isEnabled" [settable],
        /// Mail since then; none is at once.
        from_date: Option<UtcDate> = FromDate "fromDate" [settable],
        /// Mail before then; none is for ever.
        to_date: Option<UtcDate> = ToDate "toDate" [settable],
        /// The subject; none is the server's.
        subject: Option<String> = Subject "subject" [settable],
        /// The plain text.
        text_body: Option<String> = TextBody "textBody" [settable],
        /// The HTML.
        html_body: Option<String> = HtmlBody "htmlBody" [settable],
    }
}

impl VacationResponse {
    /// The id of the only one.
    pub const ID: &'static str = "singleton";
}

/// Arguments of VacationResponse/get (§8.1).
pub type VacationGet = GetRequest<VacationProperty>;
/// The response to VacationResponse/get.
pub type VacationGetResponse = GetResponse<VacationResponse>;
/// Arguments of VacationResponse/set (§8.2).
pub type VacationSet = SetRequest;
/// The response to VacationResponse/set.
pub type VacationSetResponse = SetResponse<VacationResponse>;
