//! Modifiers and parameters in parentheses (RFC 4466), for the client.

use super::Writer;
use crate::types::{FetchModifier, SelectParameter, StoreModifier};

impl Writer {
    pub(super) fn select_parameters(&mut self, parameters: &[SelectParameter]) -> &mut Self {
        if parameters.is_empty() {
            return self;
        }
        self.space().list(parameters, |w, parameter| match parameter {
            SelectParameter::CondStore => {
                w.raw(b"CONDSTORE");
            }
            SelectParameter::QResync(known) => {
                w.raw(b"QRESYNC (").number(u64::from(known.uid_validity)).space().number(known.modseq);
                if let Some(uids) = &known.known_uids {
                    w.space().sequence_set(uids);
                }
                if let Some(matches) = &known.matches {
                    w.space().open().sequence_set(&matches.numbers);
                    w.space().sequence_set(&matches.uids).close();
                }
                w.close();
            }
        })
    }

    pub(super) fn fetch_modifiers(&mut self, modifiers: &[FetchModifier]) -> &mut Self {
        if modifiers.is_empty() {
            return self;
        }
        self.space().list(modifiers, |w, modifier| {
            match modifier {
                FetchModifier::ChangedSince(modseq) => w.raw(b"CHANGEDSINCE ").number(*modseq),
                FetchModifier::Vanished => w.raw(b"VANISHED"),
                FetchModifier::Partial(range) => w.raw(b"PARTIAL ").partial_range(*range),
            };
        })
    }

    pub(super) fn store_modifiers(&mut self, modifiers: &[StoreModifier]) -> &mut Self {
        if modifiers.is_empty() {
            return self;
        }
        self.space().list(modifiers, |w, modifier| match modifier {
            StoreModifier::UnchangedSince(modseq) => {
                w.raw(b"UNCHANGEDSINCE ").number(*modseq);
            }
        })
    }
}
