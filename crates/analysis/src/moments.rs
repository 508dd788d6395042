//! Count, mean, deviation and extremes of numbers that come one by one.
//!
//! Means are updated, not sums of squares taken apart: the deviation of large numbers that hardly differ would be lost
//! (B. P. Welford, 1962). Two are put together as in Chan, Golub and LeVeque (1979).

/// Count, mean, deviation and extremes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    /// How many.
    pub count: u64,
    mean: f64,
    /// The sum of squared distances from the mean.
    squares: f64,
    min: f64,
    max: f64,
}

impl Moments {
    /// Counts one.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
        (self.min, self.max) = match self.count {
            1 => (value, value),
            _ => (self.min.min(value), self.max.max(value)),
        };
    }

    /// Adds those that another has counted.
    pub fn merge(&mut self, other: &Moments) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (mine, theirs) = (self.count as f64, other.count as f64);
        let distance = other.mean - self.mean;
        self.count += other.count;
        self.mean += distance * theirs / (mine + theirs);
        self.squares += other.squares + distance * distance * mine * theirs / (mine + theirs);
        (self.min, self.max) = (self.min.min(other.min), self.max.max(other.max));
    }

    /// Zero without any.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The sum of squared distances from the mean.
    pub fn squares(&self) -> f64 {
        self.squares
    }

    /// The standard deviation of what these are a sample of; zero of fewer than two.
    pub fn deviation(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.squares / (self.count - 1) as f64).sqrt() }
    }

    /// The standard deviation of these themselves.
    pub fn own_deviation(&self) -> f64 {
        (self.squares / self.count.max(1) as f64).sqrt()
    }

    /// The least, or zero.
    pub fn min(&self) -> f64 {
        self.min
    }

    /// The most, or zero.
    pub fn max(&self) -> f64 {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::Moments;

    fn of(values: &[f64]) -> Moments {
        values.iter().fold(Moments::default(), |mut moments, value| {
            moments.add(*value);
            moments
        })
    }

    #[test]
    fn moments_are_those_of_the_definition_and_parts_add_up() {
        // Mean 5 and squares 32, as by hand; far from zero nothing is lost.
        let far = 1e9;
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].map(|value| value + far);
        let all = of(&values);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert_eq!((all.count, all.min() - far, all.max() - far), (8, 2.0, 9.0));
        assert!(near(all.mean() - far, 5.0) && near(all.squares(), 32.0) && near(all.own_deviation(), 2.0), "{all:?}");
        assert!(near(all.deviation(), (32.0f64 / 7.0).sqrt()), "{all:?}");
        let mut parts = of(&values[..3]);
        parts.merge(&of(&values[3..]));
        parts.merge(&Moments::default());
        assert!(near(parts.mean(), all.mean()) && near(parts.squares(), 32.0), "{parts:?}");
        assert_eq!((of(&[]).deviation(), of(&[3.0]).deviation(), of(&[]).own_deviation()), (0.0, 0.0, 0.0));
    }
}
