//! Slots open with their secret, for their account, and with nothing else.

use proptest::prelude::*;
use sealpost_base::SeededRandom;

use super::*;

const ACCOUNT: AccountId = AccountId([7; 16]);
/// Argon2 at its cheapest: these tests are about slots.
const CHEAP: PasswordParams = PasswordParams { memory_kib: 8, passes: 1, lanes: 1 };

#[test]
fn a_password_opens_its_slot_only() {
    let random = SeededRandom::new(1);
    let root = RootKey::generate(&random);
    let slot = Slot::password(&root, ACCOUNT, b"correct horse", CHEAP, &random);
    assert!(slot.open(ACCOUNT, b"correct horse").unwrap().root.same(&root));
    for wrong in [&b"correct hors"[..], b"", b"correct horse ", b"Correct horse"] {
        assert!(slot.open(ACCOUNT, wrong).is_none());
    }
    assert!(slot.open(AccountId([8; 16]), b"correct horse").is_none());
    let cheaper = Slot { params: Some(PasswordParams { memory_kib: 16, ..CHEAP }), ..slot.clone() };
    assert!(cheaper.open(ACCOUNT, b"correct horse").is_none());
    let renamed = Slot { id: SlotId([0; 8]), ..slot.clone() };
    assert!(renamed.open(ACCOUNT, b"correct horse").is_none());
    assert!(Slot::decoy(CHEAP, &random).open(ACCOUNT, b"").is_none());
}

#[test]
fn grants_and_web_logins_open_with_their_own_secret_alone() {
    let random = SeededRandom::new(4);
    let root = RootKey::generate(&random);
    let (grant, secret) = Slot::grant(&root, ACCOUNT, &random);
    assert_eq!(grant.kind(), SlotKind::Grant);
    assert!(grant.open(ACCOUNT, secret.bytes()).unwrap().root.same(&root));
    assert!(grant.open(AccountId([8; 16]), secret.bytes()).is_none());
    assert!(grant.open(ACCOUNT, &secret.bytes()[..31]).is_none() && grant.open(ACCOUNT, &[0; 32]).is_none());
    let (login, cookie) = Slot::web_login(&root, ACCOUNT, "me@x", &random);
    assert_eq!(login.kind(), SlotKind::WebLogin);
    assert_eq!(named_in_web_login(cookie.as_bytes()), Some(("me@x".to_owned(), login.id())));
    assert!(login.open(ACCOUNT, cookie.as_bytes()).unwrap().root.same(&root));
    // No text of one kind is one of another, and neither is tried as a password.
    let (token, text) = Slot::token(&root, ACCOUNT, "me@x", &random);
    assert!(
        login.open(ACCOUNT, text.as_bytes()).is_none() && token.open(ACCOUNT, cookie.as_bytes()).is_none()
    );
    assert!(named_in_web_login(text.as_bytes()).is_none());
    assert!(account_of_app_password(cookie.as_bytes()).is_none());
    assert!(for_login(&[grant, login], cookie.as_bytes()).is_empty());
}

#[test]
fn a_slot_cannot_demand_more_than_the_maximum_cost() {
    let PasswordParams { memory_kib, passes, lanes } = PasswordParams::default();
    assert_eq!((memory_kib, passes, lanes), (19456, 2, 1));
    let random = SeededRandom::new(1);
    let most = PasswordParams::default();
    for greedy in [
        PasswordParams { memory_kib: u32::MAX, passes: u32::MAX, lanes: u32::MAX },
        PasswordParams { memory_kib: memory_kib + 1, ..most },
        PasswordParams { passes: passes + 1, ..most },
        PasswordParams { lanes: lanes + 1, ..most },
    ] {
        // It is refused before any memory is taken.
        let mut memory = StretchMemory::default();
        assert!(Slot::decoy(greedy, &random).open_in(ACCOUNT, b"x", &mut memory).is_none());
        assert!(memory.0.is_empty(), "{greedy:?}");
    }
}

#[test]
fn a_login_tries_few_of_many_forged_password_slots() {
    let random = SeededRandom::new(1);
    let slots: Vec<_> = (0..1000).map(|_| Slot::decoy(CHEAP, &random)).collect();
    assert_eq!(for_login(&slots, b"password").len(), limits::LOGIN_SLOTS);
}

