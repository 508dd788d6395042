//! What the page cache could not store.
//!
//! A write through the page cache is answered before it is stored. If storing it fails later, the kernel gives the
//! pages up as if they were clean, and says so once for each open file (`errseq_t`), to whichever sync comes first: the
//! next one succeeds. But an open file here has many users, such as the connections of a server, and the data that were
//! lost may be another's than his whose flush failed. So the first error of a sync is kept, and answers every flush and
//! every durable write from then on, as qemu does (`page_cache_inconsistent` in its `block/file-posix.c`), until the
//! file is opened anew.
//!
//! Reads and plain writes go on: what they promise still holds.
//!
//! The error of a durable write may be its own, such as that there is no room for it, or that of the sync behind it.
//! Where one system call does both, the write is made once more without durability: if that can be done, it was the
//! sync's. Rejected: two calls for each, which costs every durable write what only a failed one needs.

use std::cell::OnceCell;

use device::DeviceError;

/// The first error of a sync of one open file.
#[derive(Default)]
pub(crate) struct Lost(OnceCell<DeviceError>);

impl Lost {
    /// Takes note of what became of a sync.
    pub fn keep(&self, synced: &Result<(), DeviceError>) {
        if let Err(error) = synced {
            // Only the first one.
            let _ = self.0.set(error.clone());
        }
    }

    /// What is to be said of durability.
    pub fn verdict(&self) -> Result<(), DeviceError> {
        self.0.get().cloned().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_kept() {
        let lost = Lost::default();
        lost.keep(&Ok(()));
        assert_eq!(lost.verdict(), Ok(()));
        lost.keep(&Err(DeviceError::NoSpace));
        lost.keep(&Ok(()));
        lost.keep(&Err(DeviceError::Gone));
        assert_eq!(lost.verdict(), Err(DeviceError::NoSpace));
    }
}
