//! Connections and commands of every protocol, and the messages that SMTP, LMTP and submission take.

use crate::metrics::family::{Family, Write, family};
use crate::metrics::openmetrics::Kind;
use crate::metrics::{Command, Protocol, Verdict};

/// The states of IMAP sessions; those of other protocols are `open`.
const STATES: [&str; 4] = ["anonymous", "authenticated", "selected", "idle"];

pub(super) const FAMILIES: &[Family] = &[
    family!(
        "sealpost_connections_accepted",
        Counter,
        "",
        "protocol",
        "Connections that became sessions.",
        |v, s| {
            s.each_protocol(v, |p| &p.accepted);
        }
    ),
    family!(
        "sealpost_connections_refused",
        Counter,
        "",
        "protocol",
        "Connections rejected with a temporary error.",
        |v, s| {
            s.each_protocol(v, |p| &p.refused);
        }
    ),
    family!(
        "sealpost_http_requests_rejected",
        Counter,
        "",
        "protocol",
        "Sessions that ended because the client sent HTTP: a browser on the wrong port.",
        |v, s| {
            s.each_protocol(v, |p| &p.http);
        }
    ),
    family!(
        "sealpost_sessions",
        Gauge,
        "",
        "protocol state",
        "Open sessions. The states of IMAP are `anonymous`, `authenticated`, `selected` and `idle`; of other protocols, `open`.",
        |v, s| {
            for (protocol, count) in Protocol::ALL.into_iter().zip(&v.sessions) {
                match protocol {
                    Protocol::Imap => {
                        for (state, n) in STATES.iter().zip(count.states) {
                            s.number(&[("protocol", protocol.name()), ("state", state)], n);
                        }
                    }
                    _ => s.number(&[("protocol", protocol.name()), ("state", "open")], count.all),
                }
            }
        }
    ),
    family!(
        "sealpost_received_bytes",
        Counter,
        "bytes",
        "protocol",
        "Bytes received from clients, without TLS.",
        |v, s| {
            s.each_protocol(v, |p| &p.bytes_in);
        }
    ),
    family!(
        "sealpost_sent_bytes",
        Counter,
        "bytes",
        "protocol",
        "Bytes sent to clients, without TLS.",
        |v, s| {
            s.each_protocol(v, |p| &p.bytes_out);
        }
    ),
    Family {
        name: "sealpost_commands",
        kind: Kind::Counter,
        unit: "",
        labels: "protocol command result",
        help: "Completed commands. `ok`: OK, or a reply 2xx; `no`: NO, or 4xx; `bad`: BAD, or 5xx. A command has a series after its first use.",
        write: Write::Commands(|protocol, command, v, s| {
            let command = Command::from_u8(command);
            let Some(metrics) = v.ctx.metrics.of(protocol).command(command) else { return };
            if metrics.verdicts.iter().all(|counter| counter.read() == 0) {
                return;
            }
            for verdict in Verdict::ALL {
                let labels = [
                    ("protocol", protocol.name()),
                    ("command", protocol.name_of(command)),
                    ("result", verdict.name()),
                ];
                s.number(&labels, metrics.verdict(verdict).read());
            }
        }),
    },
    Family {
        name: "sealpost_command_seconds",
        kind: Kind::Histogram,
        unit: "seconds",
        labels: "protocol command",
        help: "Time of commands, until the reply is complete, including data transferred meanwhile. `DATA` and `BDAT`: from the last byte of the message to the first reply. IDLE is not included.",
        write: Write::Commands(|protocol, command, v, s| {
            let command = Command::from_u8(command);
            let Some(metrics) = v.ctx.metrics.of(protocol).command(command) else { return };
            if metrics.time.read().count() > 0 {
                let labels = [("protocol", protocol.name()), ("command", protocol.name_of(command))];
                s.times(&labels, &metrics.time);
            }
        }),
    },
    family!(
        "sealpost_messages_received",
        Counter,
        "",
        "protocol",
        "Messages accepted for at least one recipient.",
        |v, s| {
            s.each_receiving(v, |p| &p.messages);
        }
    ),
    family!(
        "sealpost_messages_received_bytes",
        Counter,
        "bytes",
        "protocol",
        "Bytes of accepted messages.",
        |v, s| {
            s.each_receiving(v, |p| &p.message_bytes);
        }
    ),
    family!(
        "sealpost_messages_refused",
        Counter,
        "",
        "protocol",
        "Messages rejected after they were received.",
        |v, s| {
            s.each_receiving(v, |p| &p.messages_refused);
        }
    ),
    family!(
        "sealpost_deliveries",
        Counter,
        "",
        "protocol",
        "Deliveries: recipients of accepted messages.",
        |v, s| {
            s.each_receiving(v, |p| &p.deliveries);
        }
    ),
];
