//! How long the arm takes.
//!
//! Four ways to describe a seek curve are in use, and the drive files contain all of them:
//!
//! - measured points, linear between them (DIXtrac's "extracted" curves);
//! - Ruemmler and Wilkes (IEEE Computer, March 1994): `a + b sqrt(d)` below a distance, `c + e d` from it on, because a
//!   short seek accelerates and brakes and a long one coasts; with the first ten distances given one by one where the
//!   curve is choppy (Worthington et al., CSE-TR-194-94, DiskSim's "hplplus10");
//! - Lee's curve through the single-cylinder, average and full-stroke times of a data sheet (Lee and Katz 1993);
//! - constant.
//!
//! The data-sheet average is taken as the mean over uniformly random pairs of cylinders: a third of the full stroke.

use units::Duration;

/// Seek time as a function of distance. Distance zero takes no time.
#[derive(Debug, Clone, PartialEq)]
pub enum SeekCurve {
    /// Measured `(distance in cylinders, time)`, ascending in distance. See [`SeekCurve::points`].
    Points(Vec<(u32, Duration)>),
    /// Ruemmler and Wilkes.
    Roots {
        /// Times of distances 1, 2, ...; may be empty.
        first: Vec<Duration>,
        /// From this distance on the curve is a line, cylinders.
        boundary: u32,
        /// `a`, the constant of the short seeks.
        short_base: Duration,
        /// `b`, times the square root of the distance.
        short_root: Duration,
        /// `c`, the constant of the long seeks.
        long_base: Duration,
        /// `e`, per cylinder.
        long_slope: Duration,
    },
    /// `a sqrt(d - 1) + b (d - 1) + c`.
    Lee {
        /// `a` in nanoseconds.
        root_ns: f64,
        /// `b` in nanoseconds.
        slope_ns: f64,
        /// `c`, the single-cylinder time.
        single: Duration,
    },
    /// The same for every distance but zero.
    Constant(Duration),
}

/// Why a seek curve is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeekError {
    /// No points.
    #[error("a seek curve needs at least one point")]
    Empty,
    /// Distances must ascend.
    #[error("seek distance {distance} follows {before}; distances must ascend from 1, each once")]
    NotAscending {
        /// The offending distance, cylinders.
        distance: u32,
        /// The one before it.
        before: u32,
    },
}

impl SeekCurve {
    /// A curve through measured points, in ascending order of distance from 1 on.
    ///
    /// Times need not ascend: real measurements do not. Distances shorter than the first point take its time; longer
    /// than the last continue the last two points' line.
    pub fn points(points: Vec<(u32, Duration)>) -> Result<SeekCurve, SeekError> {
        if points.is_empty() {
            return Err(SeekError::Empty);
        }
        let mut before = 0;
        for (distance, _) in &points {
            if *distance <= before {
                return Err(SeekError::NotAscending { distance: *distance, before });
            }
            before = *distance;
        }
        Ok(SeekCurve::Points(points))
    }

    /// Lee's curve from a data sheet's three times, for an arm that crosses `cylinders`.
    pub fn lee(single: Duration, average: Duration, full: Duration, cylinders: u32) -> SeekCurve {
        let (one, mean, max) = (single.as_nanos() as f64, average.as_nanos() as f64, full.as_nanos() as f64);
        let count = f64::from(cylinders.max(1));
        SeekCurve::Lee {
            root_ns: (-10.0 * one + 15.0 * mean - 5.0 * max) / (3.0 * count.sqrt()),
            slope_ns: (7.0 * one - 15.0 * mean + 8.0 * max) / (3.0 * count),
            single,
        }
    }

    /// A line from the single-cylinder time over the average at a third of the stroke to the full-stroke time.
    ///
    /// DiskSim's "linear" means to be this; its code divides integers and always returns one of the three values, which
    /// is not copied.
    pub fn three_points(single: Duration, average: Duration, full: Duration, cylinders: u32) -> SeekCurve {
        let last = cylinders.max(4) - 1;
        let mut points = vec![(1, single), (last.div_ceil(3).max(2), average), (last, full)];
        points.dedup_by_key(|(distance, _)| *distance);
        SeekCurve::Points(points)
    }

