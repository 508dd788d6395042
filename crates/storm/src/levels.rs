//! The arrays that storms are made of.

use std::fmt;
use std::str::FromStr;

use array::geometry::{Copies, DoubleRotation, Level, Rotation};
use array::md::Consistency;

/// Which levels a storm may choose from: all, or those of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Choice(Option<u32>);

/// A level that storms do not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there are no storms of level `{0}`; choose 1, 3, 4, 5, 6 or 10 (levels without redundancy promise nothing)")]
pub struct UnknownLevel(String);

impl FromStr for Choice {
    type Err = UnknownLevel;
    fn from_str(text: &str) -> Result<Choice, UnknownLevel> {
        let number = text.parse().map_err(|_| UnknownLevel(text.into()))?;
        let choice = Choice(Some(number));
        if levels(choice).is_empty() { Err(UnknownLevel(text.into())) } else { Ok(choice) }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.0 {
            Some(number) => write!(f, "{number}"),
            None => f.write_str("all"),
        }
    }
}

impl Choice {
    /// All levels.
    pub const ALL: Choice = Choice(None);

    /// The option that repeats the choice, with a space before it.
    pub fn option(self) -> String {
        self.0.map_or(String::new(), |number| format!(" --level {number}"))
    }
}

/// Levels with so many members each, and what is done about the write hole.
pub fn levels(choice: Choice) -> Vec<(Level, usize, Consistency)> {
    let five = Level::Raid5;
    let six = Level::Raid6;
    let all = [
        (1, Level::Raid1, 2),
        (1, Level::Raid1, 3),
        (3, Level::Raid3, 3),
        (4, Level::Raid4, 3),
        (5, five(Rotation::LeftSymmetric), 3),
        (5, five(Rotation::LeftAsymmetric), 4),
        (5, five(Rotation::RightSymmetric), 3),
        (5, five(Rotation::RightAsymmetric), 4),
        (5, five(Rotation::ParityLast), 5),
        (6, six(DoubleRotation::default()), 4),
        (6, six(DoubleRotation::Together(Rotation::RightAsymmetric)), 5),
        (6, six(DoubleRotation::LastQ(Rotation::LeftSymmetric)), 4),
        (6, six(DoubleRotation::DdfZeroRestart), 4),
        (6, six(DoubleRotation::DdfNRestart), 5),
        (6, six(DoubleRotation::DdfNContinue), 4),
        (10, Level::Raid10(Copies::near(2)), 4),
        (10, Level::Raid10(Copies::near(3)), 3),
        (10, Level::Raid10(Copies::far(2)), 3),
        (10, Level::Raid10(Copies::offset(2)), 4),
    ];
    let chosen = |number: u32| choice.0.is_none_or(|wanted| wanted == number);
    let chosen = all.into_iter().filter(|(number, ..)| chosen(*number));
    let ways = |(_, level, members): (u32, Level, usize)| {
        let mut ways = vec![Consistency::Resync, Consistency::Bitmap];
        ways.extend((level.parities() > 0).then_some(Consistency::Ppl));
        let journaled = matches!(level, Level::Raid4 | Level::Raid5(_) | Level::Raid6(_));
        ways.extend(journaled.then_some(Consistency::Journal));
        ways.into_iter().map(move |way| (level, members, way)).collect::<Vec<_>>()
    };
    chosen.flat_map(ways).collect()
}
