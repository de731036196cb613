//! GETQUOTA, GETQUOTAROOT, SETQUOTA, QUOTA and QUOTAROOT (RFC 9208 §7).

use sealpost_base::limits;

use super::cursor::{Cursor, Failure, Parsed};
use crate::types::{CommandBody, QuotaLimit, QuotaResource, Response};

/// `setquota = "SETQUOTA" SP quota-root-name SP setquota-list`
pub(super) fn set(cursor: &mut Cursor<'_>) -> Parsed<CommandBody> {
    let root = cursor.astring()?;
    cursor.space()?;
    let limits = cursor.list(|cursor| {
        let name = cursor.atom()?;
        cursor.space()?;
        Ok(QuotaLimit { name, limit: cursor.number()? })
    })?;
    if limits.len() > limits::IMAP_ITEMS {
        return Err(Failure::Bad("too many resources"));
    }
    Ok(CommandBody::SetQuota { root, limits })
}

/// `quota-response = "QUOTA" SP quota-root-name SP quota-list`
pub(super) fn quota(cursor: &mut Cursor<'_>) -> Parsed<Response> {
    cursor.space()?;
    let root = cursor.astring()?;
    cursor.space()?;
    let resources = cursor.list(|cursor| {
        let name = cursor.atom()?;
        cursor.space()?;
        let usage = cursor.number()?;
        cursor.space()?;
        Ok(QuotaResource { name, usage, limit: cursor.number()? })
    })?;
    Ok(Response::Quota { root, resources })
}

/// `quotaroot-response = "QUOTAROOT" SP mailbox *(SP quota-root-name)`
pub(super) fn quota_root(cursor: &mut Cursor<'_>) -> Parsed<Response> {
    cursor.space()?;
    let mailbox = cursor.mailbox()?;
    let mut roots = Vec::new();
    while cursor.eat(b' ') && !cursor.at_end() {
        roots.push(cursor.astring()?);
    }
    Ok(Response::QuotaRoot { mailbox, roots })
}
