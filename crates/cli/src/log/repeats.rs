//! Errors that come again and again are logged once an hour, and counted.
//!
//! An error is damage, or a mistake in this program; neither goes away by itself, and whoever asks for a damaged message once
//! more would add a line each time. So a line of level `ERROR` is not written again within an hour, whoever is about to write it, and
//! a place in the program writes a bounded number of different ones in that time: an account with a hundred thousand damaged
//! messages must not fill the disk. `sealpost check` names them all.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sealpost_base::Clock;
use sealpost_base::limits::LOGGED_ERRORS;
use sealpost_server::metrics::LogMetrics;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::queue::{Note, Queue};

/// How long a line is not written again.
const PERIOD: Duration = Duration::from_secs(60 * 60);

/// What was written lately.
pub struct Repeats {
    metrics: Arc<LogMetrics>,
    clock: Arc<dyn Clock>,
    queue: Queue,
    random: RandomState,
    places: Mutex<HashMap<Identifier, Lines>>,
}

/// Lines of one place in the program.
struct Lines {
    /// When the first of them was written.
    since: Duration,
    written: HashSet<u64>,
}

/// What becomes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Write,
    /// It was written lately.
    Repeated,
    /// Enough others were, the last one just before.
    First,
    /// Enough others were.
    TooMany,
}

impl Repeats {
    /// Nothing was written yet.
    pub fn new(metrics: Arc<LogMetrics>, clock: Arc<dyn Clock>, queue: Queue) -> Self {
        Repeats { metrics, clock, queue, random: RandomState::new(), places: Mutex::default() }
    }

    fn judge(&self, place: Identifier, line: u64) -> Verdict {
        let now = self.clock.monotonic();
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = places.entry(place).or_insert_with(|| Lines { since: now, written: HashSet::new() });
        if now.saturating_sub(lines.since) >= PERIOD {
            *lines = Lines { since: now, written: HashSet::new() };
        }
        match lines.written.len() {
            _ if lines.written.contains(&line) => Verdict::Repeated,
            n if n > LOGGED_ERRORS => Verdict::TooMany,
            n => {
                lines.written.insert(line);
                if n == LOGGED_ERRORS { Verdict::First } else { Verdict::Write }
            }
        }
    }
}

impl<S: Subscriber> Layer<S> for Repeats {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let place = event.metadata();
        if *place.level() != Level::ERROR {
            return true;
        }
        self.metrics.errors.increment();
        let mut line = Line(self.random.build_hasher());
        event.record(&mut line);
        match self.judge(place.callsite(), line.0.finish()) {
            Verdict::Write => true,
            Verdict::First => {
                self.queue.note(Note::TooMany {
                    file: place.file().unwrap_or(""),
                    line: place.line().unwrap_or(0),
                });
                false
            }
            Verdict::Repeated | Verdict::TooMany => false,
        }
    }
}

/// A line, as far as it is needed to know it again.
struct Line<H>(H);

impl<H: Hasher> Visit for Line<H> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        field.name().hash(&mut self.0);
        // It cannot fail, and if it did the line would be known by what came before.
        let _ = write!(self, "{value:?}");
        self.0.write_u8(0xff);
    }
}

impl<H: Hasher> Write for Line<H> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sealpost_base::{FakeClock, Timestamp};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// What is written, as a file that a test may read.
    #[derive(Clone, Default)]
    struct File(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for File {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_error_is_written_once_an_hour_and_counted_each_time() {
        static NOTED: Mutex<Vec<Note>> = Mutex::new(Vec::new());
        let (file, metrics) = (File::default(), Arc::<LogMetrics>::default());
        let clock = Arc::new(FakeClock::new(Timestamp(0)));
        let queue =
            Queue::start(file.clone(), metrics.clone(), |note| NOTED.lock().unwrap().push(note)).unwrap();
        let repeats = Repeats::new(metrics.clone(), clock.clone(), queue.clone());
        let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(queue.clone());
        let subscriber = tracing_subscriber::registry().with(repeats).with(lines);
        let written = || {
            queue.flush(Duration::from_secs(20));
            String::from_utf8(std::mem::take(&mut *file.0.lock().unwrap())).unwrap()
        };
        tracing::subscriber::with_default(subscriber, || {
            let read = |uid: usize| tracing::error!(uid, error = %format!("object {uid}"), "a message could not be read");
            for _ in 0..1000 {
                read(1);
                read(2);
                tracing::warn!("again");
            }
            let text = written();
            let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
            assert_eq!((count("object 1"), count("object 2"), count("again")), (1, 1, 1000));
            assert_eq!(metrics.errors.read(), 2000);
            clock.advance(PERIOD);
            read(1);
            assert!(written().contains("object 1"));
            (0..10 * LOGGED_ERRORS).for_each(read);
            assert_eq!(written().lines().count(), LOGGED_ERRORS - 1, "no more than these");
            tracing::error!("something else");
            assert_eq!(written().lines().count(), 1);
        });
        assert!(matches!(NOTED.lock().unwrap()[..], [Note::TooMany { .. }]));
    }
}
