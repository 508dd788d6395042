//! When the requests of an open loop are due.
//!
//! All but the constant process are made of exponential distances, which have no memory. With rate `r` and coefficient
//! of variation `c >= 1` (standard deviation of the distances over their mean), a *hyper-exponential* distance is drawn
//! from one of two exponential distributions: with probability `p` at rate `2 p r`, otherwise at rate `2 (1 - p) r`,
//! where `p = (1 + sqrt((c^2 - 1) / (c^2 + 1))) / 2`. That is the choice with balanced means (H. C. Tijms, "A First
//! Course in Stochastic Models", 2003, appendix B): both kinds contribute half of the mean, and two moments decide all.
//! `c` of 1 is the Poisson process.
//!
//! *Distances known at points* are those of which a study prints the shares `F(t)` that are no longer than some times.
//! `F` is taken as straight lines through the points; the last line goes on until `F` is 1. A distance is `F^-1` of a
//! number that is uniform from 0 to 1: the continuous empirical distribution (A. M. Law, "Simulation Modeling and
//! Analysis", 2015, 6.2.4). Rejected: a constant hazard between the points. It needs no end, but makes short distances
//! more frequent within a piece, for which no study gives a reason.
//!
//! *Bursts* are a Poisson process whose clock stands still between them: at a rate for some time, then nothing, and
//! again.

use rand::RngExt;
use rand_distr::{Distribution, Exp1};
use runtime::Random;
use units::{Duration, Frequency, Instant, Ratio};

/// Points of a distribution of distances, at most [`Distances::MOST`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distances {
    points: [(Duration, Ratio); Distances::MOST],
    count: usize,
}

impl Distances {
    /// The most points there can be.
    pub const MOST: usize = 8;

    /// The share of distances that are no longer than each time: both rise from point to point, times from above zero,
    /// shares from above 0 to below 100 percent. `None` where they do not, and of no points or too many.
    pub fn new(points: &[(Duration, Ratio)]) -> Option<Distances> {
        let rises = points.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1);
        let (first, last) = (points.first()?, points.last()?);
        let within = !first.0.is_zero() && first.1.get() > 0.0 && last.1.get() < 1.0;
        let mut kept = [(Duration::ZERO, Ratio::ZERO); Distances::MOST];
        kept.get_mut(..points.len())?.copy_from_slice(points);
        (rises && within).then_some(Distances { points: kept, count: points.len() })
    }

    /// The points.
    pub fn points(&self) -> &[(Duration, Ratio)] {
        &self.points[..self.count]
    }

    /// The straight pieces: where each begins (seconds, share), and the share that comes with a second more.
    fn pieces(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        let at = |point: &(Duration, Ratio)| (point.0.as_seconds(), point.1.get());
        let before = std::iter::once((0.0, 0.0)).chain(self.points().iter().map(at));
        before.zip(self.points().iter().map(at)).map(|(from, to)| (from.0, from.1, (to.1 - from.1) / (to.0 - from.0)))
    }

    /// The mean distance, in seconds: the middle of each piece, by its share.
    fn mean(&self) -> f64 {
        let ends = self.pieces().skip(1).map(|(_, share, _)| share).chain([1.0]);
        self.pieces().zip(ends).map(|((time, from, slope), to)| (to - from) * (time + (to - from) / slope / 2.0)).sum()
    }

    /// The standard deviation of the distances over their mean.
    fn variation(&self) -> f64 {
        let ends = self.pieces().skip(1).map(|(_, share, _)| share).chain([1.0]);
        // Of a piece its square is that of its middle, and a twelfth of the square of its length.
        let square = |((time, from, slope), to): ((f64, f64, f64), f64)| {
            let length = (to - from) / slope;
            (to - from) * ((time + length / 2.0).powi(2) + length.powi(2) / 12.0)
        };
        let squares: f64 = self.pieces().zip(ends).map(square).sum();
        (squares / self.mean().powi(2) - 1.0).max(0.0).sqrt()
    }

    /// The distance that a share of all are no longer than.
    fn at(&self, share: f64) -> f64 {
        let piece = self.pieces().take_while(|(_, from, _)| *from <= share).last();
        let (time, from, slope) = piece.expect("shares begin at nothing");
        time + (share - from) / slope
    }
}

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
    /// Distances that are independent of each other, and known at points of their distribution.
    Distances(Distances),
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
            Arrivals::Distances(distances) => Frequency::per_second(1.0 / distances.mean()),
            Arrivals::Bursts { rate, on, off } => {
                Frequency::per_second(rate.get() * on.as_seconds() / (*on + *off).as_seconds())
            }
        }
    }

    /// The standard deviation of the distances over their mean; of bursts, within a burst. The standard deviation of the
    /// number of arrivals in a long time is the root of their mean number, times this.
    pub fn variation(&self) -> Ratio {
        match self {
            Arrivals::Constant(_) => Ratio::ZERO,
            Arrivals::Poisson(_) | Arrivals::Bursts { .. } => Ratio::ONE,
            Arrivals::HyperExponential { variation, .. } => *variation,
            Arrivals::Distances(distances) => Ratio::new(distances.variation()),
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
            Arrivals::Distances(mut distances) => {
                distances.points.iter_mut().for_each(|point| point.0 = point.0.scale(1.0 / factor));
                Arrivals::Distances(distances)
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

    /// The next arrival. Each is rounded to a nanosecond; the errors do not add up, so the rate is kept however long it
    /// lasts.
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
            Arrivals::Distances(distances) => {
                let share: f64 = self.random.random();
                self.next + Duration::from_seconds(distances.at(share))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_and_the_variation_of_distances_are_those_of_what_is_drawn() {
        let point = |millis, percent| (Duration::millis(millis), Ratio::percent(percent));
        let distances = Distances::new(&[point(3, 50.0), point(10, 84.0), point(90, 99.0)]).unwrap();
        let drawn: Vec<f64> = (0..100_000).map(|index| distances.at((f64::from(index) + 0.5) / 1e5)).collect();
        let mean = drawn.iter().sum::<f64>() / 1e5;
        let square = drawn.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / 1e5;
        assert!((distances.mean() / mean - 1.0).abs() < 1e-6, "{} {mean}", distances.mean());
        let variation = Arrivals::Distances(distances).variation().get();
        assert!((variation / (square.sqrt() / mean) - 1.0).abs() < 1e-4, "{variation}");
    }
}
