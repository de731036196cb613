use std::time::Duration;

use sealpost_server::settings::PlaintextLogin;
use sealpost_server::settings::sending::{QueuePlace, Via};

use super::*;
use crate::global::Level;
use crate::log::Format;

fn parse(text: &str) -> Result<Config, Vec<String>> {
    Config::parse(text, Path::new("/etc/sealpost"))
}

#[test]
fn an_empty_file_is_the_default() {
    let (empty, default) = (parse("").unwrap(), Config::default());
    assert_eq!(empty.settings, default.settings);
    assert_eq!((empty.directory, empty.log), (default.directory, default.log));
}

#[test]
fn the_default_file_has_the_default_values() {
    let file = reference::default_file();
    let commented = parse(&file).unwrap();
    assert!(KEYS.iter().all(|key| commented.is_default(key.name)));
    let uncommented: String = file
        .lines()
        .map(|line| {
            line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line).to_owned() + "\n"
        })
        .collect();
    let config = Config::parse(&uncommented, Path::new("")).unwrap();
    let default = Config::default();
    for key in KEYS {
        assert!(!config.is_default(key.name), "{} is in the file", key.name);
        assert_eq!((key.show)(&config), (key.show)(&default), "{}", key.name);
    }
    assert_eq!(config.settings, default.settings);
}

#[test]
fn the_values_in_force_can_be_parsed_again() {
    let text = "directory = \"/var/mail\"\nmemory = \"96MiB\"\n[listen]\nimap = [\"127.0.0.1:0\"]\nlmtp_unix = [\"lmtp.sock\"]\n[log]\nformat = \"json\"\n";
    let named_by = file::NamedBy::Option;
    let file = Some(file::ConfigFile { path: "x.toml".into(), named_by });
    let config = Config { file, ..parse(text).unwrap() };
    let shown = reference::in_force(&config);
    assert!(
        shown.contains("# x.toml:2\n") && shown.contains("# x.toml:4\n") && shown.contains("# default\n")
    );
    let again = parse(&shown).unwrap();
    assert_eq!(again.settings, config.settings);
    assert_eq!(again.log, config.log);
}

#[test]
fn every_key_is_once_in_a_described_section() {
    for (at, key) in KEYS.iter().enumerate() {
        assert!(keys::SECTIONS.iter().any(|(section, _)| *section == key.section()), "{}", key.name);
        assert_eq!(keys::position(key.name), Some(at));
    }
}

#[test]
fn values_arrive_where_they_belong() {
    let text = r#"
directory = "mail"
hostname = "mail.example.org"
postmaster = "admin@example.org"
filters = ["new UNSEEN SINCE 1-Jan-2026"]
memory = "1GiB"
message_size = "50 MiB"
retention = "2d"
[listen]
smtp = ["192.0.2.1:25", "[2001:db8::1]:25"]
imaps = []
lmtp_unix = ["/run/lmtp"]
[tls]
certificate = "cert.pem"
key = "/secret/key.pem"
[timeouts]
smtp = "90s"
[login]
plaintext = "never"
cache_ttl = "0"
free_failures = 0
[log]
level = "info"
"#;
    let config = parse(text).unwrap();
    let settings = &config.settings;
    assert_eq!(config.directory, Path::new("/etc/sealpost/mail"));
    assert_eq!((settings.hostname.as_str(), settings.memory.bound), ("mail.example.org", 1 << 30));
    assert_eq!(settings.filters[0].to_string(), "new UNSEEN SINCE 1-Jan-2026");
    assert_eq!((settings.message_size, settings.retention), (50 << 20, Duration::from_secs(2 * 86400)));
    assert_eq!((settings.listen.smtp.len(), settings.listen.imaps.len()), (2, 0));
    assert_eq!(settings.listen.imap, Config::default().settings.listen.imap);
    assert_eq!(settings.listen.lmtp_unix, [Path::new("/run/lmtp")]);
    let (certificate, key) = ("/etc/sealpost/cert.pem".into(), "/secret/key.pem".into());
    assert_eq!(settings.tls, TlsSource::Files { certificate, key });
    assert_eq!((settings.timeouts.smtp, settings.login.cache_ttl), (Duration::from_secs(90), Duration::ZERO));
    assert_eq!((settings.plaintext_login, settings.login.free_failures), (PlaintextLogin::Never, 0));
    assert_eq!(config.log, Log { level: Level::Info, format: Format::Text });
    assert_eq!((config.origin("memory"), config.origin("listen.imap")), (Origin::File(6), Origin::Default));
}

