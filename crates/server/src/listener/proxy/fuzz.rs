//! Entry function for fuzzing: it takes any bytes, and panics if an invariant is broken. In the
//! library, so that the corpus is replayed by the ordinary tests too.

use sealpost_base::limits::PROXY_HEADER_BYTES;

use super::header::{FIXED_BYTES, Header, LINE_BYTES, parse};

/// The beginning of a connection from a balancer.
///
/// # Panics
/// If a header is longer than the maximum, or it reads more than it needs, for any division of the
/// input.
pub fn fuzz_proxy_header(data: &[u8]) {
    let mut read = 0;
    let complete = loop {
        match parse(&data[..read]) {
            Some(Header::Wants(0)) => panic!("wants zero bytes"),
            Some(Header::Wants(more)) if read + more <= data.len() => read += more,
            Some(Header::Says(_)) => break true,
            _ => break false,
        }
    };
    assert!(read <= LINE_BYTES.max(FIXED_BYTES + PROXY_HEADER_BYTES), "a header of {read} bytes");
    for had in (0..read).filter(|_| complete) {
        match parse(&data[..had]) {
            Some(Header::Wants(more)) => assert!(had + more <= read, "{had}: read more than the header"),
            other => panic!("{had}: {other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn every_input_that_once_was_interesting_stays_harmless() {
        sealpost_testkit::corpus::replay(env!("CARGO_MANIFEST_DIR"), "proxy_header", fuzz_proxy_header);
    }
}
