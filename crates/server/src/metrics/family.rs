//! One metric: its description, and how its lines are written.

use sealpost_base::metrics::Counter;
use sealpost_push::Pusher;
use sealpost_queue::runner::SiteLoads;
use sealpost_session::Context;
use sealpost_vault::StoreStats;

use super::openmetrics::{self, Kind, Labels};
use super::{Process, Protocol, ProtocolMetrics};
use crate::sending::Sending;

/// One metric, with all its series.
pub(super) struct Family {
    /// Without the `_total` of counters.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Its name's last word, if that is a unit.
    pub(super) unit: &'static str,
    pub(super) labels: &'static str,
    pub(super) help: &'static str,
    pub(super) write: Write,
}

/// How its lines are written.
#[derive(Clone, Copy)]
pub(super) enum Write {
    /// At once.
    Whole(fn(&View<'_>, &mut Series<'_>)),
    /// For each command of each protocol, because all of them would be a large page.
    Commands(fn(Protocol, u8, &View<'_>, &mut Series<'_>)),
}

impl Family {
    pub(super) fn pieces<'a>(
        &'static self,
        view: &'a View<'a>,
    ) -> Box<dyn Iterator<Item = String> + Send + 'a> {
        let mut head = String::new();
        openmetrics::head(&mut head, self.name, self.kind, self.unit, self.help);
        match self.write {
            Write::Whole(write) => {
                write(view, &mut Series { out: &mut head, name: self.name, kind: self.kind });
                Box::new(std::iter::once(head))
            }
            Write::Commands(write) => {
                let all = Protocol::ALL.into_iter().flat_map(|protocol| {
                    (0..protocol.commands().len()).map(move |at| (protocol, u8::try_from(at).unwrap_or(0)))
                });
                let lines = all.map(move |(protocol, command)| {
                    let mut out = String::new();
                    write(
                        protocol,
                        command,
                        view,
                        &mut Series { out: &mut out, name: self.name, kind: self.kind },
                    );
                    out
                });
                Box::new(std::iter::once(head).chain(lines))
            }
        }
    }
}

/// The values that are read once for a page.
pub(super) struct View<'a> {
    pub(super) ctx: &'a Context,
    /// `None` if the server sends nothing: then there are no series about it.
    pub(super) sending: Option<&'a Sending>,
    /// Where it sends; empty if it sends nothing.
    pub(super) sites: SiteLoads,
    /// `None` if the server pushes nothing to devices.
    pub(super) push: Option<&'a Pusher>,
    pub(super) process: Process,
    pub(super) store: StoreStats,
    pub(super) sessions: [sealpost_session::sessions::Count; Protocol::ALL.len()],
    pub(super) loaded: (usize, usize),
}

impl<'a> View<'a> {
    pub(super) fn of(ctx: &'a Context, sending: Option<&'a Sending>, push: Option<&'a Pusher>) -> Self {
        let loaded = ctx.accounts.all_loaded();
        let bytes = loaded.iter().map(|account| account.state().memory()).sum();
        View {
            ctx,
            sending,
            sites: sending.map(Sending::sites).unwrap_or_default(),
            push,
            process: Process::read(),
            store: ctx.store.stats(),
            sessions: Protocol::ALL.map(|protocol| ctx.sessions.count(protocol)),
            loaded: (loaded.len(), bytes),
        }
    }
}

/// Where a family's lines go.
pub(super) struct Series<'a> {
    pub(super) out: &'a mut String,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

impl Series<'_> {
    pub(super) fn value(&mut self, labels: Labels<'_>, value: f64) {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram => "",
        };
        openmetrics::sample(self.out, &format!("{}{suffix}", self.name), labels, value);
    }

    pub(super) fn number(&mut self, labels: Labels<'_>, value: u64) {
        self.value(labels, value as f64);
    }

    pub(super) fn times(&mut self, labels: Labels<'_>, histogram: &sealpost_base::metrics::Histogram) {
        openmetrics::histogram(self.out, self.name, labels, &histogram.read(), 1e-9);
    }

    pub(super) fn counts(&mut self, labels: Labels<'_>, histogram: &sealpost_base::metrics::Histogram) {
        openmetrics::histogram(self.out, self.name, labels, &histogram.read(), 1.0);
    }

    pub(super) fn each_protocol(&mut self, view: &View<'_>, counter: fn(&ProtocolMetrics) -> &Counter) {
        for protocol in Protocol::ALL {
            self.number(&[("protocol", protocol.name())], counter(view.ctx.metrics.of(protocol)).read());
        }
    }

    /// As [`Series::each_protocol`], for those that take mail.
    pub(super) fn each_receiving(&mut self, view: &View<'_>, counter: fn(&ProtocolMetrics) -> &Counter) {
        for protocol in [Protocol::Smtp, Protocol::Lmtp, Protocol::Submission] {
            self.number(&[("protocol", protocol.name())], counter(view.ctx.metrics.of(protocol)).read());
        }
    }
}

/// A [`Family`] that is written at once: its name without `_total`, kind, unit, labels, help and how to write it.
macro_rules! family {
    ($name:literal, $kind:ident, $unit:literal, $labels:literal, $help:literal, $write:expr) => {
        $crate::metrics::family::Family {
            name: $name,
            kind: $crate::metrics::openmetrics::Kind::$kind,
            unit: $unit,
            labels: $labels,
            help: $help,
            write: $crate::metrics::family::Write::Whole($write),
        }
    };
}

pub(super) use family;
