//! Any bytes are an MTA-STS policy or none, and a response with one or none; a valid one survives being
//! written.

use sealpost_delivery::sts::Policy;
use sealpost_delivery::sts::policy::record_id;
use sealpost_dns::DnsName;

/// The bytes as a policy, as the response of a web server, and as records.
///
/// # Panics
/// If a policy changes when it is written and read.
pub fn fuzz_sts_policy(data: &[u8]) {
    if let Some(policy) = Policy::parse(data) {
        let again = Policy::parse(policy.to_text().as_bytes());
        assert_eq!(again.as_ref(), Some(&policy), "a policy survives");
        let host = DnsName::new("mx.example.org").expect("a name");
        assert_eq!(again.is_some_and(|again| again.allows(&host)), policy.allows(&host));
    }
    if let Some(body) = sealpost_delivery::fuzz::policy_response(data) {
        let _ = Policy::parse(&body);
    }
    let records: Vec<Vec<u8>> = data.split(|&b| b == 0).map(<[u8]>::to_vec).collect();
    if let Some(id) = record_id(&records) {
        assert!(id.len() <= 32 && id.bytes().all(|b| b.is_ascii_alphanumeric()));
    }
}
