//! Writing where there is no parity: to the one place, or to all copies.
//!
//! A member that did not take its copy is used no more, unless it had no room (see `room`). The last whole one stays
//! where its medium alone refuses, and the write fails: all else that it holds is still good, and nobody else has it
//! (md: `raid1_error`, `raid10_error`).

use device::{Data, Device, DeviceError};
use units::Bytes;

use crate::array::Array;
use crate::few::{Few, side_by_side};
use crate::geometry::Place;
use crate::member::MemberState;
use crate::rarely::rarely;

/// What became of a copy.
pub(crate) type Written = (Place, Result<(), DeviceError>);

impl<D: Device> Array<D> {
    /// Writes data that lie within one unit to all members that hold them.
    pub(crate) async fn write_copies(&self, at: Bytes, data: Data, fua: bool, id: u64) -> Result<(), DeviceError> {
        let copies = self.geometry.copies();
        // Copies that two writes reach in different orders would differ for ever.
        let _lock = match copies {
            1 => None,
            _ => Some(self.locks.lock(self.unit(at).0).await),
        };
        let write = |copy: usize| {
            let (place, data) = (self.geometry.copy(at, copy), data.clone());
            async move {
                let member = &self.members[place.member];
                if !member.takes_writes(&(place.offset..place.offset + data.len())) {
                    return None;
                }
                let result = member.write(place.offset, data, fua, id).await;
                if let Err(error) = &result
                    && copies > 1
                    && !matches!(error, DeviceError::Medium { .. } | DeviceError::NoSpace)
                {
                    self.could_not_store(place.member, error);
                }
                Some((place, result))
            }
        };
        let written: Few<Written> = side_by_side((0..copies).map(write)).await.into_iter().flatten().collect();
        if copies > 1 {
            self.lose_unwritten(at, data.len(), &written)?;
            if written.iter().any(|(_, result)| *result == Err(DeviceError::NoSpace)) {
                rarely(|| self.take_back_copies(&written, &data, fua, id)).await;
                // What is there now may be what a member that has failed meanwhile does not have.
                self.settle().await?;
                return Err(DeviceError::NoSpace);
            }
        }
        // One copy that was written is enough; those that were not are out of use by now.
        match written.iter().find(|(_, result)| result.is_ok()) {
            Some(_) => Ok(()),
            None => written.into_iter().next().map_or(Err(DeviceError::Gone), |(_, result)| result),
        }
    }

    /// Takes members out of use whose medium refused a copy, but for the last whole one: then the write has failed.
    pub(crate) fn lose_unwritten(&self, at: Bytes, length: Bytes, written: &[Written]) -> Result<(), DeviceError> {
        for (place, result) in written {
            let Err(error @ DeviceError::Medium { .. }) = result else { continue };
            let mut others = (0..self.geometry.copies()).map(|copy| self.geometry.copy(at, copy).member);
            let whole = |member: usize| self.members[member].state() == MemberState::Active;
            if !whole(place.member) || others.any(|other| other != place.member && whole(other)) {
                self.could_not_store(place.member, error);
                continue;
            }
            // One that is being rebuilt may have taken it: then what is here is another value, and must not be read.
            if written.iter().any(|(_, result)| result.is_ok()) {
                self.members[place.member].mark_bad(place.offset..place.offset + length);
            }
            return Err(error.clone());
        }
        Ok(())
    }
}
