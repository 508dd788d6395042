//! When the requests of an open loop are due.

use rand_distr::{Distribution, Exp1};
use runtime::Random;
use units::{Duration, Frequency, Instant};

/// An arrival process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// At equal distances.
    Constant(Frequency),
    /// Independent of each other: exponential distances with this mean rate.
    Poisson(Frequency),
}

/// The arrivals of one stream on one device, one after the other.
#[derive(Debug)]
pub struct Clockwork {
    arrivals: Arrivals,
    random: Random,
    next: Instant,
}

impl Arrivals {
    /// The mean rate.
    pub fn rate(&self) -> Frequency {
        match self {
            Arrivals::Constant(rate) | Arrivals::Poisson(rate) => *rate,
        }
    }
}

impl Clockwork {
    /// A process that starts at `start`. A constant rate has its first arrival then.
    pub fn new(arrivals: Arrivals, start: Instant, random: Random) -> Clockwork {
        let mut clockwork = Clockwork { arrivals, random, next: start };
        if let Arrivals::Poisson(_) = arrivals {
            clockwork.advance();
        }
        clockwork
    }

    /// The next arrival. Distances are rounded to nanoseconds, the rate is not: it is kept to one part in 10^9 of a second.
    pub fn next_arrival(&mut self) -> Instant {
        let arrival = self.next;
        self.advance();
        arrival
    }

    fn advance(&mut self) {
        let gap = match self.arrivals {
            Arrivals::Constant(rate) => rate.period(),
            Arrivals::Poisson(rate) => {
                let unit: f64 = Exp1.sample(&mut self.random);
                Duration::from_seconds(unit / rate.get())
            }
        };
        self.next += gap;
    }
}
