//! Which shape a curve without noise has.

/// The shapes that a curve of rates against the sum of its parts can have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// The sum of the parts.
    Linear,
    /// More than that.
    Exceeds,
    /// min(sum, level).
    Flat {
        /// Where it is flat.
        level: f64,
    },
    /// Flat, then less.
    Falling {
        /// The level behind the knee, on average.
        level: f64,
        /// The highest rate.
        peak: f64,
        /// With so many devices.
        at: usize,
    },
    /// Less than the sum, and still rising.
    Slowing {
        /// The rise as a share of the rise of the sum.
        share: f64,
        /// From so many devices on.
        from: usize,
    },
}

/// Down to this share of the sum of the parts, a curve counts as linear: that much is lost to two devices not starting
/// and ending together.
const LINEAR: f64 = 0.9;

/// Up to this share, too.
const EXCEEDS: f64 = 1.1;

/// A curve is flat behind its knee if its whole rise or fall there is less than this share of its level...
const FLAT: f64 = 0.1;

/// ...or if a further device brings less than this share of what it does alone.
const BRINGS_LITTLE: f64 = 0.2;

impl Shape {
    /// Of the rates `measured` at points where the sums of the parts are `expected`; at least two.
    pub fn of(measured: &[f64], expected: &[f64]) -> Shape {
        assert!(measured.len() == expected.len() && measured.len() >= 2, "a curve has two points or more");
        let last = measured.len() - 1;
        let efficiency = measured[last] / expected[last];
        if efficiency >= LINEAR {
            return if efficiency <= EXCEEDS { Shape::Linear } else { Shape::Exceeds };
        }
        let (knee, level) = knee(measured, expected);
        // With a single point behind the knee, the one before it must do.
        let behind = knee.min(last - 1);
        let slope = slope(&expected[behind..], &measured[behind..]);
        let change = slope * (expected[last] - expected[behind]) / level;
        if change < -FLAT {
            let (at, peak) = measured.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).expect("two points or more");
            return Shape::Falling { level, peak: *peak, at: at + 1 };
        }
        if change > FLAT && slope > BRINGS_LITTLE {
            return Shape::Slowing { share: slope, from: behind + 2 };
        }
        Shape::Flat { level }
    }

    /// The level behind the knee, if the curve does not rise there.
    pub fn level(&self) -> Option<f64> {
        match self {
            Shape::Flat { level } | Shape::Falling { level, .. } => Some(*level),
            Shape::Linear | Shape::Exceeds | Shape::Slowing { .. } => None,
        }
    }

    /// True if both are of one kind, whatever their numbers.
    pub fn same_kind(&self, other: &Shape) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// The first point behind the knee, and the level there: those of the min(sum, level) that fits best. Fits are judged
/// by the squares of relative errors, as noise is relative.
fn knee(measured: &[f64], expected: &[f64]) -> (usize, f64) {
    let measured: Vec<f64> = measured.iter().map(|rate| rate.ln()).collect();
    let expected: Vec<f64> = expected.iter().map(|sum| sum.ln()).collect();
    let fit = |first: usize| {
        let behind = &measured[first..];
        let level = behind.iter().sum::<f64>() / behind.len() as f64;
        let errors: f64 = measured.iter().zip(&expected).map(|(rate, sum)| (rate - sum.min(level)).powi(2)).sum();
        (first, level, errors)
    };
    let best = (0..measured.len()).map(fit).min_by(|a, b| a.2.total_cmp(&b.2)).expect("two points or more");
    (best.0, best.1.exp())
}

/// The slope of the line of least squares.
fn slope(x: &[f64], y: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mx, my) = (mean(x), mean(y));
    let products: f64 = x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum();
    products / x.iter().map(|x| (x - mx).powi(2)).sum::<f64>()
}
