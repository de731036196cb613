//! The way of a log line to standard error: through a bounded queue and one thread, so that no
//! writer of a line ever waits.
//!
//! Standard error may be a pipe whose reader stalls or has ended, or a file on a full disk. A line
//! that finds the queue full, and one that cannot be written, is lost and counted. The first line
//! that is written again is followed by one with the number of lost lines. Nothing here fails or
//! panics, for any error of standard error.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::park_timeout;
use std::time::Duration;

use sealpost_base::limits::LOG_QUEUE_BYTES;
use sealpost_server::metrics::LogMetrics;
use tracing_subscriber::fmt::MakeWriter;

/// What a line takes beside its text, in bytes.
const LINE_BYTES: usize = size_of::<Vec<u8>>();
/// How long to wait for a full non-blocking pipe.
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// Where lines wait; cloning shares it.
#[derive(Clone)]
pub struct Queue(Arc<Shared>);

struct Shared {
    state: Mutex<QueueState>,
    /// Rings when there is something to write, and when everything is written.
    changed: Condvar,
    metrics: Arc<LogMetrics>,
}

/// A report about the log itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// So many lines were lost.
    Lost(u64),
    /// A place in the program has logged so many errors that no more are written for a while.
    TooMany {
        /// Where it is.
        file: &'static str,
        /// Its line there.
        line: u32,
    },
}

#[derive(Default)]
struct QueueState {
    lines: VecDeque<Vec<u8>>,
    notes: Vec<Note>,
    bytes: usize,
    /// Lost lines that are not reported yet.
    lost: u64,
    /// The thread has taken lines that it has not written yet.
    writing: bool,
}

