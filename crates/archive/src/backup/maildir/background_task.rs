//! [`BackgroundTask`]: work on a separate thread while the folder is written to.

use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use sealpost_base::{Error, Result};

/// One task at a time. After a failure all calls fail: the rest of the work is done when the folder
/// is opened again.
#[derive(Default)]
pub struct BackgroundTask(Mutex<BackgroundState>);

#[derive(Default)]
enum BackgroundState {
    #[default]
    Idle,
    Busy(JoinHandle<Result<()>>),
    Failed,
}

impl BackgroundTask {
    /// Starts `work`, after the running task.
    ///
    /// # Errors
    /// The error of the running task.
    pub fn begin(&self, work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.wait()?;
        *state = match Builder::new().name("archive-aside".into()).spawn(work) {
            Ok(thread) => BackgroundState::Busy(thread),
            Err(e) => return Err(Error::retry("no thread can be started").with_source(e)),
        };
        Ok(())
    }

    /// Starts `work`, unless a task is running.
    ///
    /// # Errors
    /// The error of the last task.
    pub fn begin_if_idle(&self, work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
        let is_busy = match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            BackgroundState::Busy(thread) => !thread.is_finished(),
            _ => false,
        };
        if is_busy { Ok(()) } else { self.begin(work) }
    }

    /// Waits for the running task.
    ///
    /// # Errors
    /// The error of the task.
    pub fn wait(&self) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).wait()
    }
}

impl BackgroundState {
    fn wait(&mut self) -> Result<()> {
        let done = match std::mem::take(self) {
            BackgroundState::Idle => Ok(()),
            BackgroundState::Busy(thread) => {
                thread.join().unwrap_or_else(|_| Err(Error::internal("a thread panicked")))
            }
            BackgroundState::Failed => {
                Err(Error::retry("an earlier operation failed; open the folder again"))
            }
        };
        if done.is_err() {
            *self = BackgroundState::Failed;
        }
        done
    }
}

/// The next owner of the folder finds no task running in it.
impl Drop for BackgroundTask {
    fn drop(&mut self) {
        let _ = self.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn one_thing_is_done_at_a_time_and_waited_for() {
        let (task, (go, gone), (done, seen)) = (BackgroundTask::default(), channel::<()>(), channel());
        let first = done.clone();
        let wait_and_notify = move || {
            gone.recv().unwrap();
            first.send(1).unwrap();
            Ok(())
        };
        task.begin(wait_and_notify).unwrap();
        task.begin_if_idle(|| panic!("the first one is not done")).unwrap();
        go.send(()).unwrap();
        let notify = move || {
            done.send(2).unwrap();
            Ok(())
        };
        task.begin(notify).unwrap();
        task.wait().unwrap();
        assert_eq!(seen.try_iter().collect::<Vec<i32>>(), [1, 2]);
    }

    #[test]
    fn a_failure_is_reported_by_all_later_calls() {
        let task = BackgroundTask::default();
        task.begin(|| Err(Error::retry("the disk"))).unwrap();
        assert_eq!(task.wait().unwrap_err().to_string(), "the disk");
        assert!(task.wait().is_err());
        assert!(task.begin(|| panic!("nothing is done any more")).is_err());
    }
}
