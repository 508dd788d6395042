//! Writing where there is no parity: to the one place, or to all copies.

use device::{Data, Device, DeviceError};
use units::Bytes;

use crate::array::Array;
use crate::few::{Few, side_by_side};

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
                {
                    self.could_not_store(place.member, error);
                }
                Some(result)
            }
        };
        let results: Few<Result<(), DeviceError>> =
            side_by_side((0..copies).map(write)).await.into_iter().flatten().collect();
        // One copy that was written is enough; those that were not are out of use by now.
        match results.iter().find(|result| result.is_ok()) {
            Some(_) => Ok(()),
            None => results.into_iter().next().unwrap_or(Err(DeviceError::Gone)),
        }
    }
}
