//! How large requests are.

use rand::RngExt;
use runtime::Random;
use units::Bytes;

/// One size, or several with weights. Never empty, no size zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    /// Sizes with the running sum of their weights.
    choices: Vec<(Bytes, u64)>,
}

impl Sizes {
    /// Every request has this size. Panics if it is zero.
    pub fn fixed(size: Bytes) -> Sizes {
        Sizes::weighted([(size, 1)]).expect("a size above zero")
    }

    /// Each size comes as often as its share of the weights. `None` if there is none, or a size or the sum of weights
    /// is zero.
    pub fn weighted(choices: impl IntoIterator<Item = (Bytes, u32)>) -> Option<Sizes> {
        let mut sum = 0;
        let choices: Vec<_> = choices
            .into_iter()
            .filter(|(_, weight)| *weight > 0)
            .map(|(size, weight)| {
                sum += u64::from(weight);
                (size, sum)
            })
            .collect();
        (!choices.is_empty() && choices.iter().all(|(size, _)| !size.is_zero())).then_some(Sizes { choices })
    }

    /// The one size, if there is only one.
    pub fn single(&self) -> Option<Bytes> {
        let first = self.choices[0].0;
        self.choices.iter().all(|(size, _)| *size == first).then_some(first)
    }

    /// All sizes that can occur.
    pub fn each(&self) -> impl Iterator<Item = Bytes> {
        self.choices.iter().map(|(size, _)| *size)
    }

    /// All sizes with their weights.
    pub fn choices(&self) -> impl Iterator<Item = (Bytes, u32)> {
        let before = std::iter::once(0).chain(self.choices.iter().map(|(_, sum)| *sum));
        self.choices.iter().zip(before).map(|((size, sum), before)| (*size, (sum - before) as u32))
    }

    /// The largest.
    pub fn largest(&self) -> Bytes {
        self.each().max().expect("there is a size")
    }

    pub(crate) fn draw(&self, random: &mut Random) -> Bytes {
        if let [(size, _)] = self.choices[..] {
            return size;
        }
        let (_, total) = *self.choices.last().expect("there is a size");
        let point = random.random_range(0..total);
        self.choices.iter().find(|(_, sum)| point < *sum).expect("the point is below the sum of weights").0
    }
}
