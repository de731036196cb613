//! NUL in messages: a Sealpost server sends it as is on request, since its replacement would look
//! like another byte.

use sealpost_imap::NUL_EXTENSION;

use super::memory::Memory;
use super::pulled::pulled;
use super::server::{Box_, Script};

#[tokio::test]
async fn bytes_with_nul_are_asked_for_and_kept() {
    // One that comes in one piece, and one in several.
    let messages =
        ["Subject: a\0b\r\n\r\n\0\0\r\n".to_owned(), format!("\r\n{}", "text \0\r\n".repeat(20_000))];
    for capabilities in
        [format!("ENABLE {NUL_EXTENSION}"), "ENABLE QRESYNC CONDSTORE".to_owned(), String::new()]
    {
        let mut inbox = Box_::with(0);
        for message in &messages {
            inbox.add(Some(message.clone().into_bytes()));
        }
        let script = Script::start(inbox, &capabilities, &[]).await;
        let backup = Memory::default();
        assert!(pulled(&script, &backup).await.is_complete(), "{capabilities}");
        assert_eq!(backup.texts("INBOX"), [(1, messages[0].clone()), (2, messages[1].clone())]);
        let enabled = script.asked(&format!("ENABLE {NUL_EXTENSION}")) > 0;
        assert_eq!(enabled, capabilities.contains(NUL_EXTENSION), "{capabilities}");
    }
}
