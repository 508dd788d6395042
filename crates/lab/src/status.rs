//! How a live run stands, in words and for programs: lines for a terminal, the text format of Prometheus, a document
//! for scripts.
//!
//! All are made of the same [`Tick`]s. *Stragglers* are devices of three or more that did less than 80 percent of what
//! the median device did in the last interval, and devices that did nothing though requests are under way. What limits
//! is told by where requests wait: in a load thread that is at work all the time, at the devices if all that may be
//! under way are, or nowhere: then the load asks for no more.

use std::fmt::Write;

use analysis::SATURATED;
use report::exposition::{Exposition, label};
use serde_json::{Value, json};
use units::{Duration, Ratio};

use crate::pulse::Beat;
use crate::runner::Tick;

/// Below this share of the median a device lags behind.
const LAGS: f64 = 0.8;
/// The percentiles of the text format.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// What was done between two ticks.
#[derive(Debug, Clone)]
pub struct Status {
    time: Duration,
    beats: Vec<Beat>,
    busiest: Ratio,
    elapsed: Duration,
}

impl Status {
    /// What was done since an earlier tick, or since the beginning.
    pub fn between(earlier: Option<&Tick>, now: &Tick) -> Status {
        let beats =
            now.devices.iter().enumerate().map(|(index, beat)| match earlier.and_then(|e| e.devices.get(index)) {
                Some(before) => beat.since(before),
                None => beat.clone(),
            });
        let begin = earlier.map_or(Duration::ZERO, |earlier| earlier.elapsed);
        let time = now.elapsed.saturating_sub(begin).max(Duration::nanos(1));
        Status { time, beats: beats.collect(), busiest: now.generator, elapsed: now.elapsed }
    }

    /// What limits, as far as can be told.
    pub fn limit(&self) -> String {
        let (under_way, lanes) = self.beats.iter().fold((0, 0), |(a, b), beat| (a + beat.under_way, b + beat.lanes));
        if self.busiest.get() >= SATURATED {
            return format!("the generator: a load thread is at work {:.0} % of the time", self.busiest.get() * 100.0);
        }
        if lanes > 0 && under_way == lanes {
            return format!("the devices: all {lanes} requests that may be under way are");
        }
        format!("the load asks for no more: {under_way} of {lanes} requests that may be under way are")
    }

    fn rate(&self, beat: &Beat) -> f64 {
        beat.requests as f64 / self.time.as_seconds()
    }

