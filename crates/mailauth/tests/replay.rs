//! Replays the kept inputs of the fuzz target, `tests/corpus/TARGET/*`, on any toolchain.

#[path = "fuzz/mailauth_dkim.rs"]
mod mailauth_dkim;

#[test]
fn mailauth_dkim() {
    let folder = format!("{}/tests/corpus/mailauth_dkim", env!("CARGO_MANIFEST_DIR"));
    let inputs: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(inputs.len() >= 3, "the corpus is there");
    inputs.iter().for_each(|input| mailauth_dkim::fuzz_mailauth_dkim(input));
}
