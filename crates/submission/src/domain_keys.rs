//! DKIM keys of the domains that are served here: `domains/{domain}/dkim/{selector}`, each sealed
//! under the mail key.

use sealpost_base::{Random, Result};
use sealpost_mailauth::dkim::{Algorithm, SigningKey};
use sealpost_vault::Store;
use sealpost_vault::mail_key::MailKeys;

/// What a key is sealed for.
const LABEL: &str = "DKIM key";

/// The keys of all domains.
#[derive(Clone)]
pub struct DomainKeys {
    store: Store,
    mail_keys: MailKeys,
}

/// One key of a domain.
pub struct DomainKey {
    /// Where DNS has its public half: `{selector}._domainkey.{domain}`.
    pub selector: String,
    key: SigningKey,
}

impl DomainKey {
    /// What signs.
    pub fn signer(&self) -> &SigningKey {
        &self.key
    }
}

impl DomainKeys {
    /// Those in a store.
    pub fn new(store: Store, mail_keys: MailKeys) -> Self {
        DomainKeys { store, mail_keys }
    }

    /// The keys that sign for a domain now; empty if it has none.
    ///
    /// # Errors
    /// What the store says.
    pub async fn signing(&self, domain: &str) -> Result<Vec<DomainKey>> {
        let mut keys = Vec::new();
        for selector in self.store.names_below(&format!("domains/{domain}/dkim")).await? {
            let path = path(domain, &selector);
            let der = self.mail_keys.open_note(LABEL, &path, &self.store.read(&path).await?)?;
            keys.push(DomainKey { selector, key: SigningKey::from_pkcs8(&der)? });
        }
        Ok(keys)
    }

    /// Makes a key.
    ///
    /// # Errors
    /// What the store says.
    pub async fn create(
        &self,
        domain: &str,
        selector: &str,
        algorithm: Algorithm,
        random: &dyn Random,
    ) -> Result<()> {
        let (path, der) = (path(domain, selector), SigningKey::generate(algorithm, random)?);
        self.store.put_new(&path, self.mail_keys.seal_note(LABEL, &path, &der, random)).await?;
        Ok(())
    }
}

fn path(domain: &str, selector: &str) -> String {
    format!("domains/{domain}/dkim/{selector}")
}
