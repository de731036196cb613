//! Replays the kept inputs of the fuzz target, `tests/corpus/TARGET/*`, on any toolchain.

#[path = "fuzz/sts_policy.rs"]
mod sts_policy;

#[test]
fn sts_policy() {
    let folder = format!("{}/tests/corpus/sts_policy", env!("CARGO_MANIFEST_DIR"));
    let inputs: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(inputs.len() >= 3, "the corpus is there");
    inputs.iter().for_each(|input| sts_policy::fuzz_sts_policy(input));
}