#[test]
fn argon2id_matches_the_reference_implementation() {
    // echo -n password | argon2 somesalt -id -t 2 -k 256 -p 1 (the reference implementation's own test).
    let params = PasswordParams { memory_kib: 256, passes: 2, lanes: 1 };
    let out = StretchMemory::default().stretch(b"password", b"somesalt", params).unwrap();
    assert_eq!(out.bytes()[..8], [0x9d, 0xfe, 0xb9, 0x10, 0xe8, 0x0b, 0xad, 0x03]);
}

#[test]
fn a_token_says_which_slot_it_opens() {
    let random = SeededRandom::new(2);
    let root = RootKey::generate(&random);
    let (slot, token) = Slot::token(&root, ACCOUNT, "me@example.org", &random);
    let (other, other_token) = Slot::token(&root, ACCOUNT, "me@example.org", &random);
    let password = Slot::password(&root, ACCOUNT, b"p", CHEAP, &random);
    let slots = [password, other, slot];
    assert!(token.starts_with("sp_") && token.len() == 93);
    assert_eq!(account_of_app_password(token.as_bytes()).as_deref(), Some("me@example.org"));
    let found = for_login(&slots, token.as_bytes());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].id(), slots[2].id());
    assert!(found[0].open(ACCOUNT, token.as_bytes()).unwrap().root.same(&root));
    assert!(found[0].open(ACCOUNT, other_token.as_bytes()).is_none());
    assert!(found[0].open(ACCOUNT, token.to_uppercase().replace("SP_", "sp_").as_bytes()).is_some());
    let found = for_login(&slots, b"sp_not a token");
    assert_eq!(found[0].kind(), SlotKind::Password);
}

#[test]
fn a_recovery_code_survives_handwriting_but_no_mistake() {
    let random = SeededRandom::new(3);
    let root = RootKey::generate(&random);
    let (slot, code) = Slot::recovery(&root, ACCOUNT, &random);
    assert_eq!(code.len(), 9 * 4 + 8);
    assert!(slot.open(ACCOUNT, code.as_bytes()).unwrap().root.same(&root));
    let written = code.to_lowercase().replace('-', " ").replace('0', "o").replace('1', "l");
    assert!(slot.open(ACCOUNT, format!(" {written}\n").as_bytes()).is_some());
    for i in 0..code.len() {
        let mut typed = code.as_bytes().to_vec();
        typed[i] = if typed[i] == b'7' { b'8' } else { b'7' };
        assert!(recovery::parse(&typed).is_none(), "{i}");
    }
    assert!(for_login(std::slice::from_ref(&slot), code.as_bytes()).is_empty());
}

/// Every slot gets a new root key without its secret, and its secret opens that one, no longer the old one.
#[test]
fn a_new_root_key_needs_no_secrets_of_slots() {
    let random = SeededRandom::new(5);
    let (old, new) = (RootKey::generate(&random), RootKey::generate(&random));
    let (token, token_text) = Slot::token(&old, ACCOUNT, "me@example.org", &random);
    let (recovery, code) = Slot::recovery(&old, ACCOUNT, &random);
    let password = Slot::password(&old, ACCOUNT, b"correct horse", CHEAP, &random);
    let secrets =
        [(password, &b"correct horse"[..]), (token, token_text.as_bytes()), (recovery, code.as_bytes())];
    for (slot, secret) in secrets {
        let slot = slot.labelled(Some("mine".into()), Timestamp(5));
        let resealed = slot.reseal(&new, ACCOUNT, &random).unwrap();
        assert!(resealed.open(ACCOUNT, secret).unwrap().root.same(&new));
        assert!(resealed.open(ACCOUNT, b"wrong").is_none());
        assert!(slot.open(ACCOUNT, secret).unwrap().root.same(&old));
        assert_eq!((resealed.id(), resealed.label()), (slot.id(), Some("mine")));
        assert!(
            resealed != slot
                && resealed
                    .reseal(&new, AccountId([8; 16]), &random)
                    .unwrap()
                    .open(ACCOUNT, secret)
                    .is_none()
        );
    }
    let no_key = Slot::decoy(CHEAP, &random);
    assert!(no_key.reseal(&new, ACCOUNT, &random).is_err());
}

