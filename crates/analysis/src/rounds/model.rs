//! What rounds cost: the analytic model of several disks on one bus.
//!
//! D disks have one random read of B bytes each under way. In a round all position at once while the bus idles; the
//! first to have its block in its buffer sends it, the others follow without a gap, and only then does the host send
//! the next commands. With b the bus's rate, m the medium's, T = B / b, P a disk's positioning time (seek and rotation)
//! and O what a round costs besides:
//!
//! 1. the round, if a disk asks for the bus once F bytes are buffered: R = O + MPT(D) + F / m + D T;
//! 2. throughput: X = D B / R;
//! 3. the deltas of completions: one large, O + MPT(D) + B / m + T, then D - 1 small, T;
//! 4. the least positioning time of D disks: MPT(D) = integral from 0 on of (1 - F_P(t))^D dt, F_P being P's
//!    distribution;
//! 5. one round exactly, disk after disk in order of P: s_k = max(e_(k-1), P_(k) + F / m), e_k = max(s_k + T, P_(k) + B
//!    / m), R = O + `E[e_D]`: a disk that has the bus before its block is complete sends the rest at the medium's rate,
//!    and a late one leaves a gap;
//! 6. for comparison the model without rounds, D independent disks: X = min(b, D B / (`E[P]` + B / m + T)).
//!
//! Formulas 1 to 3 and 6 are what the study and its sequel say in words (R. Barve et al., "Modeling and optimizing I/O
//! throughput of multiple disks on a bus", 1999; US 6,260,108 lists the terms of 1); 4 and 5 follow from its account of
//! a round. F is fence times B, at most the disk's buffer.
//!
//! Pipelined reads, by which a disk positions for its next block while others transfer, cannot make a round shorter
//! than either the bus or one disk needs: R >= max(D T, `E[P]` + B / m).
//!
//! The seek curve is a + b sqrt(x) + c x over the distance x as a share of the whole stroke, which meets a drive's
//! three printed numbers: a is the least, a + b + c the greatest, and the mean is over independent uniform addresses,
//! whose distance has the density 2 (1 - x): `E[x]` = 1/3, `E[sqrt x]` = 8/15.

use rand_distr::{Distribution, StandardUniform};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use serde::Serialize;
use units::{Bytes, Duration, Rate, Ratio};

use crate::json::number;

/// Disks and their bus.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bus {
    /// How many disks.
    #[serde(skip)]
    pub disks: u32,
    /// How much each read asks for.
    #[serde(skip)]
    pub block: Bytes,
    /// What the bus moves, host adapter and disk controller included.
    #[serde(with = "number", rename = "bus_bytes_per_s")]
    pub rate: Rate,
    /// What passes under a head.
    #[serde(with = "number", rename = "media_bytes_per_s")]
    pub media: Rate,
    /// A revolution.
    #[serde(with = "number", rename = "revolution_ns")]
    pub revolution: Duration,
    /// Seek times.
    #[serde(flatten)]
    pub seek: Seek,
    /// The share of a request that a disk buffers before it asks for the bus.
    #[serde(with = "number")]
    pub fence: Ratio,
    /// The disk's buffer, if it bounds that share.
    #[serde(rename = "buffer_bytes", serialize_with = "bytes")]
    pub buffer: Option<Bytes>,
    /// What a round costs besides.
    #[serde(with = "number", rename = "overhead_ns")]
    pub overhead: Duration,
}

fn bytes<S: serde::Serializer>(bytes: &Option<Bytes>, serializer: S) -> Result<S::Ok, S::Error> {
    bytes.map(Bytes::get).serialize(serializer)
}

/// The constants, without the disks and the block.
impl std::fmt::Display for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Bus { rate, media, revolution, seek: Seek { least, mean, greatest }, fence, overhead, .. } = self;
        write!(
            f,
            "bus {rate}, medium {media}, revolution {revolution}, seeks of {least} at least, {mean} on average and {greatest} at most, fence {fence}"
        )?;
        if let Some(buffer) = self.buffer {
            write!(f, " of the request or {buffer}")?;
        }
        if overhead.is_zero() { Ok(()) } else { write!(f, ", {overhead} besides in each round") }
    }
}

/// The seek times that data sheets print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Seek {
    /// To the next track.
    #[serde(with = "number", rename = "seek_least_ns")]
    pub least: Duration,
    /// Between random addresses, on average.
    #[serde(with = "number", rename = "seek_mean_ns")]
    pub mean: Duration,
    /// Over the whole stroke.
    #[serde(with = "number", rename = "seek_greatest_ns")]
    pub greatest: Duration,
}

