//! Bars: what must hold when a phase is over, such as `FETCH p99 <= 250ms`.

use super::{count, duration};
use crate::result::{Command, Latency, Phase};

/// One condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// As it was written.
    pub text: String,
    /// The command; `None`: all of them.
    command: Option<String>,
    figure: Figure,
    at_most: bool,
    limit: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    Quantile(u32),
    Mean,
    Max,
    Errors,
    Count,
    Rate,
    Seconds,
    Peak,
    Growth,
}

const FORM: &str = "a bar is written as: [COMMAND] FIGURE <= VALUE or >= VALUE; figures are p50, p90, p99, p999, mean, max, \
                    errors, count, rate, seconds, peak, growth";

impl Bar {
    /// Parses it.
    ///
    /// # Errors
    /// How to write it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [command @ .., figure, relation, value] = &words[..] else { return Err(FORM.into()) };
        let figure = match *figure {
            "p50" => Figure::Quantile(500),
            "p90" => Figure::Quantile(900),
            "p99" => Figure::Quantile(990),
            "p999" => Figure::Quantile(999),
            "mean" => Figure::Mean,
            "max" => Figure::Max,
            "errors" => Figure::Errors,
            "count" => Figure::Count,
            "rate" => Figure::Rate,
            "seconds" => Figure::Seconds,
            "peak" => Figure::Peak,
            "growth" => Figure::Growth,
            _ => return Err(FORM.into()),
        };
        let at_most = match *relation {
            "<=" => true,
            ">=" => false,
            _ => return Err(FORM.into()),
        };
        let limit = match figure {
            Figure::Quantile(_) | Figure::Mean | Figure::Max => duration(value)?.as_micros() as f64,
            Figure::Peak | Figure::Growth => mebibytes(value)?,
            Figure::Seconds => duration(value)?.as_secs_f64(),
            Figure::Errors | Figure::Count | Figure::Rate => count(value)? as f64,
        };
        let command = Some(command.join(" ")).filter(|name| !name.is_empty());
        Ok(Bar { text: text.to_owned(), command, figure, at_most, limit })
    }

    /// Why `phase` does not meet it; `None` if it does.
    pub fn miss(&self, phase: &Phase) -> Option<String> {
        let commands: Vec<&Command> = phase
            .commands
            .iter()
            .filter(|c| self.command.as_ref().is_none_or(|name| *name == c.name))
            .collect();
        let missed = |is: String| Some(format!("{}: {} (is {is})", phase.name, self.text));
        if self.command.is_some() && commands.is_empty() {
            return missed("nothing: no such command was sent".into());
        }
        let number: u64 = commands.iter().map(|c| c.count).sum();
        let latency = Latency::merged(commands.iter().map(|c| &c.latency));
        let value = match self.figure {
            Figure::Quantile(per_mille) => latency.quantile_us(f64::from(per_mille) / 1000.0) as f64,
            Figure::Mean => latency.mean_us,
            Figure::Max => latency.max_us as f64,
            Figure::Errors => commands.iter().map(|c| c.errors()).sum::<u64>() as f64,
            Figure::Count => number as f64,
            Figure::Rate => number as f64 / phase.seconds().max(1e-9),
            Figure::Seconds => phase.seconds(),
            Figure::Peak | Figure::Growth if phase.server_ended.is_some() => {
                return missed("not known: the server's processes ended".into());
            }
            Figure::Peak => match phase.peak_bytes {
                Some(bytes) => bytes as f64,
                None => return missed("not known: the server's processes were not seen".into()),
            },
            Figure::Growth => match phase.growth_bytes() {
                Some(bytes) => bytes as f64,
                None if phase.peak_at_least => return missed("not known: the phase was too short".into()),
                None => return missed("not known: the server's processes were not seen".into()),
            },
        };
        let is_time = matches!(self.figure, Figure::Quantile(_) | Figure::Mean | Figure::Max);
        if is_time && number == 0 {
            return missed("nothing: none ended well".into());
        }
        let met = if self.at_most { value <= self.limit } else { value >= self.limit };
        if met { None } else { missed(self.shown(value)) }
    }

    fn shown(&self, value: f64) -> String {
        match self.figure {
            Figure::Quantile(_) | Figure::Mean | Figure::Max => format!("{:.2}ms", value / 1000.0),
            Figure::Peak | Figure::Growth => format!("{:.1}MiB", value / 1_048_576.0),
            Figure::Seconds => format!("{value:.2}s"),
            _ => format!("{value:.0}"),
        }
    }
}

fn mebibytes(text: &str) -> Result<f64, String> {
    let number =
        text.strip_suffix("MiB").and_then(|n| n.parse::<f64>().ok()).filter(|n| n.is_finite() && *n >= 0.0);
    number.map(|n| n * 1_048_576.0).ok_or_else(|| "a size such as \"64MiB\"".to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn phase() -> Phase {
        let times: Vec<_> = (1..=100).map(Duration::from_millis).collect();
        let command = Command {
            name: "FETCH 1:* ALL".into(),
            count: 100,
            latency: Latency::of_times(&times),
            ..Command::default()
        };
        Phase {
            name: "read".into(),
            end: 2.0,
            peak_bytes: Some(64 << 20),
            begin_bytes: Some(60 << 20),
            commands: vec![command],
            ..Phase::default()
        }
    }

    #[test]
    fn bars_are_met_or_missed() {
        let miss = |text: &str| Bar::parse(text).unwrap().miss(&phase());
        for met in [
            "p99 <= 100ms",
            "FETCH 1:* ALL p50 <= 51ms",
            "errors <= 0",
            "rate >= 50",
            "growth <= 8MiB",
            "seconds <= 2s",
        ] {
            assert_eq!(miss(met), None, "{met}");
        }
        assert_eq!(miss("rate >= 51").unwrap(), "read: rate >= 51 (is 50)");
        assert_eq!(miss("growth <= 3MiB").unwrap(), "read: growth <= 3MiB (is 4.0MiB)");
        assert!(miss("max <= 99ms").unwrap().starts_with("read: max <= 99ms (is 100."));
        assert!(miss("STORE p99 <= 1s").unwrap().contains("no such command"));
    }

    #[test]
    fn unseen_growth_meets_no_bar() {
        let short = Phase { peak_bytes: Some(60 << 20), peak_at_least: true, ..phase() };
        let missed = Bar::parse("growth <= 1MiB").unwrap().miss(&short).unwrap();
        assert_eq!(missed, "read: growth <= 1MiB (is not known: the phase was too short)");
        assert_eq!(
            Bar::parse("growth <= 1MiB").unwrap().miss(&Phase { peak_at_least: false, ..short }),
            None
        );
    }

    #[test]
    fn memory_of_a_server_that_ended_meets_no_bar() {
        let ended = Phase { server_ended: Some(1.0), ..phase() };
        for bar in ["peak <= 100MiB", "growth <= 100MiB", "peak >= 1MiB"] {
            let missed = Bar::parse(bar).unwrap().miss(&ended).unwrap();
            assert_eq!(missed, format!("read: {bar} (is not known: the server's processes ended)"));
        }
        assert_eq!(Bar::parse("errors <= 0").unwrap().miss(&ended), None);
    }

    #[test]
    fn invalid_bars_are_reported() {
        for wrong in ["", "p99", "p99 < 5ms", "p98 <= 5ms", "p99 <= 5", "peak <= 5MB", "errors <= few"] {
            assert!(Bar::parse(wrong).is_err(), "{wrong}");
        }
    }
}