/// A tag is of all that a slot says of itself, of its account, and of its root key in its epoch.
#[test]
fn a_slot_that_was_changed_has_no_right_tag() {
    let random = SeededRandom::new(6);
    let root = RootKey::generate(&random);
    let (slot, token) = Slot::token(&root, ACCOUNT, "me@example.org", &random);
    assert_eq!(slot.trust(&root, ACCOUNT), SlotTrust::Unverified);
    let slot = slot.labelled(Some("phone".into()), Timestamp(5)).tagged(&root, ACCOUNT);
    assert_eq!(slot.trust(&root, ACCOUNT), SlotTrust::Verified);
    let planted = Slot::token(&RootKey::generate(&random), ACCOUNT, "me@example.org", &random).0;
    let changed = [
        Slot { public: planted.public, ..slot.clone() },
        Slot { id: planted.id, ..slot.clone() },
        Slot { kind: SlotKind::Recovery, ..slot.clone() },
        Slot { salt: planted.salt, ..slot.clone() },
        Slot { params: Some(CHEAP), ..slot.clone() },
        Slot { label: Some("Phone".into()), ..slot.clone() },
        Slot { label: None, ..slot.clone() },
        Slot { created: Some(Timestamp(6)), ..slot.clone() },
        Slot { created: None, ..slot.clone() },
        Slot { tag: slot.tag, ..planted },
    ];
    for (n, slot) in changed.iter().enumerate() {
        assert_eq!(slot.trust(&root, ACCOUNT), SlotTrust::Forged, "{n}");
    }
    let next = root.next(&random).unwrap();
    assert_eq!(slot.trust(&next, ACCOUNT), SlotTrust::Forged);
    assert_eq!(slot.trust(&root, AccountId([8; 16])), SlotTrust::Forged);
    assert_eq!(slot.reseal(&next, ACCOUNT, &random).unwrap().trust(&next, ACCOUNT), SlotTrust::Unverified);
    // The owner's secret still opens a slot whose public key was replaced, and shows that it was.
    assert!(slot.open(ACCOUNT, token.as_bytes()).unwrap().is_own_key);
    assert!(!changed[0].open(ACCOUNT, token.as_bytes()).unwrap().is_own_key);
}

#[test]
fn slots_survive_storage() {
    let random = SeededRandom::new(4);
    let root = RootKey::generate(&random);
    let (slot, token) = Slot::token(&root, ACCOUNT, "me@example.org", &random);
    let slot = slot.labelled(Some("phone".into()), Timestamp(5));
    let untagged: Slot = minicbor::decode(&minicbor::to_vec(&slot).unwrap()).unwrap();
    assert_eq!(untagged.trust(&root, ACCOUNT), SlotTrust::Unverified);
    let slot = slot.tagged(&root, ACCOUNT);
    let stored: Slot = minicbor::decode(&minicbor::to_vec(&slot).unwrap()).unwrap();
    assert_eq!((stored.label(), stored.created()), (Some("phone"), Some(Timestamp(5))));
    assert_eq!(stored.trust(&root, ACCOUNT), SlotTrust::Verified);
    assert!(stored.open(ACCOUNT, token.as_bytes()).unwrap().root.same(&root));
}

proptest! {
    #[test]
    fn secrets_round_trip_and_anything_parses_safely(bytes: [u8; 20], id: [u8; 8], key: [u8; 32], junk: Vec<u8>) {
        prop_assert_eq!(*recovery::parse(recovery::format(&bytes).as_bytes()).unwrap(), bytes);
        let secret = Secret::filled(|secret| *secret = key);
        let (found, secret) = token::APP_PASSWORD.parse(token::APP_PASSWORD.format("me@x", SlotId(id), &secret).as_bytes()).unwrap();
        prop_assert_eq!((found.0, *secret.bytes()), (id, key));
        recovery::parse(&junk);
        token::APP_PASSWORD.parse(&[b"sp_", &junk[..]].concat());
    }
}
