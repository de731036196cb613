//! Each method against an account in memory, as transcripts.

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
    blob_copy,
    blob_get,
    blob_lookup,
    blob_upload,
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
    errors,
    mailbox_changes,
    mailbox_get,
    mailbox_query,
    mailbox_query_changes,
    mailbox_set,
    mdn_parse,
    principal_changes,
    principal_get,
    principal_query,
    principal_query_changes,
    principal_set,
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
];
