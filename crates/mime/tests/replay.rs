//! Replays the kept inputs of the fuzz targets, `tests/corpus/TARGET/*`, on any toolchain.

#[path = "fuzz/mime_scanner.rs"]
mod mime_scanner;
#[path = "fuzz/mime_stored.rs"]
mod mime_stored;

fn replay(target: &str, run: impl Fn(&[u8])) {
    let folder = format!("{}/tests/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut kept = 0;
    for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{folder}: {e}")) {
        let input = std::fs::read(entry.unwrap().path()).unwrap();
        run(&input);
        kept += 1;
    }
    assert!(kept > 0, "{folder} is empty");
}

#[test]
fn mime_scanner() {
    replay("mime_scanner", mime_scanner::fuzz_mime_scanner);
}

#[test]
fn mime_stored() {
    replay("mime_stored", mime_stored::fuzz_mime_stored);
}
