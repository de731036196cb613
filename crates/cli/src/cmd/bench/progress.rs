//! The progress of a run, on standard error: an updated line at a terminal, and a line for each
//! phase.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use sealpost_bench::load::scenario::Phase;
use sealpost_bench::load::{Observer, Progress};
use sealpost_bench::result;

use crate::output::Output;

/// Shows it.
pub struct RunProgress {
    output: Output,
    bar: Option<ProgressBar>,
    at: String,
}

impl RunProgress {
    /// Nothing at all with `--json`.
    pub fn new(output: Output) -> Self {
        let moving = !output.is_json() && std::io::stderr().is_terminal();
        let bar = moving.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar
        });
        RunProgress { output, bar, at: String::new() }
    }

    /// Leaves the terminal as it was.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.output.note(text)),
            None => self.output.note(text),
        }
    }
}

impl Observer for RunProgress {
    fn begins(&mut self, phase: &Phase, nth: usize, of: usize) {
        self.at = format!("{nth}/{} {}", of.max(nth), phase.name);
        if let Some(bar) = &self.bar {
            bar.set_message(self.at.clone());
        }
    }

    fn progress(&mut self, progress: &Progress) {
        let Some(bar) = &self.bar else { return };
        bar.tick();
        bar.set_message(format!("{}  {}", self.at, line(progress)));
    }

    fn ended(&mut self, phase: &Phase, result: &result::Phase) {
        let done: u64 = result.commands.iter().map(|command| command.count).sum();
        let errors: u64 = result.commands.iter().map(result::Command::errors).sum();
        let setup = if phase.setup { " (preparation)" } else { "" };
        let failed = if errors > 0 { format!(", {} errors", HumanCount(errors)) } else { String::new() };
        self.say(&format!(
            "{}{setup}: {} commands in {:.2} s{failed}",
            self.at,
            HumanCount(done),
            result.seconds()
        ));
    }
}

fn line(progress: &Progress) -> String {
    let seconds = |time: Duration| format!("{:.0} s", time.as_secs_f64());
    let far = match (progress.duration, progress.of_rounds) {
        (Some(duration), _) => format!("{} of {}", seconds(progress.elapsed), seconds(duration)),
        (None, Some(of)) => format!(
            "{} of {} rounds, {}",
            HumanCount(progress.rounds),
            HumanCount(of),
            seconds(progress.elapsed)
        ),
        (None, None) => seconds(progress.elapsed),
    };
    let rate = progress.done as f64 / progress.elapsed.as_secs_f64().max(0.001);
    format!(
        "{far} · {} open · {} done, {rate:.0}/s · {} errors · ↑ {} ↓ {}",
        HumanCount(progress.open),
        HumanCount(progress.done),
        HumanCount(progress.errors),
        HumanBytes(progress.sent),
        HumanBytes(progress.received),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_one_line() {
        let progress = Progress {
            elapsed: Duration::from_secs(5),
            duration: Some(Duration::from_secs(60)),
            done: 5000,
            ..Progress::default()
        };
        assert_eq!(line(&progress), "5 s of 60 s · 0 open · 5,000 done, 1000/s · 0 errors · ↑ 0 B ↓ 0 B");
    }
}