impl Queue {
    /// An empty queue, and the thread that writes its lines to `sink`. Lost lines are counted in
    /// `metrics`. `report`, which logs, reports on the log itself.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(
        sink: impl Write + Send + 'static,
        metrics: Arc<LogMetrics>,
        report: fn(Note),
    ) -> io::Result<Self> {
        let queue = Queue(Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), metrics }));
        let thread = queue.clone();
        let run = move || thread.run(Sink { to: sink, within_line: false }, report);
        std::thread::Builder::new().name("sealpost-log".into()).spawn(run)?;
        Ok(queue)
    }

    /// Waits until all lines are written or lost, or until `timeout` is over.
    pub fn flush(&self, timeout: Duration) {
        let waits =
            |state: &mut QueueState| state.writing || !state.lines.is_empty() || !state.notes.is_empty();
        let _ = self.0.changed.wait_timeout_while(self.lock(), timeout, waits);
    }

    fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        let bytes = line.len() + LINE_BYTES;
        if state.bytes + bytes > LOG_QUEUE_BYTES {
            return self.lose(&mut state);
        }
        state.bytes += bytes;
        state.lines.push_back(line.to_vec());
        drop(state);
        self.0.changed.notify_all();
    }

    fn lose(&self, state: &mut QueueState) {
        state.lost += 1;
        self.0.metrics.lost.increment();
    }

    /// Reports on the log itself, on the thread that writes it: a thread inside a log call cannot
    /// log that.
    pub fn note(&self, note: Note) {
        self.lock().notes.push(note);
        self.0.changed.notify_all();
    }

    fn run(&self, mut sink: Sink<impl Write>, report: fn(Note)) {
        loop {
            let (lines, notes) = self.take();
            notes.into_iter().for_each(report);
            for line in lines {
                let written = sink.write_line(&line);
                let mut state = self.lock();
                state.bytes -= line.len() + LINE_BYTES;
                if written.is_err() {
                    self.lose(&mut state);
                } else if state.lost > 0 {
                    let lost = std::mem::take(&mut state.lost);
                    drop(state);
                    report(Note::Lost(lost));
                }
            }
        }
    }

    /// Waits for lines and notes, and takes them.
    fn take(&self) -> (VecDeque<Vec<u8>>, Vec<Note>) {
        let mut state = self.lock();
        state.writing = false;
        self.0.changed.notify_all();
        while state.lines.is_empty() && state.notes.is_empty() {
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.writing = true;
        (std::mem::take(&mut state.lines), std::mem::take(&mut state.notes))
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each event is one write of one line.
impl Write for &Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = &'a Queue;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

/// What lines are written to.
struct Sink<W> {
    to: W,
    /// Part of a line was written, and the rest of it was not.
    within_line: bool,
}

impl<W: Write> Sink<W> {
    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        if self.within_line {
            self.write_all(b"\n")?;
            self.within_line = false;
        }
        self.write_all(line)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.to.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    rest = &rest[written..];
                    self.within_line = !rest.is_empty();
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // Another process made the pipe or terminal that way.
                Err(e) if e.kind() == ErrorKind::WouldBlock => park_timeout(BETWEEN_TRIES),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// Standard error, without the lock that other writers could hold.
pub struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(rustix::stdio::stderr(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// Writes wait until the test takes their bytes, or makes them fail.
    struct Held {
        written: SyncSender<Vec<u8>>,
        outcomes: Receiver<io::Result<usize>>,
    }

    impl Write for Held {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.written.send(bytes.to_vec());
            self.outcomes.recv().unwrap_or(Ok(bytes.len())).map(|most| most.min(bytes.len()))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Fixture {
        queue: Queue,
        metrics: Arc<LogMetrics>,
        written: Receiver<Vec<u8>>,
        outcomes: Option<SyncSender<io::Result<usize>>>,
    }

    impl Fixture {
        fn new(report: fn(Note)) -> Self {
            let (written, takes) = sync_channel(10_000);
            let (outcomes, gives) = sync_channel(10_000);
            let metrics = Arc::<LogMetrics>::default();
            let queue = Queue::start(Held { written, outcomes: gives }, metrics.clone(), report).unwrap();
            Fixture { queue, metrics, written: takes, outcomes: Some(outcomes) }
        }

        fn outcome(&self, outcome: io::Result<usize>) {
            self.outcomes.as_ref().unwrap().send(outcome).unwrap();
        }

        fn next(&self) -> String {
            String::from_utf8(self.written.recv_timeout(SOON).unwrap()).unwrap()
        }
    }

    #[test]
    fn a_stalled_reader_loses_lines_and_blocks_no_thread() {
        let mut world = Fixture::new(|_| {});
        let line = vec![b'x'; 1000];
        // Nothing is ever taken, and every push returns.
        for _ in 0..5000 {
            (&world.queue).write_all(&line).unwrap();
        }
        let kept = (LOG_QUEUE_BYTES / (line.len() + LINE_BYTES)) as u64;
        let lost = world.metrics.lost.read();
        assert_eq!(lost, 5000 - kept);
        world.queue.flush(Duration::from_millis(1));
        world.outcomes = None;
        world.queue.flush(SOON);
        assert_eq!((world.written.try_iter().count() as u64, world.queue.lock().bytes), (5000 - lost, 0));
    }

    #[test]
    fn lost_lines_are_reported_later() {
        static REPORTED: Mutex<Vec<Note>> = Mutex::new(Vec::new());
        let world = Fixture::new(|note| REPORTED.lock().unwrap().push(note));
        for line in ["one\n", "two\n", "three\n", "four\n"] {
            (&world.queue).write_all(line.as_bytes()).unwrap();
        }
        let full = || Err(ErrorKind::StorageFull.into());
        // The first breaks off in the middle, the second is not written at all, the third begins a
        // line of its own.
        for outcome in [Ok(2), full(), full(), Ok(9), Ok(9), Err(ErrorKind::WouldBlock.into()), Ok(9)] {
            world.outcome(outcome);
        }
        let written: Vec<_> = (0..7).map(|_| world.next()).collect();
        assert_eq!(written, ["one\n", "e\n", "\n", "\n", "three\n", "four\n", "four\n"]);
        world.queue.flush(SOON);
        assert_eq!((*REPORTED.lock().unwrap()).as_slice(), [Note::Lost(2)]);
        assert_eq!(world.metrics.lost.read(), 2);
    }
}
