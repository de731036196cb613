//! Decides whether the clock can be trusted for permanent removal.
//!
//! A clock that is years ahead makes recently expunged or removed objects look old. So the server records the
//! time while it runs, and doubts a clock more than [`CLOCK_AHEAD`] past the newest recorded time. It then
//! serves, but removes nothing permanently, until the clock is set or the operator confirms it
//! (`sealpost store confirm-clock`). A server that was off for that long looks the same, and also waits for
//! the operator.

use std::io::{Read, Result, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use sealpost_base::limits::{CLOCK_AHEAD, CLOCK_NOTED};
use sealpost_base::{Timestamp, limits};
use sealpost_files::owner;

/// The file in the data directory.
const FILE: &str = "clock";
/// The length of a recorded time with its line end.
const TEXT_BYTES: u64 = 24;

/// The recorded times.
pub struct ClockWatch {
    file: Option<PathBuf>,
    state: Mutex<ClockState>,
    doubted: AtomicBool,
}

struct ClockState {
    /// The newest known time; the start of time if there is none.
    newest: Timestamp,
    /// The time in the file.
    noted: Timestamp,
}

impl ClockWatch {
    /// Starts without a known time. Times are recorded in `directory`, if there is one.
    pub fn new(directory: Option<&Path>) -> Self {
        let state = ClockState { newest: UNKNOWN, noted: UNKNOWN };
        let file = directory.map(|directory| directory.join(FILE));
        ClockWatch { file, state: Mutex::new(state), doubted: AtomicBool::new(false) }
    }

    /// Starts with `written`, the time of the last write to the store, if known. A recorded time takes
    /// precedence, since objects written with a doubted clock have its time. Returns whether the clock is
    /// trusted.
    pub fn begin(&self, now: Timestamp, written: Option<Timestamp>) -> bool {
        let noted = self.file.as_deref().and_then(noted);
        self.lock().newest = noted.or(written).unwrap_or(UNKNOWN);
        self.look(now)
    }

    /// Checks the clock, and records the time if it is trusted; returns whether it is. Blocks the thread
    /// briefly.
    pub fn look(&self, now: Timestamp) -> bool {
        let mut state = self.lock();
        if let Some(noted) = self.file.as_deref().and_then(noted) {
            state.noted = noted;
            state.newest = state.newest.max(noted);
        }
        let ahead = now.since(state.newest);
        if state.newest != UNKNOWN && ahead > CLOCK_AHEAD {
            if !self.doubted.swap(true, Ordering::Relaxed) {
                tracing::error!(
                    days = ahead.as_secs() / 86_400,
                    "the clock is far past the newest known time: nothing is deleted permanently until the \
                     clock is set, or confirmed if it is right (sealpost store confirm-clock)"
                );
            }
            if let Some(file) = self.file.as_deref().filter(|_| state.noted == UNKNOWN) {
                match note(file, state.newest) {
                    Ok(()) => state.noted = state.newest,
                    Err(error) => {
                        tracing::warn!(%error, "cannot record the time; set the clock before you restart")
                    }
                }
            }
            return false;
        }
        state.newest = state.newest.max(now);
        if let Some(file) = self.file.as_deref().filter(|_| now.since(state.noted) >= CLOCK_NOTED) {
            match note(file, now) {
                Ok(()) => state.noted = now,
                // A full disk: the next check retries, and the last recorded time stays valid.
                Err(error) => tracing::debug!(%error, "cannot record the time"),
            }
        }
        if self.doubted.swap(false, Ordering::Relaxed) {
            tracing::info!("the clock is confirmed: expired data is removed again");
        }
        true
    }

    /// Whether the clock is doubted.
    pub fn is_doubted(&self) -> bool {
        self.doubted.load(Ordering::Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const UNKNOWN: Timestamp = Timestamp(i64::MIN);

/// Records the operator's confirmation of the clock. A server with that data directory uses it within a
/// minute.
///
/// # Errors
/// Errors of the file system.
pub fn confirm(directory: &Path, now: Timestamp) -> Result<()> {
    note(&directory.join(FILE), now)
}

/// The last recorded time in that data directory.
pub fn noted_in(directory: &Path) -> Option<Timestamp> {
    noted(&directory.join(FILE))
}

fn noted(file: &Path) -> Option<Timestamp> {
    let mut text = String::new();
    std::fs::File::open(file).ok()?.take(TEXT_BYTES).read_to_string(&mut text).ok()?;
    // Without its end it was being written when the machine stopped.
    text.strip_suffix('\n')?.parse().ok().map(Timestamp)
}

fn note(path: &Path, now: Timestamp) -> Result<()> {
    let mut file = owner::open_or_create(path).map_err(|e| owner::explained(path, e))?;
    file.rewind()?;
    // Of constant length, so that it is complete except during the write.
    file.write_all(format!("{:015}\n", now.0.max(0)).as_bytes())?;
    file.set_len(16)?;
    file.sync_all()
}

const _: () = assert!(limits::CLOCK_AHEAD.as_secs() > limits::CLOCK_NOTED.as_secs());

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY: i64 = 86_400_000;

    #[test]
    fn a_clock_far_ahead_is_doubted_until_confirmed() {
        let dir = tempfile::tempdir().unwrap();
        let today = Timestamp(1_700_000_000_000);
        let after = |days: i64| Timestamp(today.0 + days * DAY);
        let begin = |now, written| {
            let watch = ClockWatch::new(Some(dir.path()));
            (watch.begin(now, written), watch)
        };
        assert!(begin(today, None).0, "nothing is known");
        assert_eq!(noted_in(dir.path()), Some(today));
        assert!(begin(after(30), None).0, "the server was off for a while");
        let (believed, watch) = begin(after(61), Some(today));
        assert!(!believed && watch.is_doubted());
        assert_eq!(noted_in(dir.path()), Some(after(30)), "what is not believed is not noted");
        // The clock is set.
        assert!(watch.look(after(31)) && !watch.is_doubted());
        // The clock jumps while the server runs.
        assert!(!watch.look(after(4000)));
        confirm(dir.path(), after(4000)).unwrap();
        assert!(watch.look(Timestamp(after(4000).0 + 60_000)) && !watch.is_doubted());
        assert!(begin(after(4001), None).0);
    }

    #[test]
    fn without_a_note_the_newest_object_tells_the_time() {
        let dir = tempfile::tempdir().unwrap();
        let watch = ClockWatch::new(Some(dir.path()));
        assert!(!watch.begin(Timestamp(40 * DAY), Some(Timestamp(DAY))));
        assert_eq!(
            noted_in(dir.path()),
            Some(Timestamp(DAY)),
            "mail that comes meanwhile is written with the wrong time"
        );
        assert!(!ClockWatch::new(Some(dir.path())).begin(Timestamp(41 * DAY), Some(Timestamp(40 * DAY))));
        // A truncated record does not count.
        std::fs::write(dir.path().join(FILE), b"00000003").unwrap();
        assert!(!watch.look(Timestamp(40 * DAY)));
        let nowhere = ClockWatch::new(None);
        assert!(nowhere.begin(Timestamp(0), None) && !nowhere.look(Timestamp(40 * DAY)));
    }

    #[test]
    fn the_time_is_noted_seldom() {
        let dir = tempfile::tempdir().unwrap();
        let watch = ClockWatch::new(Some(dir.path()));
        let at = |time: Duration| Timestamp(time.as_millis() as i64);
        assert!(watch.begin(at(Duration::ZERO), None));
        assert!(watch.look(at(CLOCK_NOTED / 2)));
        assert_eq!(noted_in(dir.path()), Some(Timestamp(0)));
        assert!(watch.look(at(CLOCK_NOTED)));
        assert_eq!(noted_in(dir.path()), Some(at(CLOCK_NOTED)));
    }
}
