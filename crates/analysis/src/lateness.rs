//! How late requests were issued: a replay, or any open loop, is as good as it keeps to its times.

use record::{Histogram, Row};
use units::{Duration, Ratio};

use crate::Latency;

/// An issue within this is on time. By itself the kernel may wake a thread that sleeps so much too late (prctl(2),
/// `PR_SET_TIMERSLACK`); ours have asked it to be exact.
pub const ON_TIME: Duration = Duration::micros(50);

/// How late requests were issued.
#[derive(Debug, Clone)]
pub struct Lateness {
    times: Histogram,
    on_time: u64,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness { times: Histogram::new(), on_time: 0 }
    }
}

impl Lateness {
    /// Counts a request: from when it was due to when it was issued.
    pub fn add(&mut self, row: &Row) {
        self.times.record(row.wait());
        self.on_time += u64::from(row.wait() <= ON_TIME);
    }

    /// What share was issued within [`ON_TIME`]; `None` without requests.
    pub fn on_time(&self) -> Option<Ratio> {
        let count = self.times.count();
        (count > 0).then(|| Ratio::new(self.on_time as f64 / count as f64))
    }

    /// How they are distributed; `None` without requests.
    pub fn times(&self) -> Option<Latency> {
        Latency::of(&self.times)
    }
}

#[cfg(test)]
mod tests {
    use record::{Operation, Phase};
    use units::Instant;

    use super::*;

    #[test]
    fn what_is_issued_within_the_timers_slack_is_on_time() {
        let mut late = Lateness::default();
        assert_eq!((late.on_time(), late.times().is_none()), (None, true));
        for wait in [0, 50, 51, 4000] {
            let mut row = Row::new(Operation::Read, Phase::Measure);
            row.submitted = Instant::START + Duration::micros(wait);
            row.completed = row.submitted;
            late.add(&row);
        }
        assert_eq!(late.on_time(), Some(Ratio::percent(50.0)));
        assert_eq!(late.times().unwrap().max, Duration::micros(4000));
    }
}