    /// The time to cross `distance` cylinders.
    pub fn time(&self, distance: u32) -> Duration {
        if distance == 0 {
            return Duration::ZERO;
        }
        match self {
            SeekCurve::Points(points) => interpolate(points, distance),
            SeekCurve::Roots { first, .. } if (distance as usize) <= first.len() => first[distance as usize - 1],
            SeekCurve::Roots { boundary, short_base, short_root, .. } if distance < *boundary => {
                *short_base + short_root.scale(f64::from(distance).sqrt())
            }
            SeekCurve::Roots { long_base, long_slope, .. } => {
                rounded(long_base.as_nanos() as f64 + long_slope.as_nanos() as f64 * f64::from(distance))
            }
            SeekCurve::Lee { root_ns, slope_ns, single } => {
                let beyond = f64::from(distance - 1);
                rounded(single.as_nanos() as f64 + root_ns * beyond.sqrt() + slope_ns * beyond)
            }
            SeekCurve::Constant(time) => *time,
        }
    }
}

fn rounded(ns: f64) -> Duration {
    Duration::nanos(ns.clamp(0.0, 1e18).round() as u64)
}

fn interpolate(points: &[(u32, Duration)], distance: u32) -> Duration {
    let after = points.partition_point(|(d, _)| *d < distance);
    if after == 0 {
        return points[0].1;
    }
    if after == points.len() && after == 1 {
        return points[0].1;
    }
    let after = after.min(points.len() - 1);
    let ((d0, t0), (d1, t1)) = (points[after - 1], points[after]);
    let (along, span) = (i64::from(distance) - i64::from(d0), i64::from(d1) - i64::from(d0));
    let (t0, t1) = (t0.as_nanos().cast_signed(), t1.as_nanos().cast_signed());
    let beyond = (t1 - t0).saturating_mul(along) / span;
    Duration::nanos(t0.saturating_add(beyond).clamp(0, i64::MAX / 2) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn points_are_met_and_joined_by_lines() {
        let curve =
            SeekCurve::points(vec![(1, Duration::millis(2)), (5, Duration::millis(4)), (7, Duration::millis(3))])
                .unwrap();
        let at = |d| curve.time(d).as_nanos();
        assert_eq!([at(0), at(1), at(3), at(5), at(6), at(7)], [0, 2 * MS, 3 * MS, 4 * MS, 3_500_000, 3 * MS]);
        assert_eq!(at(8), 2_500_000, "past the end the last line goes on");
        assert_eq!(at(100), 0, "but never below zero");
    }

    #[test]
    fn points_out_of_order_are_refused() {
        let points = vec![(5, Duration::millis(2)), (5, Duration::millis(2))];
        assert_eq!(SeekCurve::points(points), Err(SeekError::NotAscending { distance: 5, before: 5 }));
        assert_eq!(SeekCurve::points(vec![]), Err(SeekError::Empty));
    }

    #[test]
    fn lee_meets_the_data_sheet() {
        let (one, mean, full) = (Duration::millis(1), Duration::millis(9), Duration::millis(18));
        let cylinders = 3000u32;
        let curve = SeekCurve::lee(one, mean, full, cylinders);
        assert_eq!(curve.time(1), one);
        assert!(curve.time(cylinders).as_millis() - 18.0 < 0.01);
        // The mean over random pairs of cylinders, distance d having weight 2 (n - d) / n^2.
        let n = f64::from(cylinders);
        let average: f64 = (1..cylinders).map(|d| 2.0 * (n - f64::from(d)) / (n * n) * curve.time(d).as_millis()).sum();
        assert!((average - 9.0).abs() < 0.1, "{average}");
    }

    #[test]
    fn the_root_curve_changes_to_a_line() {
        let curve = SeekCurve::Roots {
            first: vec![Duration::micros(2890), Duration::micros(3680)],
            boundary: 300,
            short_base: Duration::micros(3810),
            short_root: Duration::micros(330),
            long_base: Duration::micros(7750),
            long_slope: Duration::nanos(5900),
        };
        assert_eq!(curve.time(2), Duration::micros(3680));
        assert_eq!(curve.time(100), Duration::micros(3810 + 3300));
        assert_eq!(curve.time(1000), Duration::micros(7750 + 5900));
    }
}
