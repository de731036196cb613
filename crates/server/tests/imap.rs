//! IMAP against a real session: transcripts, and what a transcript cannot say.

#[path = "support/deflate_wire.rs"]
mod deflate_wire;
#[path = "support/imap_world.rs"]
mod imap_world;

macro_rules! transcripts {
    ($($name:ident),* $(,)?) => {
        $(#[tokio::test]
        async fn $name() {
            let name = concat!("imap/", stringify!($name), ".txt");
            imap_world::play(name, include_str!(concat!("imap/", stringify!($name), ".txt"))).await;
        })*
    };
}

transcripts![
    acl,
    append,
    appendlimit,
    authenticate,
    binary,
    binary_size,
    capability,
    catenate,
    catenate_size,
    close,
    condstore,
    context_search,
    context_sort,
    copy,
    create,
    delete,
    enable,
    errors,
    esearch,
    examine,
    expunge,
    fetch,
    fetch_header,
    fetch_encoded,
    fetch_nested,
    fetch_partial,
    filters,
    fuzzy,
    http,
    i18nlevel,
    idle,
    keyword_limits,
    list,
    literal_minus,
    list_extended,
    list_metadata,
    list_myrights,
    list_status,
    literals,
    login,
    lsub,
    metadata,
    metadata_server,
    moves,
    multiappend,
    multiappend_quota,
    multisearch,
    names,
    new_keywords,
    notify,
    notify_shared,
    notify_qresync,
    oauthbearer,
    objectid,
    partial,
    preview,
    qresync,
    quota,
    quota_set,
    rename,
    rev2,
    rev2_names,
    rev2_structure,
    savedate,
    replace,
    replace_qresync,
    replace_quota,
    search,
    special_use,
    search_charset,
    searchres,
    select,
    sharing,
    sharing_copy,
    sharing_create,
    sharing_rights,
    sort,
    sort_again,
    sort_display,
    starttls,
    status,
    status_size,
    store,
    sync_apple_mail,
    sync_gmail,
    sync_k9,
    sync_mbsync,
    sync_outlook,
    sync_thunderbird,
    thread_orderedsubject,
    thread_references,
    uid,
    uidonly,
    uidplus,
    utf8_accept,
    utf8_names,
    unauthenticate,
    urlauth,
    views,
    xoauth2,
    within,
];

#[path = "imap/appends.rs"]
mod append_mode;
#[path = "imap/arrivals.rs"]
mod arrivals;
#[path = "imap/compress.rs"]
mod compress;
#[path = "imap/contexts.rs"]
mod contexts;
#[path = "imap/damage.rs"]
mod damage;
#[path = "imap/faults.rs"]
mod faults;
#[path = "imap/finding.rs"]
mod finding;
#[path = "imap/fuzz.rs"]
mod fuzz;
#[path = "imap/hostile.rs"]
mod hostile;
#[path = "imap/hostile_input.rs"]
mod hostile_input;
#[path = "imap/inprogress.rs"]
mod inprogress;
#[path = "imap/large.rs"]
mod large;
#[path = "imap/leftovers.rs"]
mod leftovers;
#[path = "imap/locked_urls.rs"]
mod locked_urls;
#[path = "imap/model.rs"]
mod model;
#[path = "imap/nodes.rs"]
mod nodes;
#[path = "imap/nul.rs"]
mod nul;
#[path = "imap/oauth.rs"]
mod oauth;
#[path = "imap/object_ids.rs"]
mod object_ids;
#[path = "imap/refused.rs"]
mod refused;
#[path = "imap/results.rs"]
mod results;
#[path = "imap/revoked.rs"]
mod revoked;
#[path = "imap/sessions.rs"]
mod sessions;
#[path = "imap/shares.rs"]
mod shares;
#[path = "imap/sorting.rs"]
mod sorting;
#[path = "imap/structures.rs"]
mod structures;
#[path = "imap/vanished.rs"]
mod vanished;
