//! Runs the transcript of each method against an account in memory.

#[path = "support/push_service.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod push_service;
#[path = "support/server.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod server;
#[path = "support/transcript.rs"]
mod transcript;

macro_rules! transcripts {
    ($($name:ident,)*) => {
        $(#[tokio::test]
        async fn $name() {
            let text = include_str!(concat!("transcripts/", stringify!($name), ".txt"));
            transcript::play(stringify!($name), text).await;
        })*
    };
}

transcripts![
    address_book_changes,
    address_book_get,
    address_book_set,
    blob_copy,
    blob_get,
    blob_lookup,
    blob_upload,
    contact_card_changes,
    contact_card_copy,
    contact_card_get,
    contact_card_media,
    contact_card_query,
    contact_card_query_changes,
    contact_card_set,
    core_echo,
    email_changes,
    email_copy,
    email_get,
    email_get_body,
    email_get_headers,
    email_import,
    email_parse,
    email_query,
    email_query_changes,
    email_set,
    email_submission_changes,
    email_submission_get,
    email_submission_query,
    email_submission_query_changes,
    email_submission_set,
    errors,
    identity_changes,
    identity_get,
    identity_set,
    mailbox_changes,
    mailbox_get,
    mailbox_query,
    mailbox_query_changes,
    mailbox_set,
    mdn_parse,
    mdn_send,
    principal_changes,
    principal_get,
    principal_query,
    principal_query_changes,
    principal_set,
    push_subscription_get,
    push_subscription_set,
    quota_changes,
    quota_get,
    quota_query,
    quota_query_changes,
    search_snippet_get,
    share_notification_changes,
    share_notification_get,
    share_notification_query,
    share_notification_query_changes,
    share_notification_set,
    shared_mailboxes,
    thread_changes,
    thread_get,
    vacation_response_get,
    vacation_response_set,
];
