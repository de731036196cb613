//! The progress of a pull, on standard error: at a terminal a bar for each folder and one for all;
//! elsewhere only errors.

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{
    HumanBytes, HumanCount, HumanDuration, MultiProgress, ProgressBar, ProgressState, ProgressStyle,
};
use sealpost_archive::pull::{FolderReport, Observer};

use crate::output::{Output, counted, warn};

const TOTAL: &str = "{spinner} {wide_msg}  {human_pos}/{human_len}  {rate}{left}";
const FOLDER: &str = "  {msg:30!}  {wide_bar}  {human_pos}/{human_len}";

/// Shows it.
pub struct ProgressBars {
    bars: Option<Bars>,
    quiet: bool,
}

struct Bars {
    all: MultiProgress,
    total: ProgressBar,
    folders: Mutex<HashMap<String, ProgressBar>>,
    bytes: Mutex<u64>,
    evicted: Mutex<(u64, u64)>,
}

impl ProgressBars {
    /// Progress bars at a terminal, unless with `--json`; `what` names the work.
    pub fn new(output: Output, what: &str) -> Self {
        let quiet = output.is_quiet();
        if !output.shows_progress() {
            return ProgressBars { bars: None, quiet };
        }
        let all = MultiProgress::new();
        let total = all.add(ProgressBar::new(0));
        total.set_style(style(TOTAL));
        total.set_message(what.to_owned());
        total.enable_steady_tick(Duration::from_millis(200));
        ProgressBars {
            bars: Some(Bars {
                all,
                total,
                folders: Mutex::default(),
                bytes: Mutex::default(),
                evicted: Mutex::default(),
            }),
            quiet,
        }
    }

    /// Leaves the terminal as it was.
    pub fn finish(&self) {
        if let Some(bars) = &self.bars {
            bars.total.finish_and_clear();
            // Nothing more is drawn; what cannot be cleared stays.
            let _ = bars.all.clear();
        }
    }
}

/// One line about what is being done, where nothing else shows it: at a terminal, and gone at the end.
pub struct Working(ProgressBar);

impl Working {
    /// Begins with `what` is being done. `counted` is how what was done is shown, such as
    /// `{human_pos} messages`.
    pub fn new(output: Output, what: &str, counted: &str) -> Self {
        let bar = match output.shows_progress() {
            true => ProgressBar::new_spinner(),
            false => ProgressBar::hidden(),
        };
        bar.set_style(style(&format!("{{spinner}} {{wide_msg}}  {counted}")));
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        Working(bar)
    }

    /// What is being done now.
    pub fn on(&self, what: &str) {
        if self.0.message() != what {
            self.0.set_message(what.to_owned());
        }
    }

    /// So much was done.
    pub fn done(&self, much: u64) {
        self.0.inc(much);
    }

    /// Leaves the terminal as it was.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }

    /// Says something that stays.
    pub fn suspend<T>(&self, say: impl FnOnce() -> T) -> T {
        self.0.suspend(say)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.end();
    }
}

/// A style in which `{rate}` is how many there are a second, and `{left}` how long it still takes.
pub fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style
        .with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
            // The output is lost if it cannot be written there.
            let _ = out.write_str(&rate(state.per_sec()));
        })
        .with_key("left", |state: &ProgressState, out: &mut dyn fmt::Write| {
            let done = state.len().is_none_or(|len| state.pos() >= len);
            let _ = out.write_str(&left(done, state.eta()));
        })
}

fn rate(a_second: f64) -> String {
    if a_second < 10.0 {
        format!("{a_second:.1}/s")
    } else {
        format!("{}/s", HumanCount(a_second.round() as u64))
    }
}

fn left(done: bool, left: Duration) -> String {
    if done || left.as_secs() == 0 { String::new() } else { format!("  {:#} left", HumanDuration(left)) }
}

impl Observer for ProgressBars {
    fn begins(&self, folder: &str, messages: u64) {
        let Some(bars) = &self.bars else { return };
        if messages == 0 {
            return;
        }
        bars.total.inc_length(messages);
        let bar = bars.all.insert_before(&bars.total, ProgressBar::new(messages));
        bar.set_style(style(FOLDER));
        bar.set_message(folder.to_owned());
        bars.folders.lock().unwrap_or_else(|e| e.into_inner()).insert(folder.to_owned(), bar);
    }

    fn stored(&self, folder: &str, messages: u64, bytes: u64) {
        let Some(bars) = &self.bars else { return };
        bars.total.inc(messages);
        let mut all = bars.bytes.lock().unwrap_or_else(|e| e.into_inner());
        *all += bytes;
        bars.total.set_message(HumanBytes(*all).to_string());
        if let Some(bar) = bars.folders.lock().unwrap_or_else(|e| e.into_inner()).get(folder) {
            bar.inc(messages);
        }
    }

    fn ended(&self, folder: &FolderReport) {
        if let Some(bars) = &self.bars
            && let Some(bar) = bars.folders.lock().unwrap_or_else(|e| e.into_inner()).remove(&folder.name)
        {
            bar.finish_and_clear();
            bars.all.remove(&bar);
        }
        if let Some(error) = &folder.error {
            self.note(&format!("{}: {error}", folder.name));
        }
        if let Some(first) = folder.unread.first() {
            let (name, uid) = (&folder.name, first.uid);
            let n = counted(folder.unread_all, "message is", "messages are");
            self.note(&format!(
                "{name}: {n} kept without some of their flags or without a date; UID {uid}: {}",
                first.reason
            ));
        }
        for failure in &folder.failed {
            self.note(&format!("{}, UID {}: {}", folder.name, failure.uid, failure.reason));
        }
        if folder.lost > 0 {
            let uids: Vec<String> = folder.lost_of.iter().take(20).map(u32::to_string).collect();
            self.note(&format!(
                "{}: {} lost: the server no longer has them{}{}",
                folder.name,
                counted(folder.lost, "evicted body is", "evicted bodies are"),
                if uids.is_empty() { "" } else { ": UID " },
                uids.join(", ")
            ));
        }
        if folder.failed_more > 0 {
            self.note(&format!("{}: and {} more", folder.name, HumanCount(folder.failed_more)));
        }
    }

    fn evicted(&self, messages: u64, freed: u64) {
        if let Some(bars) = &self.bars {
            let mut all = bars.evicted.lock().unwrap_or_else(|e| e.into_inner());
            *all = (all.0 + messages, all.1 + freed);
            let (bodies, bytes) = (counted(all.0, "body", "bodies"), HumanBytes(all.1));
            bars.total.set_message(format!("{bodies} evicted, {bytes}"));
        }
    }

    fn waits(&self, text: &str) {
        if !self.quiet {
            self.note(text);
        }
    }

    fn note(&self, text: &str) {
        let say = || warn(format_args!("sealpost: {text}"));
        match &self.bars {
            Some(bars) => bars.all.suspend(say),
            None => say(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_rounded_and_completed_work_shows_no_remaining_time() {
        let shown = [210.4792, 12_345.6, 9.96, 0.25, 0.0].map(rate);
        assert_eq!(shown, ["210/s", "12,346/s", "10.0/s", "0.2/s", "0.0/s"]);
        assert_eq!(left(false, Duration::from_secs(5)), "  5s left");
        assert_eq!(left(true, Duration::from_secs(5)) + &left(false, Duration::from_millis(900)), "");
    }
}
