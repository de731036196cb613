//! Background tasks that must not end: a panic costs the work in progress, and the task is
//! restarted.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;

use sealpost_session::Context;

/// Pauses before a restart; a task that always fails at once must not use up a processor.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Runs the task from `task`, again after each panic, until it ends by itself. Panics are counted,
/// and logged by the panic hook.
pub(crate) async fn survive<F: Future<Output = ()>>(
    name: &'static str,
    ctx: Arc<Context>,
    mut task: impl FnMut(Arc<Context>) -> F,
) {
    let mut pause = FIRST_PAUSE;
    while AssertUnwindSafe(task(ctx.clone())).catch_unwind().await.is_err() {
        ctx.metrics.panics.increment();
        tracing::error!(task = name, "a background task ended because of a bug in Sealpost; it is restarted");
        tokio::select! {
            () = ctx.shutdown.wait() => return,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_restarts_and_is_counted() {
        let (ctx, runs) = (Arc::new(crate::context_for_tests()), AtomicUsize::new(0));
        survive("test", ctx.clone(), |_| async {
            if runs.fetch_add(1, Ordering::SeqCst) < 3 {
                std::panic::resume_unwind(Box::new("a mistake"));
            }
        })
        .await;
        assert_eq!((runs.load(Ordering::SeqCst), ctx.metrics.panics.read()), (4, 3));
    }
}
