//! SETQUOTA, QUOTA and QUOTAROOT (RFC 9208 §7).

use super::Writer;
use crate::types::{AString, Mailbox, QuotaLimit, QuotaResource};

impl Writer {
    pub(super) fn set_quota(&mut self, root: &AString, limits: &[QuotaLimit]) -> &mut Self {
        self.space().astring(root.as_bytes()).space().list(limits, |w, limit| {
            w.raw(limit.name.as_str()).space().number(limit.limit);
        })
    }

    pub(super) fn quota(&mut self, root: &AString, resources: &[QuotaResource]) -> &mut Self {
        self.raw(b"* QUOTA ").astring(root.as_bytes()).space().list(resources, |w, resource| {
            w.raw(resource.name.as_str()).space().number(resource.usage).space().number(resource.limit);
        })
    }

    pub(super) fn quota_root(&mut self, mailbox: &Mailbox, roots: &[AString]) -> &mut Self {
        self.raw(b"* QUOTAROOT ").mailbox(mailbox);
        roots.iter().fold(self, |w, root| w.space().astring(root.as_bytes()))
    }
}
