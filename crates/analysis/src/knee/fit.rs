//! The curves that are fitted: with a knee and without.
//!
//! Relative errors are squared: a fit f of rates y minimizes the sum of (1 - f / y)^2, for contention of (1 - y /
//! f)^2, so that each is linear in its parameters and has a closed form; fits are compared by the sum of ln(y / f)^2,
//! which both are near the minimum. A knee is looked for between each two neighbouring points: the lines of the
//! points before and behind it meet there, or the knee is at one of the two (D. Hudson, "Fitting segmented curves
//! whose join points have to be estimated", 1966). That is exact, and has no step.

use super::BENT;

/// A curve.
#[derive(Debug, Clone)]
pub struct Points {
    /// How many devices, and the sum of what they do alone.
    pub at: Vec<(usize, f64)>,
    /// What they did together.
    pub rates: Vec<f64>,
    /// At index n, the sum of what the first n do alone.
    sums: Vec<f64>,
}

impl Points {
    /// Of the rates of each alone, and of so many together.
    pub fn new(alone: &[f64], counts: &[usize], rates: Vec<f64>) -> Points {
        let mut sums = vec![0.0];
        for rate in alone {
            sums.push(sums[sums.len() - 1] + rate);
        }
        let at = counts.iter().map(|count| (*count, sums[*count])).collect();
        Points { at, rates, sums }
    }

    /// The number of devices at which a fit has its knee.
    pub fn knee_of(&self, fit: &Fit) -> f64 {
        let knee = fit.knee.min(self.sums[self.sums.len() - 1]);
        let behind = self.sums.iter().position(|sum| *sum >= knee).unwrap_or(self.sums.len() - 1).max(1);
        let (below, above) = (self.sums[behind - 1], self.sums[behind]);
        (behind - 1) as f64 + (knee - below) / (above - below)
    }

    fn sums(&self) -> impl Iterator<Item = (f64, f64)> {
        self.at.iter().map(|at| at.1).zip(self.rates.iter().copied())
    }
}

/// A fitted curve: y = first min(E, knee) + further max(0, E - knee), divided by 1 + loss (n - 1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    first: f64,
    further: f64,
    /// In rates alone; infinite if there is none.
    pub knee: f64,
    loss: f64,
    /// Of the logarithms of measured by fitted.
    pub squares: f64,
}

impl Fit {
    fn new((first, further): (f64, f64), knee: f64, loss: f64, points: &Points) -> Fit {
        let mut fit = Fit { first, further, knee, loss, squares: 0.0 };
        let error = |(at, rate): (&(usize, f64), &f64)| match fit.rate(*at) {
            fitted if fitted > 0.0 => (rate / fitted).ln().powi(2),
            _ => f64::INFINITY,
        };
        fit.squares = points.at.iter().zip(&points.rates).map(error).sum();
        fit
    }

    /// At so many devices that alone do so much together; never below zero.
    pub fn rate(&self, (devices, alone): (usize, f64)) -> f64 {
        let before = self.first * alone.min(self.knee);
        let behind = if alone > self.knee { self.further * (alone - self.knee) } else { 0.0 };
        ((before + behind) / (1.0 + self.loss * (devices as f64 - 1.0))).max(0.0)
    }

    /// The better of both without a knee: contention only where it saves enough.
    pub fn without_knee(points: &Points, variance: f64) -> Fit {
        let (line, contention) = (Fit::line(points), Fit::contention(points));
        if line.squares - contention.squares > BENT * variance { contention } else { line }
    }

    /// y = c E.
    fn line(points: &Points) -> Fit {
        Fit::new((scale(points.sums()), 0.0), f64::INFINITY, 0.0, points)
    }

    /// y = E / (a + b (n - 1)); the line where b would be below zero.
    pub fn contention(points: &Points) -> Fit {
        let terms = points.at.iter().zip(&points.rates).map(|((devices, alone), rate)| {
            let kept = rate / alone;
            (kept, kept * (*devices as f64 - 1.0), 1.0)
        });
        match solve(terms) {
            Some((a, b)) if a > 0.0 && b > 0.0 => Fit::new((1.0 / a, 0.0), f64::INFINITY, b / a, points),
            _ => Fit::line(points),
        }
    }

