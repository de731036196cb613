//! Joins concurrent attempts with the same secret, at one account and from one address: one is checked, and
//! all get its result. Clients open several connections at once, and a guess counts once however often it is
//! sent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::hmac;
use sealpost_base::Random;
use tokio::sync::watch;
use zeroize::Zeroizing;

use crate::throttle::{Name, Network};

/// The attempts in progress. `T` is the result.
pub struct Joined<T> {
    key: hmac::Key,
    leads: Arc<Mutex<Leads<T>>>,
}

type Leads<T> = HashMap<Attempted, watch::Receiver<Option<T>>>;

/// The identity of an attempt; it does not reveal the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attempted {
    network: Option<Network>,
    tag: [u8; 32],
}

/// The role of an attempt.
pub enum Comer<T> {
    /// The first attempt, which is checked.
    LeadingAttempt(LeadingAttempt<T>),
    /// A later attempt. It waits for the result, and enters again if there is none.
    Other(watch::Receiver<Option<T>>),
}

/// The attempt that is checked. If it is dropped without an [answer](Self::answer), another takes its place.
pub struct LeadingAttempt<T> {
    attempted: Attempted,
    answer: watch::Sender<Option<T>>,
    leads: Arc<Mutex<Leads<T>>>,
}

impl<T: Clone> Joined<T> {
    /// Creates an empty set.
    pub fn new(random: &dyn Random) -> Self {
        let mut key = Zeroizing::new([0; 32]);
        random.fill(&mut *key);
        Joined { key: hmac::Key::new(hmac::HMAC_SHA256, &*key), leads: Arc::default() }
    }

    /// Identifies the attempt with `secret` at `name` from `network`.
    pub fn attempted(&self, network: Option<Network>, name: Name, secret: &[u8]) -> Attempted {
        let mut context = hmac::Context::with_key(&self.key);
        // The name's hash has a fixed length, so no two pairs have the same concatenation.
        context.update(name.as_bytes());
        context.update(secret);
        let mut tag = [0; 32];
        tag.copy_from_slice(context.sign().as_ref());
        Attempted { network, tag }
    }

    /// Adds an attempt.
    pub fn enter(&self, attempted: Attempted) -> Comer<T> {
        let mut leads = lock(&self.leads);
        if let Some(answer) = leads.get(&attempted) {
            return Comer::Other(answer.clone());
        }
        let (answer, others) = watch::channel(None);
        leads.insert(attempted, others);
        Comer::LeadingAttempt(LeadingAttempt { attempted, answer, leads: self.leads.clone() })
    }
}

impl<T> LeadingAttempt<T> {
    /// Passes the result to the waiting attempts.
    pub fn answer(self, answer: T) {
        self.answer.send_replace(Some(answer));
    }
}

impl<T> Drop for LeadingAttempt<T> {
    fn drop(&mut self) {
        lock(&self.leads).remove(&self.attempted);
    }
}

fn lock<T>(leads: &Mutex<Leads<T>>) -> MutexGuard<'_, Leads<T>> {
    leads.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the result of the leading attempt; `None` if it ended without one.
pub async fn answered<T: Clone>(mut answer: watch::Receiver<Option<T>>) -> Option<T> {
    answer.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone())
}

#[cfg(test)]
mod tests {
    use sealpost_base::SeededRandom;

    use super::*;

    #[tokio::test]
    async fn others_get_the_answer_of_the_first_or_replace_it() {
        let joined = Joined::new(&SeededRandom::new(1));
        let here = Some(Network::of([192, 0, 2, 1].into()));
        let one = joined.attempted(here, Name::of("me"), b"secret");
        let Comer::LeadingAttempt(lead) = joined.enter(one) else { panic!("it is the first") };
        let Comer::Other(other) = joined.enter(one) else { panic!("one is under way") };
        for another in [
            joined.attempted(here, Name::of("me"), b"other"),
            joined.attempted(here, Name::of("you"), b"secret"),
            joined.attempted(None, Name::of("me"), b"secret"),
        ] {
            assert!(matches!(joined.enter(another), Comer::LeadingAttempt(_)));
        }
        lead.answer(7);
        assert_eq!(answered(other).await, Some(7));
        let Comer::LeadingAttempt(lead) = joined.enter(one) else { panic!("it is over") };
        let Comer::Other(other) = joined.enter(one) else { panic!("one is under way") };
        drop(lead);
        assert_eq!(answered(other).await, None);
        assert!(matches!(joined.enter(one), Comer::LeadingAttempt(_)));
    }
}