/// What the formulas give.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prediction {
    /// How many disks.
    pub disks: u32,
    /// How much each read asks for.
    #[serde(with = "number", rename = "block_bytes")]
    pub block: Bytes,
    /// Formula 4: MPT(D).
    #[serde(with = "number", rename = "positioning_min_ns")]
    pub positioning_min: Duration,
    /// `E[P]`.
    #[serde(with = "number", rename = "positioning_mean_ns")]
    pub positioning_mean: Duration,
    /// T.
    #[serde(with = "number", rename = "transfer_ns")]
    pub transfer: Duration,
    /// Formula 3.
    #[serde(with = "number", rename = "large_ns")]
    pub large: Duration,
    /// Formula 1.
    #[serde(with = "number", rename = "round_sum_ns")]
    pub round_sum: Duration,
    /// Formula 5.
    #[serde(with = "number", rename = "round_ns")]
    pub round: Duration,
    /// Formula 2, of formula 5's round.
    #[serde(with = "number", rename = "bandwidth_bytes_per_s")]
    pub bandwidth: Rate,
    /// Formula 6.
    #[serde(with = "number", rename = "independent_bytes_per_s")]
    pub independent: Rate,
    /// Of pipelined reads, at best.
    #[serde(with = "number", rename = "pipelined_at_best_bytes_per_s")]
    pub pipelined: Rate,
    /// The constants that it was reckoned with.
    pub constants: Bus,
}

/// Why a bus cannot be reckoned with.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum ModelError {
    #[error("rounds need disks: give 1 to {MOST_DISKS}, not {0}")]
    Disks(u32),
    #[error("{0} must be above zero")]
    Zero(&'static str),
    #[error("seeks take {least} at least and {greatest} at most: the least must not be above the greatest")]
    Order { least: Duration, greatest: Duration },
    #[error(
        "no seek curve rises from {least} to {greatest} with a mean of {mean}: between random addresses it takes between {low} and {high}"
    )]
    Mean { least: Duration, greatest: Duration, mean: Duration, low: Duration, high: Duration },
    #[error(
        "with these values a round takes {days:.3e} days; the formulas are of disks, with rounds of less than a day: give greater rates, shorter times, or fewer and smaller reads"
    )]
    TooLong { days: f64 },
    #[error("the fence is a share of the request, at most 100 %, not {0}")]
    Fence(Ratio),
}

/// More share no bus; and each has its draw in every round.
const MOST_DISKS: u32 = 1024;

/// Seconds. No machine is reckoned with here whose round takes a day, and times of centuries cannot be printed.
const LONGEST: f64 = 86_400.0;

/// Steps of the numerical integrals: their error is below a thousandth of the result.
const STEPS: usize = 4096;

/// Positioning times drawn for formula 5, in rounds of all disks. The standard error of a mean is below a hundredth of
/// a revolution.
const DRAWS: u32 = 1 << 18;

/// The same parameters give the same result.
const SEED: u64 = 1999;

impl Bus {
    /// What the formulas give.
    pub fn predict(&self) -> Result<Prediction, ModelError> {
        let curve = self.check()?;
        let seconds = |bytes: f64, rate: Rate| bytes / rate.get();
        let block = self.block.get() as f64;
        let disks = f64::from(self.disks);
        let overhead = self.overhead.as_seconds();
        let fenced = (block * self.fence.get()).min(self.buffer.map_or(f64::INFINITY, |buffer| buffer.get() as f64));
        let (transfer, media, buffered) =
            (seconds(block, self.rate), seconds(block, self.media), seconds(fenced, self.media));
        let (mean, least) = curve.positioning(self.revolution.as_seconds(), self.disks);
        let round = overhead + self.exact(&curve, transfer, media, buffered);
        let longest =
            round.max(overhead + least + media + transfer).max(overhead + least + buffered + disks * transfer);
        if longest > LONGEST {
            return Err(ModelError::TooLong { days: longest / 86_400.0 });
        }
        let bandwidth = |round: f64| Rate::bytes_per_second(disks * block / round);
        let time = Duration::from_seconds;
        Ok(Prediction {
            disks: self.disks,
            block: self.block,
            positioning_min: time(least),
            positioning_mean: time(mean),
            transfer: time(transfer),
            large: time(overhead + least + media + transfer),
            round_sum: time(overhead + least + buffered + disks * transfer),
            round: time(round),
            bandwidth: bandwidth(round),
            independent: Rate::bytes_per_second(self.rate.get().min(disks * block / (mean + media + transfer))),
            pipelined: bandwidth((disks * transfer).max(mean + media)),
            constants: *self,
        })
    }