    /// The best knee: flat, or bent where that saves enough.
    pub fn knee(points: &Points, variance: f64) -> Fit {
        let last = points.at.len() - 1;
        let (mut flat, mut bent): (Option<Fit>, Option<Fit>) = (None, None);
        let take = |best: &mut Option<Fit>, fit: Fit| {
            if best.is_none_or(|best| fit.squares < best.squares) {
                *best = Some(fit);
            }
        };
        for before in 0..last {
            let (from, to) = (points.at[before].1, points.at[before + 1].1);
            let first = scale(points.sums().take(before + 1));
            let level = scale(points.sums().skip(before + 1).map(|(_, rate)| (1.0, rate)));
            take(&mut flat, Fit::flat((level / first).clamp(from, to), points));
            if last - before >= 2 {
                let behind = points.sums().skip(before + 1).map(|(alone, rate)| (1.0 / rate, alone / rate, 1.0));
                let lines = solve(behind).filter(|(_, further)| *further < first);
                let meet = lines.map(|(base, further)| (base / (first - further), further));
                let between = match meet.filter(|(knee, _)| (from..=to).contains(knee)) {
                    Some((knee, further)) => Some(Fit::new((first, further), knee, 0.0, points)),
                    None => bent_at(from, points),
                };
                between.into_iter().for_each(|fit| take(&mut bent, fit));
            }
        }
        let flat = flat.expect("there are three points or more");
        match bent.filter(|bent| flat.squares - bent.squares > BENT * variance) {
            Some(bent) => bent,
            None => flat,
        }
    }

    fn flat(knee: f64, points: &Points) -> Fit {
        let first = scale(points.sums().map(|(alone, rate)| (alone.min(knee), rate)));
        Fit::new((first, 0.0), knee, 0.0, points)
    }

    /// At the knee.
    pub fn rate_at_knee(&self) -> f64 {
        self.first * self.knee
    }

    /// What a further device brings behind the knee, as a share of what it brings before.
    pub fn further(&self) -> f64 {
        self.further / self.first
    }

    /// What a further device costs the others, as a share of the rate of one.
    pub fn loss(&self) -> f64 {
        self.loss
    }

    /// How far the last point lies below the line before the knee, as a share of that.
    pub fn lost(&self, points: &Points) -> f64 {
        let last = points.at[points.at.len() - 1];
        1.0 - self.rate(last) / (self.first * last.1)
    }
}

/// With both lines of free slopes, that meet there.
fn bent_at(knee: f64, points: &Points) -> Option<Fit> {
    let terms = points.sums().map(|(alone, rate)| (alone.min(knee) / rate, (alone - knee).max(0.0) / rate, 1.0));
    let (first, further) = solve(terms).filter(|(first, further)| *first > 0.0 && further < first)?;
    Some(Fit::new((first, further), knee, 0.0, points))
}

/// The c that minimizes the sum of (1 - c x / y)^2.
fn scale(points: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (sum, squares) = points.fold((0.0, 0.0), |(sum, squares), (x, y)| (sum + x / y, squares + (x / y).powi(2)));
    sum / squares
}

/// The a and b that minimize the sum of (w - a u - b v)^2; none where the terms do not tell them apart.
fn solve(terms: impl Iterator<Item = (f64, f64, f64)>) -> Option<(f64, f64)> {
    let [mut uu, mut uv, mut vv, mut uw, mut vw] = [0.0; 5];
    for (u, v, w) in terms {
        uu += u * u;
        uv += u * v;
        vv += v * v;
        uw += u * w;
        vw += v * w;
    }
    let determinant = uu * vv - uv * uv;
    (determinant > 1e-9 * uu * vv).then(|| ((uw * vv - vw * uv) / determinant, (vw * uu - uw * uv) / determinant))
}
