//! [`LogKey`]: the keys by which an installation authenticates its logs, made from those of `server.key`.

use std::sync::Arc;

use crate::cipher::{Secret, equal, hmac_sha256, sha256};
use crate::server_key::{Role, ServerKeys};

pub(super) const KEY_ID_BYTES: usize = 4;
pub(crate) const MAC_BYTES: usize = 32;

/// Authenticates the entries of all logs of an installation, and [marks](crate::mark) of their
/// positions. Cheap to clone.
#[derive(Clone)]
pub struct LogKey(Arc<[KeyParts]>);

/// Of one server key; the first one is the current one's, the others only verify.
pub(super) struct KeyParts {
    pub(super) mac: Secret,
    pub(super) id: [u8; KEY_ID_BYTES],
    pub(super) is_retired: bool,
}

impl LogKey {
    /// The installation's.
    pub fn of(server: &ServerKeys) -> Self {
        let parts = server.purposes("log entries").into_iter().map(|(role, mac)| {
            let mut id = [0; KEY_ID_BYTES];
            id.copy_from_slice(&sha256(&[b"sealpost log key id v1", mac.bytes()])[..KEY_ID_BYTES]);
            KeyParts { mac, id, is_retired: role == Role::Retired }
        });
        LogKey(parts.collect())
    }

    /// One that is always the same, for tests.
    #[doc(hidden)]
    pub fn for_tests() -> Self {
        Self::of(&ServerKeys::generate(&sealpost_base::SeededRandom::new(1)))
    }

    pub(super) fn current(&self) -> &KeyParts {
        &self.0[0]
    }

    pub(super) fn called(&self, id: &[u8]) -> Option<&KeyParts> {
        self.0.iter().find(|key| key.id == id)
    }

    /// Whether there is a key that was retired.
    pub fn has_retired(&self) -> bool {
        self.0.iter().any(|key| key.is_retired)
    }

    pub(crate) fn current_id(&self) -> [u8; KEY_ID_BYTES] {
        self.current().id
    }

    pub(crate) fn is_current(&self, id: &[u8]) -> bool {
        self.current().id == id
    }

    /// HMAC-SHA256 under the current key.
    pub(crate) fn sign(&self, parts: &[&[u8]]) -> [u8; MAC_BYTES] {
        hmac_sha256(&self.current().mac, parts)
    }

    /// Whether it is the MAC of `parts` under the key that is called `id`, and whether that was
    /// retired; `None` if there is no such key.
    pub(crate) fn verify(&self, id: &[u8], parts: &[&[u8]], mac: &[u8; MAC_BYTES]) -> Option<(bool, bool)> {
        let key = self.called(id)?;
        Some((equal(&hmac_sha256(&key.mac, parts), mac), key.is_retired))
    }
}

impl LogKey {
    /// Whether `is_it` accepts the MAC of `parts` under one of the keys, and whether that key was
    /// retired; `None` if under none. For objects too short to name their key.
    pub(crate) fn verify_any(
        &self,
        parts: &[&[u8]],
        is_it: impl Fn(&[u8; MAC_BYTES]) -> bool,
    ) -> Option<bool> {
        self.0.iter().find(|key| is_it(&hmac_sha256(&key.mac, parts))).map(|key| key.is_retired)
    }
}

impl KeyParts {
    pub(super) fn mac_of(&self, header: &[u8], body: &[u8]) -> [u8; MAC_BYTES] {
        hmac_sha256(&self.mac, &[b"sealpost log entry v2", header, body])
    }
}