    /// Formula 5: the mean end of a round, by drawing positioning times.
    fn exact(&self, curve: &Curve, transfer: f64, media: f64, buffered: f64) -> f64 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
        let mut draw = || -> f64 { StandardUniform.sample(&mut random) };
        let rounds = DRAWS / self.disks;
        let mut times = vec![0.0; self.disks as usize];
        let mut sum = 0.0;
        for _ in 0..rounds {
            times.fill_with(|| curve.at((draw() - draw()).abs()) + draw() * self.revolution.as_seconds());
            times.sort_unstable_by(f64::total_cmp);
            sum += times.iter().fold(0.0, |end: f64, positioned| {
                let start = end.max(positioned + buffered);
                (start + transfer).max(positioned + media)
            });
        }
        sum / f64::from(rounds)
    }

    fn check(&self) -> Result<Curve, ModelError> {
        if !(1..=MOST_DISKS).contains(&self.disks) {
            return Err(ModelError::Disks(self.disks));
        }
        for (name, zero) in [
            ("the block", self.block.is_zero()),
            ("the bus's rate", self.rate.is_zero()),
            ("the medium's rate", self.media.is_zero()),
            ("a revolution", self.revolution.is_zero()),
        ] {
            if zero {
                return Err(ModelError::Zero(name));
            }
        }
        if self.fence > Ratio::ONE {
            return Err(ModelError::Fence(self.fence));
        }
        self.seek.curve()
    }
}

impl Seek {
    fn curve(&self) -> Result<Curve, ModelError> {
        let Seek { least, mean, greatest } = *self;
        if least > greatest {
            return Err(ModelError::Order { least, greatest });
        }
        let (a, rise) = (least.as_seconds(), greatest.as_seconds() - least.as_seconds());
        // From mean - a = 8/15 b + 1/3 c and b + c = rise; neither may be negative, or the curve would fall somewhere.
        let root = 5.0 * (mean.as_seconds() - a - rise / 3.0);
        let (low, high) = (a + rise / 3.0, a + rise * 8.0 / 15.0);
        let slack = 1e-9;
        if root < -slack || root > rise + slack {
            let (low, high) = (Duration::from_seconds(low), Duration::from_seconds(high));
            return Err(ModelError::Mean { least, greatest, mean, low, high });
        }
        let root = root.clamp(0.0, rise);
        Ok(Curve { least: a, root, linear: rise - root })
    }
}

/// Seek time over distance, in seconds.
struct Curve {
    least: f64,
    root: f64,
    linear: f64,
}

impl Curve {
    /// The time to cross this share of the stroke.
    fn at(&self, distance: f64) -> f64 {
        self.least + self.root * distance.sqrt() + self.linear * distance
    }

    /// The share of seeks that take at most `time`.
    fn share(&self, time: f64) -> f64 {
        if time < self.least {
            return 0.0;
        }
        if time >= self.at(1.0) {
            return 1.0;
        }
        let rest = self.least - time;
        let (b, c) = (self.root, self.linear);
        // The root of c y^2 + b y + rest, y being the root of the distance; in the form that c = 0 does not break.
        let y = -2.0 * rest / (b + (b * b - 4.0 * c * rest).sqrt());
        let distance = y * y;
        distance * (2.0 - distance)
    }

    /// `E[P]` and MPT(D), formula 4, by trapezoids. The rotation adds anything up to a revolution: F_P(t) is the mean
    /// of the seek's distribution over the revolution before t.
    fn positioning(&self, revolution: f64, disks: u32) -> (f64, f64) {
        let end = self.at(1.0) + revolution;
        let step = end / STEPS as f64;
        // The integral of the seek's distribution up to each step.
        let mut integral = vec![0.0; STEPS + 1];
        for index in 1..=STEPS {
            let at = |index: usize| self.share(index as f64 * step);
            integral[index] = integral[index - 1] + (at(index - 1) + at(index)) / 2.0 * step;
        }
        let up_to = |time: f64| {
            let place = (time / step).clamp(0.0, STEPS as f64);
            let below = (place as usize).min(STEPS - 1);
            integral[below] + (integral[below + 1] - integral[below]) * (place - below as f64)
        };
        let later = |index: usize| {
            let time = index as f64 * step;
            (1.0 - (up_to(time) - up_to(time - revolution)) / revolution).clamp(0.0, 1.0)
        };
        let sum = |power: i32| {
            let inner: f64 = (1..STEPS).map(|index| later(index).powi(power)).sum();
            (inner + (later(0).powi(power) + later(STEPS).powi(power)) / 2.0) * step
        };
        (sum(1), sum(disks as i32))
    }
}
