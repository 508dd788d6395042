//! What an array does by itself while it serves: say that it is clean when it is idle, and clear bits.
//!
//! After a power cut, an array that said it was clean needs no resync. md says so 200 ms after the last write
//! (`safe_mode_delay`), and so does this; bits of the bitmap it leaves for 5 s, in steps, which are its defaults too
//! (`daemon_sleep`).

use device::{Device, DeviceError};
use units::Duration;

use crate::array::Array;
use crate::md::Resync;

/// md's `safe_mode_delay`.
const IDLE: Duration = Duration::millis(200);
/// Of these, one look in this many clears bits: 5 s.
const LOOKS_PER_CLEARING: u64 = 25;
/// And one in this many is for other servers: 1 s.
const LOOKS_PER_LOOKOUT: u64 = 5;

impl<D: Device> Array<D> {
    /// Does what is to be done beside the requests, for ever: whoever serves the array runs it beside them, and drops
    /// it to stop. Without it all is safe, but an array that is never stopped stays dirty.
    pub async fn tend(&self) {
        let mut seen = self.writes_begun.get();
        for look in 1u64.. {
            self.runtime.sleep(IDLE).await;
            let stirred = || self.state.as_ref().is_some_and(|state| state.stirred.replace(false));
            if look.is_multiple_of(LOOKS_PER_LOOKOUT) && stirred() {
                self.look_for_rival().await;
            }
            if self.rival().is_some() {
                continue;
            }
            let now = self.writes_begun.get();
            // An error here has made members fail, which the next request will notice and say.
            if now == seen {
                _ = self.mark_clean().await;
            }
            if look.is_multiple_of(LOOKS_PER_CLEARING) {
                _ = self.clear_bits().await;
                _ = self.close_regions(false).await;
                self.room.look();
            }
            seen = now;
        }
    }

    /// Makes everything durable and lets the members say that redundancy fits, if it does and nothing is being written.
    pub(crate) async fn mark_clean(&self) -> Result<(), DeviceError> {
        let Some(state) = &self.state else { return Ok(()) };
        if !state.is_dirty() || self.is_resync_due() || self.writes_under_way.get() > 0 {
            return Ok(());
        }
        let _one = state.turn().await;
        let before = self.writes_begun.get();
        self.flush_members(0).await?;
        if self.writes_begun.get() != before || self.writes_under_way.get() > 0 || !state.is_dirty() {
            return Ok(());
        }
        let cleaning = state.begin_cleaning();
        self.record(|superblock| superblock.resync = Resync::Clean).await?;
        cleaning.done();
        Ok(())
    }
}