#[test]
fn everything_that_is_wrong_is_said_with_its_line() {
    for (text, wrong) in [
        ("memmory = \"1GiB\"", &["1: there is no key memmory; is it memory?"][..]),
        ("\n[lisen]\nimap = []", &["3: there is no key lisen.imap; is it listen.imap?"]),
        ("[nothing]", &["1: there is no section nothing; `sealpost config default` prints all there are"]),
        ("listen = 1", &["1: there is no key listen; `sealpost config default` prints all there are"]),
        (
            "memory = \"1 GB\"\nrecipients = \"many\"",
            &[
                "1: memory is a size such as \"256MiB\" (B, KiB, MiB, GiB, TiB): \"1 GB\" has no such unit",
                "2: recipients is a number, at least 1: it is not one",
            ],
        ),
        (
            "memory = \"99999999999TiB\"",
            &[
                "1: memory is a size such as \"256MiB\" (B, KiB, MiB, GiB, TiB): \"99999999999TiB\" is too large",
            ],
        ),
        (
            "filters = [\"odd FROM\"]",
            &[
                "1: filters is a list of strings such as \"unread-from-boss UNSEEN FROM boss@example.org\": \"odd FROM\": a space is missing",
            ],
        ),
        (
            "memory = \"1MiB\"",
            &["1: memory: at least \"48MiB\" are required: for the process itself and one password check"],
        ),
        (
            "\n[connections]\ntotal = -1",
            &["3: connections.total is a number, at least 1: it is negative or too large"],
        ),
        (
            "[timeouts]\nshutdown_grace = \"0s\"",
            &["2: timeouts.shutdown_grace is a time such as \"30s\" (ms, s, m, h, d): it cannot be zero"],
        ),
        (
            "[tls]\nkey = \"k\"",
            &[
                "2: tls.key: tls.certificate and tls.key belong together; without both, a self-signed certificate is made",
            ],
        ),
    ] {
        assert_eq!(parse(text).err().unwrap(), wrong, "{text}");
    }
    assert!(parse("a = ").err().unwrap()[0].starts_with("1: "));
    for (address, why) in [
        ("localhost:143", "\"localhost:143\" has no numeric address before the port: \"127.0.0.1:143\" or"),
        ("mail.example.org", "\"mail.example.org\" is no address with a port"),
        ("127.0.0.1", "\"127.0.0.1\" has no port"),
        ("::1", "\"::1\" has no port"),
        ("127.0.0.1:70000", "is no address with a port"),
    ] {
        let wrong = parse(&format!("listen.imap = [\"{address}\"]")).err().unwrap();
        assert!(wrong[0].contains(why), "{wrong:?}");
    }
}

#[test]
fn sending_is_read_and_checked() {
    let text = r#"
[listen]
submission = ["127.0.0.1:587"]
[sending]
queue = "local"
source_ipv4 = "192.0.2.1"
family = "prefer-ipv4"
family_of = ["gmail.example ipv4"]
routes = ["example.org direct", "* via smart.example:465 credentials relay.secret"]
resolver = "192.0.2.53"
ca = "ca.pem"
dane = "off"
recipients_per_hour = 50
"#;
    let config = parse(text).unwrap();
    let sending = &config.settings.sending;
    assert!(config.settings.sends() && !Config::default().settings.sends());
    assert_eq!((sending.queue, sending.dane, sending.mta_sts), (QueuePlace::Local, false, true));
    assert_eq!((sending.recipients_per_hour, sending.recipients_per_day), (50, 1000));
    assert_eq!(sending.ca, Path::new("/etc/sealpost/ca.pem"));
    let Via::Smarthost(smarthost) = &sending.routes[1].via else { panic!("{:?}", sending.routes) };
    assert_eq!(smarthost.credentials, Path::new("/etc/sealpost/relay.secret"));
    for (text, wrong) in [
        ("enabled = \"yes\"", "sending.enabled is \"auto\", \"on\" or \"off\": \"yes\" is none of them"),
        ("source_ipv4 = \"::1\"", "\"::1\" is no address of that kind"),
        ("routes = [\"* smart.example\"]", "is no route: \"DESTINATION [from SENDER] via HOST:PORT\""),
        ("family_of = [\"gmail.example\"]", "is not a domain and a family"),
        ("resolver = \"dns.example\"", "is no address of a name server"),
        ("port = 0", "2: sending.port is a number, at least 1: it cannot be zero"),
        ("family = \"ipv4\"\nsource_ipv6 = \"::1\"", "3: sending.source_ipv6: sending.family says"),
        ("ehlo_name = \"my host\"", "2: sending.ehlo_name: \"my host\" is no host name"),
        ("enabled = \"off\"\n[listen]\nsubmission = [\"[::]:587\"]", "2: sending.enabled: users submit mail"),
    ] {
        let wrongs = parse(&format!("[sending]\n{text}")).err().unwrap();
        assert!(wrongs[0].contains(wrong), "{wrongs:?}");
    }
}

#[test]
fn the_guide_is_written_from_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/configuration.md");
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == reference::guide(),
        "run: cargo run -p sealpost -- config guide > docs/guide/configuration.md"
    );
}
