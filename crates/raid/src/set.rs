//! An array that was stopped gets another name, another way against the write hole, other flags of its members.

use array::Settings;
use array::md::{FAIL_FAST, WRITE_MOSTLY};
use units::Bytes;
use uring::{Live, LiveOptions};

use crate::given::given;
use crate::members::{Permits, open_without};
use crate::upkeep::{member_of, numbered};
use crate::{Consistency, Course, Place, RaidError};

/// What is to change; the rest stays.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// The name.
    pub name: Option<String>,
    /// What is done about the write hole and resyncs.
    pub consistency: Option<Consistency>,
    /// What one bit of the bitmap covers.
    pub bitmap_chunk: Option<Bytes>,
    /// Members that are to be read only where no other copy is, and those that are not any more.
    pub write_mostly: Vec<(Place, bool)>,
    /// Members of which md gives requests up at the first error, and those of which it does not any more.
    pub failfast: Vec<(Place, bool)>,
}

/// Changes the array that these members are.
pub fn set(members: &[Place], permits: &Permits, change: &Change, course: &Course) -> Result<(), RaidError> {
    let given = given(members, None)?;
    given.is_enough()?;
    // The others would record that it is missing, though it is as good as they are.
    if !given.not_named.is_empty() {
        return Err(RaidError::NotNamedToSet { members: numbered(&given.not_named, ", ") });
    }
    let live = Live::start(&LiveOptions::default());
    let array = open_without(&live, members, permits, false, course)?;
    let mut flags = Vec::new();
    for (all, flag) in [(&change.write_mostly, WRITE_MOSTLY), (&change.failfast, FAIL_FAST)] {
        for (place, set) in all {
            flags.push((member_of(&array, place)?, flag, *set));
        }
    }
    let (name, consistency, region) = (change.name.clone(), change.consistency, change.bitmap_chunk);
    Ok(live.runtime().block_on(array.set(&Settings { name, consistency, region, flags }))?)
}