    /// Whether a device lags behind the others.
    fn straggles(&self, beat: &Beat) -> Option<&'static str> {
        if beat.requests == 0 && beat.under_way > 0 {
            return Some("nothing completed");
        }
        // A survey leaves devices alone at times.
        let loaded = self.beats.iter().filter(|beat| beat.lanes > 0);
        let mut rates: Vec<f64> = loaded.map(|beat| self.rate(beat)).collect();
        rates.sort_by(f64::total_cmp);
        (rates.len() >= 3 && beat.lanes > 0 && self.rate(beat) < LAGS * rates[rates.len() / 2]).then_some("lags behind")
    }

    /// Lines for a terminal.
    pub fn lines(&self, names: &[String]) -> String {
        let mut text = format!("after {}:\n", self.elapsed);
        let width = names.iter().map(String::len).max().unwrap_or(0);
        for (name, beat) in names.iter().zip(&self.beats) {
            let time = |time: Option<Duration>| time.map_or("-".into(), |time| time.to_string());
            let _ = write!(
                text,
                "  {name:<width$}  {:>9.0} /s  {:>10}  mean {:>8}  p99 {:>8}  under way {}/{}",
                self.rate(beat),
                beat.bytes.per(self.time).to_string(),
                time(beat.mean()),
                time(beat.quantile(Ratio::percent(99.0))),
                beat.under_way,
                beat.lanes,
            );
            if beat.errors > 0 {
                let _ = write!(text, "  {} errors", beat.errors);
            }
            if let Some(word) = self.straggles(beat) {
                let _ = write!(text, "  {word}");
            }
            text.push('\n');
        }
        let _ = write!(text, "  what limits: {}", self.limit());
        text
    }

    /// The text format of Prometheus, version 0.0.4. `self` is since the beginning.
    pub fn metrics(&self, names: &[String]) -> String {
        let mut text = Exposition::default();
        let labels: Vec<String> = names.iter().map(|name| label(name)).collect();
        let all = || labels.iter().zip(&self.beats);
        let mut metric = |name: &str, kind: &str, help: &str, lines: Vec<String>| text.family(name, kind, help, lines);
        let each = |of: fn(&Beat) -> u64| {
            all().map(|(label, beat)| format!("{{device=\"{label}\"}} {}", of(beat))).collect::<Vec<_>>()
        };
        metric("arraylab_requests_total", "counter", "Requests completed without error.", each(|beat| beat.requests));
        metric("arraylab_bytes_total", "counter", "Bytes moved by them.", each(|beat| beat.bytes.get()));
        metric("arraylab_errors_total", "counter", "Requests completed with an error.", each(|beat| beat.errors));
        metric("arraylab_requests_under_way", "gauge", "Requests under way.", each(|beat| beat.under_way));
        let mut lines = Vec::new();
        for (label, beat) in all() {
            for share in QUANTILES {
                let time = beat.quantile(Ratio::new(share)).map_or(f64::NAN, Duration::as_seconds);
                lines.push(format!("{{device=\"{label}\",quantile=\"{share}\"}} {time}"));
            }
            lines.push(format!("_sum{{device=\"{label}\"}} {}", beat.responses.as_seconds()));
            lines.push(format!("_count{{device=\"{label}\"}} {}", beat.requests));
        }
        metric(
            "arraylab_response_seconds",
            "summary",
            "Response times since the run began, from the intended arrivals.",
            lines,
        );
        let busy = vec![format!(" {}", self.busiest.get())];
        metric(
            "arraylab_generator_busy_ratio",
            "gauge",
            "Share of its time that the busiest load thread is at work.",
            busy,
        );
        text.text()
    }

    /// For scripts, and for the run folder while the run goes on. `self` is since the beginning.
    pub fn document(&self, names: &[String]) -> Value {
        let nanos = |time: Option<Duration>| time.map(Duration::as_nanos);
        let devices = names.iter().zip(&self.beats).map(|(name, beat)| {
            json!({
                "name": name,
                "requests": beat.requests,
                "bytes": beat.bytes.get(),
                "errors": beat.errors,
                "iops": self.rate(beat),
                "bandwidth_bytes_per_s": beat.bytes.per(self.time).get(),
                "under_way": beat.under_way,
                "latency_ns": {
                    "mean": nanos(beat.mean()),
                    "p50": nanos(beat.quantile(Ratio::percent(50.0))),
                    "p99": nanos(beat.quantile(Ratio::percent(99.0))),
                },
            })
        });
        json!({
            "seconds": self.elapsed.as_seconds(),
            "devices": devices.collect::<Vec<_>>(),
            "limit": self.limit(),
            "generator_busy": self.busiest.get(),
        })
    }
}

#[cfg(test)]
mod tests {
    use device::Operation;
    use record::{Phase, Row};
    use units::Instant;

    use super::*;
    use crate::pulse::Pulse;

    fn tick(elapsed: u64, counts: &[u64], generator: f64) -> Tick {
        let devices = counts.iter().map(|count| {
            let pulse = Pulse::default();
            let mut row = Row::new(Operation::Read, Phase::Measure);
            row.length = 4096;
            row.completed = Instant::START + Duration::millis(2);
            (0..*count).for_each(|_| pulse.add(&row));
            pulse.state(8, Ratio::ZERO);
            pulse.beat(8)
        });
        Tick::of(Duration::seconds(elapsed), None, devices.collect(), Ratio::new(generator))
    }

    #[test]
    fn who_lags_behind_is_named_and_so_is_what_limits() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let (before, now) = (tick(1, &[100, 100, 100], 0.1), tick(2, &[200, 150, 210], 0.1));
        let lines = Status::between(Some(&before), &now).lines(&names);
        let lagging: Vec<&str> = lines.lines().filter(|line| line.contains("lags behind")).collect();
        assert!(lagging.len() == 1 && lagging[0].trim_start().starts_with('b'), "{lines}");
        assert!(lines.contains("the devices: all 24 requests"), "{lines}");
        let hung = Status::between(Some(&now), &tick(3, &[300, 150, 300], 0.99)).lines(&names);
        assert!(hung.contains("nothing completed") && hung.contains("the generator"), "{hung}");
    }

    #[test]
    fn metrics_are_in_the_text_format() {
        let text = Status::between(None, &tick(2, &[200], 0.25)).metrics(&["a \"b\"".to_owned()]);
        assert!(text.contains("arraylab_requests_total{device=\"a \\\"b\\\"\"} 200\n"), "{text}");
        assert!(
            text.contains("arraylab_response_seconds_count{device=") && text.contains("quantile=\"0.99\"} 0.002"),
            "{text}"
        );
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (_, value) = line.rsplit_once(' ').expect("a name and a value");
            value.parse::<f64>().expect("a value is a number");
        }
    }
}
