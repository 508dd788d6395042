//! When the requests of an open loop are due.
//!
//! All but the constant process are made of exponential distances, which have no memory. With rate `r` and coefficient of variation
//! `c >= 1` (standard deviation of the distances over their mean), a *hyper-exponential* distance is drawn from one of two exponential
//! distributions: with probability `p` at rate `2 p r`, otherwise at rate `2 (1 - p) r`, where `p = (1 + sqrt((c^2 - 1) / (c^2 + 1))) / 2`. That is
//! the choice with balanced means (H. C. Tijms, "A First Course in Stochastic Models", 2003, appendix B): both kinds contribute half of the
//! mean, and two moments decide all. `c` of 1 is the Poisson process.
//!
//! *Bursts* are a Poisson process whose clock stands still between them: at a rate for some time, then nothing, and again.

use rand::RngExt;
use rand_distr::{Distribution, Exp1};
use runtime::Random;
use units::{Duration, Frequency, Instant, Ratio};

/// An arrival process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// At equal distances.
    Constant(Frequency),
    /// Independent of each other: exponential distances with this mean rate.
    Poisson(Frequency),
    /// Distances that are independent of each other and vary more than exponential ones do.
    HyperExponential {
        /// The mean rate.
        rate: Frequency,
        /// Standard deviation of the distances over their mean; at least 100 %.
        variation: Ratio,
    },
    /// Poisson arrivals for some time, then none for some time, and so on.
    Bursts {
        /// The mean rate within a burst.
        rate: Frequency,
        /// How long a burst lasts; above zero. The first begins with the process.
        on: Duration,
        /// How long the silence lasts that follows it.
        off: Duration,
    },
}

/// The arrivals of one stream on one device, one after the other.
#[derive(Debug)]
pub struct Clockwork {
    arrivals: Arrivals,
    random: Random,
    start: Instant,
    /// Arrivals that have been given out.
    given: u64,
    /// Of bursts: the time that the process has run, silence not counted.
    awake: Duration,
    next: Instant,
}

impl Arrivals {
    /// The mean rate, silence included.
    pub fn rate(&self) -> Frequency {
        match self {
            Arrivals::Constant(rate) | Arrivals::Poisson(rate) | Arrivals::HyperExponential { rate, .. } => *rate,
            Arrivals::Bursts { rate, on, off } => {
                Frequency::per_second(rate.get() * on.as_seconds() / (*on + *off).as_seconds())
            }
        }
    }

    /// The same process, `factor` times as fast. Bursts keep their lengths.
    pub fn faster(&self, factor: f64) -> Arrivals {
        let times = |rate: Frequency| Frequency::per_second(rate.get() * factor);
        match *self {
            Arrivals::Constant(rate) => Arrivals::Constant(times(rate)),
            Arrivals::Poisson(rate) => Arrivals::Poisson(times(rate)),
            Arrivals::HyperExponential { rate, variation } => {
                Arrivals::HyperExponential { rate: times(rate), variation }
            }
            Arrivals::Bursts { rate, on, off } => Arrivals::Bursts { rate: times(rate), on, off },
        }
    }
}

impl Clockwork {
    /// A process that starts at `start`. A constant rate has its first arrival then.
    pub fn new(arrivals: Arrivals, start: Instant, random: Random) -> Clockwork {
        let mut clockwork = Clockwork { arrivals, random, start, given: 0, awake: Duration::ZERO, next: start };
        if !matches!(arrivals, Arrivals::Constant(_)) {
            clockwork.advance();
        }
        clockwork
    }

    /// The next arrival. Each is rounded to a nanosecond; the errors do not add up, so the rate is kept however long it lasts.
    pub fn next_arrival(&mut self) -> Instant {
        let arrival = self.next;
        self.given += 1;
        self.advance();
        arrival
    }

    fn advance(&mut self) {
        self.next = match self.arrivals {
            // Counted from the start: periods of 333,333 ns one after the other would be 3000.003/s.
            Arrivals::Constant(rate) => self.start + Duration::from_seconds(self.given as f64 / rate.get()),
            Arrivals::Poisson(rate) => {
                let distance = self.exponential(rate.get());
                self.next + distance
            }
            Arrivals::HyperExponential { rate, variation } => {
                let squared = variation.get().powi(2);
                let frequent = 0.5 * (1.0 + ((squared - 1.0) / (squared + 1.0)).sqrt());
                let share = if self.random.random_bool(frequent) { frequent } else { 1.0 - frequent };
                let distance = self.exponential(2.0 * share * rate.get());
                self.next + distance
            }
            Arrivals::Bursts { rate, on, off } => {
                let more = self.exponential(rate.get());
                self.awake += more;
                let silences = self.awake.as_nanos() / on.as_nanos();
                self.start + self.awake + off * silences
            }
        };
    }

    /// An exponential distance of mean 1 / `rate`.
    fn exponential(&mut self, rate: f64) -> Duration {
        let unit: f64 = Exp1.sample(&mut self.random);
        Duration::from_seconds(unit / rate)
    }
}
