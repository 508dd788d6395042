//! Levels and layouts by name: the words of mdadm, and those of the man page md(4).

use std::fmt;

use super::{Copies, DoubleRotation, Level, Rotation, Spread, Zones};

/// A name that no level, or no layout of the level, has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownName {
    /// No such level.
    #[error("there is no level `{0}`; there are linear, 0, 1, 3, 4, 5, 6 and 10")]
    Level(String),
    /// No such layout.
    #[error("level {level} has no layout `{layout}`; it has {there_are}")]
    Layout {
        /// The level.
        level: String,
        /// What was asked for.
        layout: String,
        /// What could be.
        there_are: String,
    },
}

const ROTATIONS: [(&str, &str, Rotation); 6] = [
    ("left-symmetric", "ls", Rotation::LeftSymmetric),
    ("left-asymmetric", "la", Rotation::LeftAsymmetric),
    ("right-symmetric", "rs", Rotation::RightSymmetric),
    ("right-asymmetric", "ra", Rotation::RightAsymmetric),
    ("parity-first", "pf", Rotation::ParityFirst),
    ("parity-last", "pl", Rotation::ParityLast),
];
const DDF: [(&str, DoubleRotation); 3] = [
    ("ddf-zero-restart", DoubleRotation::DdfZeroRestart),
    ("ddf-n-restart", DoubleRotation::DdfNRestart),
    ("ddf-n-continue", DoubleRotation::DdfNContinue),
];

fn rotation(name: &str) -> Option<Rotation> {
    ROTATIONS.iter().find(|(long, short, _)| [*long, *short].contains(&name)).map(|(.., rotation)| *rotation)
}

fn name_of(rotation: Rotation) -> &'static str {
    ROTATIONS.iter().find(|(.., other)| *other == rotation).expect("every rotation has a name").0
}

impl Level {
    /// The level of a name (`5`, `raid5`, `linear`) in a layout (`left-symmetric` or `ls`; `n2`, `f2`, `o2` at level
    /// 10, `n2o2` for both; the level's default if there is none).
    pub fn named(level: &str, layout: Option<&str>) -> Result<Level, UnknownName> {
        let number = level.strip_prefix("raid").unwrap_or(level);
        let unknown = |there_are: String| UnknownName::Layout {
            level: number.into(),
            layout: layout.unwrap_or_default().into(),
            there_are,
        };
        let only =
            |it: Level| if layout.is_some() { Err(unknown("one only: leave --layout away".into())) } else { Ok(it) };
        let singles = || ROTATIONS.map(|(long, ..)| long).join(", ");
        match number {
            "linear" => only(Level::Linear),
            "0" => match layout {
                None | Some("original") => Ok(Level::Raid0(Zones::Original)),
                Some("alternate") => Ok(Level::Raid0(Zones::Alternate)),
                Some(_) => Err(unknown("original and alternate".into())),
            },
            "1" => only(Level::Raid1),
            "3" => only(Level::Raid3),
            "4" => only(Level::Raid4),
            "5" => {
                let found = layout.map_or(Some(Rotation::default()), rotation);
                found.map(Level::Raid5).ok_or_else(|| unknown(singles()))
            }
            "6" => {
                let found = match layout.map(str::to_ascii_lowercase).as_deref() {
                    None => Some(DoubleRotation::default()),
                    Some(layout) => match (layout.strip_suffix("-6"), DDF.iter().find(|(name, _)| *name == layout)) {
                        (_, Some((_, ddf))) => Some(*ddf),
                        (Some(layout), None) => rotation(layout).map(DoubleRotation::LastQ),
                        (None, None) => rotation(layout).map(DoubleRotation::Together),
                    },
                };
                let there_are = || {
                    format!(
                        "{}, each also with -6 behind it (Q on the last member), {}",
                        singles(),
                        DDF.map(|(name, _)| name).join(", ")
                    )
                };
                found.map(Level::Raid6).ok_or_else(|| unknown(there_are()))
            }
            "10" => match layout.map_or(Some(Copies::near(2)), copies) {
                Some(copies) => Ok(Level::Raid10(copies)),
                None => {
                    Err(unknown("n2, f2, o2 (near, far, offset) with other numbers of copies, or both, as n2f2".into()))
                }
            },
            _ => Err(UnknownName::Level(level.into())),
        }
    }

