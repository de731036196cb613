//! Errors that come again and again are logged once an hour, and counted.
//!
//! An error is damage, or a bug in Sealpost; neither disappears by itself, and each request for a
//! damaged message would add a line. So a line of level `ERROR` is not written again within an
//! hour, by any task, and a place in the program writes a bounded number of different ones in that
//! time: an account with a hundred thousand damaged messages must not fill the disk. `sealpost
//! check` reports them all.
//!
//! Warnings may be worth repeating, as what they tell of may go away. But clients bring them about
//! too, with each command that fails, so of those a place writes a bounded number as well. Lines of
//! failed logins have a bound of their own, because other programs count them
//! (`sealpost_server::failed_logins`).

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sealpost_base::Clock;
use sealpost_base::limits::{LOGGED_ERRORS, LOGGED_WARNINGS};
use sealpost_server::failed_logins;
use sealpost_server::metrics::LogMetrics;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::queue::{Note, Queue};

/// How long a line is not written again.
const PERIOD: Duration = Duration::from_secs(60 * 60);

/// The recent lines.
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
    /// Warnings, which may be the same.
    warnings: usize,
}

impl Lines {
    fn from(since: Duration) -> Self {
        Lines { since, written: HashSet::new(), warnings: 0 }
    }
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

    /// An error, known by its `line`, or a warning.
    fn judge(&self, place: Identifier, line: Option<u64>) -> Verdict {
        let now = self.clock.monotonic();
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = places.entry(place).or_insert_with(|| Lines::from(now));
        if now.saturating_sub(lines.since) >= PERIOD {
            *lines = Lines::from(now);
        }
        let Some(line) = line else {
            lines.warnings += 1;
            return verdict(lines.warnings - 1, LOGGED_WARNINGS);
        };
        if lines.written.contains(&line) {
            return Verdict::Repeated;
        }
        let verdict = verdict(lines.written.len(), LOGGED_ERRORS);
        if verdict != Verdict::TooMany {
            lines.written.insert(line);
        }
        verdict
    }
}

/// Of one more line after so many.
fn verdict(before: usize, most: usize) -> Verdict {
    match before {
        n if n < most => Verdict::Write,
        n if n == most => Verdict::First,
        _ => Verdict::TooMany,
    }
}

impl<S: Subscriber> Layer<S> for Repeats {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let place = event.metadata();
        let is_error = *place.level() == Level::ERROR;
        if !is_error && (*place.level() != Level::WARN || place.target() == failed_logins::TARGET) {
            return true;
        }
        let line = is_error.then(|| {
            self.metrics.errors.increment();
            let mut line = Line(self.random.build_hasher());
            event.record(&mut line);
            line.0.finish()
        });
        let verdict = self.judge(place.callsite(), line);
        if verdict != Verdict::Write {
            self.metrics.repeated.increment();
        }
        match verdict {
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
    fn an_error_is_logged_hourly_and_always_counted() {
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
            assert_eq!((metrics.errors.read(), metrics.repeated.read()), (2000, 1998));
            clock.advance(PERIOD);
            read(1);
            assert!(written().contains("object 1"));
            (0..10 * LOGGED_ERRORS).for_each(read);
            assert_eq!(written().lines().count(), LOGGED_ERRORS - 1, "no more than these");
            tracing::error!("something else");
            assert_eq!(written().lines().count(), 1);
            for command in 0..10 * LOGGED_WARNINGS {
                tracing::warn!(command, "a command failed for now");
                tracing::warn!(target: failed_logins::TARGET, command, "login failed");
            }
            let text = written();
            let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
            assert_eq!((count("for now"), count("login failed")), (LOGGED_WARNINGS, 10 * LOGGED_WARNINGS));
        });
        assert!(matches!(NOTED.lock().unwrap()[..], [Note::TooMany { .. }, Note::TooMany { .. }]));
    }
}
