//! Replays the kept inputs of the fuzz target, `tests/corpus/TARGET/*`, on any toolchain.

#[path = "fuzz/mailauth_dkim.rs"]
mod mailauth_dkim;

#[test]
fn mailauth_dkim() {
    sealpost_testkit::corpus::replay(
        env!("CARGO_MANIFEST_DIR"),
        "mailauth_dkim",
        mailauth_dkim::fuzz_mailauth_dkim,
    );
}