    /// The layout's name, as [`Level::named`] takes it; none where there is only one.
    pub fn layout(self) -> Option<String> {
        Some(match self {
            Level::Linear | Level::Raid1 | Level::Raid3 | Level::Raid4 => return None,
            Level::Raid0(Zones::Original) => "original".into(),
            Level::Raid0(Zones::Alternate) => "alternate".into(),
            Level::Raid5(rotation) => name_of(rotation).into(),
            Level::Raid6(DoubleRotation::Together(rotation)) => name_of(rotation).into(),
            Level::Raid6(DoubleRotation::LastQ(rotation)) => format!("{}-6", name_of(rotation)),
            Level::Raid6(ddf) => DDF.iter().find(|(_, other)| *other == ddf).expect("the others have names").0.into(),
            Level::Raid10(Copies { near, far: 1, .. }) => format!("n{near}"),
            Level::Raid10(Copies { near, far, spread }) => {
                let letter = if spread == Spread::Far { 'f' } else { 'o' };
                if near == 1 { format!("{letter}{far}") } else { format!("n{near}{letter}{far}") }
            }
        })
    }
}

/// `n2`, `f2`, `o3`, `n2f2`.
fn copies(text: &str) -> Option<Copies> {
    let (mut copies, mut rest) = (Copies::near(1), text);
    while let Some(letter) = rest.chars().next() {
        let from = letter.len_utf8();
        let digits = rest[from..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| from + end);
        let count: u32 = rest[from..digits].parse().ok().filter(|count| (1..256).contains(count))?;
        match letter {
            'n' => copies.near = count,
            'f' => (copies.far, copies.spread) = (count, Spread::Far),
            'o' => (copies.far, copies.spread) = (count, Spread::Offset),
            _ => return None,
        }
        rest = &rest[digits..];
    }
    (copies.count() > 1).then_some(copies)
}

/// `level 5, left-symmetric`.
impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.layout() {
            Some(layout) => write!(f, "{}, {layout}", self.name()),
            None => f.write_str(self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_is_found_by_its_name() {
        let fives = ROTATIONS.map(|(.., rotation)| Level::Raid5(rotation));
        let sixes = ROTATIONS.map(|(.., rotation)| Level::Raid6(DoubleRotation::Together(rotation)));
        let last = ROTATIONS.map(|(.., rotation)| Level::Raid6(DoubleRotation::LastQ(rotation)));
        let ddf = DDF.map(|(_, ddf)| Level::Raid6(ddf));
        let tens =
            [Copies::near(2), Copies::far(3), Copies::offset(2), Copies { near: 2, far: 2, spread: Spread::Far }];
        let tens = tens.map(Level::Raid10);
        let others = [Level::Linear, Level::Raid0(Zones::Original), Level::Raid0(Zones::Alternate), Level::Raid1];
        let more = [Level::Raid3, Level::Raid4];
        for level in [&fives[..], &sixes, &last, &ddf, &tens, &others, &more].concat() {
            let name = level.name().trim_start_matches("level ");
            assert_eq!(Level::named(name, level.layout().as_deref()), Ok(level));
        }
    }

    #[test]
    fn unknown_names_are_refused_with_what_there_is() {
        let refused = |level, layout| Level::named(level, layout).unwrap_err().to_string();
        assert_eq!(refused("7", None), "there is no level `7`; there are linear, 0, 1, 3, 4, 5, 6 and 10");
        assert_eq!(
            refused("5", Some("diagonal")),
            "level 5 has no layout `diagonal`; it has left-symmetric, left-asymmetric, right-symmetric, right-asymmetric, \
             parity-first, parity-last"
        );
        for layout in ["n1", "x2", "n", "2n", "n300", "", "n2ü"] {
            assert!(Level::named("10", Some(layout)).is_err(), "{layout}");
        }
    }
}
