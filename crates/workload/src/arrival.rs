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
    start: Instant,
    /// Arrivals that have been given out.
    given: u64,
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
        let mut clockwork = Clockwork { arrivals, random, start, given: 0, next: start };
        if let Arrivals::Poisson(_) = arrivals {
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
                let unit: f64 = Exp1.sample(&mut self.random);
                self.next + Duration::from_seconds(unit / rate.get())
            }
        };
    }
}
