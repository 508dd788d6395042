//! md's numbers for levels and layouts.

use crate::geometry::{Copies, DoubleRotation, Level, Rotation, Spread, Zones};

/// Level and layout as the superblock has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    /// 0, 1, 4, 5, 6, 10; -1 for linear.
    pub level: i32,
    /// A number within the level.
    pub layout: i32,
}

/// A level or layout that is not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "level {level} with layout {layout:#x} is not one that is understood here (-1, 0, 1, 4, 5, 6, 10, and their layouts of Linux 6.1)"
)]
pub struct UnknownLevel {
    level: i32,
    layout: i32,
}

const ROTATIONS: [Rotation; 6] = [
    Rotation::LeftAsymmetric,
    Rotation::RightAsymmetric,
    Rotation::LeftSymmetric,
    Rotation::RightSymmetric,
    Rotation::ParityFirst,
    Rotation::ParityLast,
];

/// Where the layouts begin that keep Q on the last member.
const LAST_Q: i32 = 16;

impl Numbers {
    /// The numbers of a level. Level 3 is written as level 4.
    pub fn of(level: Level) -> Numbers {
        let rotation = |wanted: Rotation| ROTATIONS.iter().position(|r| *r == wanted).expect("all are listed") as i32;
        let (level, layout) = match level {
            Level::Linear => (-1, 0),
            Level::Raid0(Zones::Original) => (0, 1),
            Level::Raid0(Zones::Alternate) => (0, 2),
            Level::Raid1 => (1, 0),
            Level::Raid3 | Level::Raid4 => (4, 0),
            Level::Raid5(layout) => (5, rotation(layout)),
            Level::Raid6(DoubleRotation::Together(layout)) => (6, rotation(layout)),
            // Q behind P on the last two members: md has one name for it.
            Level::Raid6(DoubleRotation::LastQ(Rotation::ParityLast)) => (6, 5),
            Level::Raid6(DoubleRotation::LastQ(layout)) => (6, LAST_Q + rotation(layout)),
            Level::Raid6(DoubleRotation::DdfZeroRestart) => (6, 8),
            Level::Raid6(DoubleRotation::DdfNRestart) => (6, 9),
            Level::Raid6(DoubleRotation::DdfNContinue) => (6, 10),
            Level::Raid10(copies) => {
                let offset = i32::from(copies.spread == Spread::Offset) << 16;
                (10, copies.near as i32 | (copies.far as i32) << 8 | offset)
            }
        };
        Numbers { level, layout }
    }

    /// The level that has these numbers.
    pub fn level(self) -> Result<Level, UnknownLevel> {
        let unknown = UnknownLevel { level: self.level, layout: self.layout };
        let rotation =
            |layout: i32| usize::try_from(layout).ok().and_then(|index| ROTATIONS.get(index)).copied().ok_or(unknown);
        Ok(match (self.level, self.layout) {
            (-1, _) => Level::Linear,
            // Layout 0 is from before the field was used: the same as 1 where there is one zone.
            (0, 0 | 1) => Level::Raid0(Zones::Original),
            (0, 2) => Level::Raid0(Zones::Alternate),
            (1, 0) => Level::Raid1,
            // md does not look at the layout of level 4: it is 0 of a new array, and 5 of one that was of level 0
            // before.
            (4, _) => Level::Raid4,
            (5, layout) => Level::Raid5(rotation(layout)?),
            (6, 8) => Level::Raid6(DoubleRotation::DdfZeroRestart),
            (6, 9) => Level::Raid6(DoubleRotation::DdfNRestart),
            (6, 10) => Level::Raid6(DoubleRotation::DdfNContinue),
            (6, layout @ LAST_Q..=20) => Level::Raid6(DoubleRotation::LastQ(rotation(layout - LAST_Q)?)),
            (6, layout) => Level::Raid6(DoubleRotation::Together(rotation(layout)?)),
            (10, layout) if layout >> 17 == 0 => {
                let spread = if layout >> 16 & 1 == 1 { Spread::Offset } else { Spread::Far };
                let copies = Copies { near: layout as u32 & 255, far: layout as u32 >> 8 & 255, spread };
                if copies.count() == 0 {
                    return Err(unknown);
                }
                Level::Raid10(copies)
            }
            _ => return Err(unknown),
        })
    }
}
