//! Replays the kept inputs of the fuzz target, `tests/corpus/TARGET/*`, on any toolchain.

#[path = "fuzz/dns_answers.rs"]
mod dns_answers;

#[test]
fn dns_answers() {
    let folder = format!("{}/tests/corpus/dns_answers", env!("CARGO_MANIFEST_DIR"));
    let inputs: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(inputs.len() >= 3, "the corpus is there");
    inputs.iter().for_each(|input| dns_answers::fuzz_dns_answers(input));
}
