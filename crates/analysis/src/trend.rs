//! Whether the counted time began before the device had settled.
//!
//! The counted time is cut into [`SLICES`] slices. The rate of the first tenth is held against that of the last half,
//! in which whatever starts up should be over. A difference counts if it is both large (over [`LARGE`]) and no
//! accident: beyond Student's t at 99.9 % for the scatter among the later slices. So at most one run in a thousand is
//! blamed for nothing.

use units::{Duration, Instant, Ratio};

use crate::estimate::student_t;
use crate::series::Series;

const SLICES: usize = 20;
const EARLY: usize = 2;
const LATE: usize = 10;
const LARGE: f64 = 0.05;

/// A counted time whose beginning differs from the rest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// The early rate as a share of the later one: above one, it began fast and became slow.
    pub early: Ratio,
    /// After how much of the counted time the rate stayed near the later one.
    pub settled_after: Duration,
}

/// The trend of all devices together in the counted time from `begin` to `end`; `None` if there is none to be seen.
/// The series must have at least twenty intervals in that time.
pub fn trend(series: &Series, (begin, end): (Instant, Instant)) -> Option<Trend> {
    let interval = series.interval().as_nanos();
    // Whole intervals within the counted time.
    let first = begin.as_nanos().div_ceil(interval) as usize;
    let last = ((end.as_nanos() / interval) as usize).min(series.len());
    let per_slice = last.checked_sub(first)? / SLICES;
    if per_slice == 0 {
        return None;
    }
    let slice = |slice: usize| {
        let from = first + slice * per_slice;
        (from..from + per_slice).map(|interval| series.total(interval).requests).sum::<u64>() as f64
    };
    let slices: Vec<f64> = (0..SLICES).map(slice).collect();
    let mean = |slices: &[f64]| slices.iter().sum::<f64>() / slices.len() as f64;
    let (early, late) = (mean(&slices[..EARLY]), mean(&slices[SLICES - LATE..]));
    if late == 0.0 {
        return None;
    }
    let variance = slices[SLICES - LATE..].iter().map(|x| (x - late).powi(2)).sum::<f64>() / (LATE - 1) as f64;
    let scatter = (variance * (1.0 / EARLY as f64 + 1.0 / LATE as f64)).sqrt();
    let chance = student_t(Ratio::percent(99.9), LATE as u32 - 1) * scatter;
    let difference = (early - late).abs();
    if difference <= LARGE * late || difference <= chance {
        return None;
    }
    let near = (LARGE * late).max(3.0 * variance.sqrt());
    let unsettled = slices.iter().rposition(|x| (x - late).abs() > near).map_or(0, |slice| slice + 1);
    let settled_after = series.interval() * (per_slice * unsettled.max(EARLY)) as u64;
    Some(Trend { early: Ratio::new(early / late), settled_after })
}
