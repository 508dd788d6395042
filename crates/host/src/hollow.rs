//! Places of a file that no medium stores: holes, and extents that are allocated and were never written.
//!
//! The file system answers reads of such places from memory. A measurement that reads them measures memory, at 3 to 6
//! GB/s, and calls it the disk. `lseek` with `SEEK_DATA` and `SEEK_HOLE` finds both kinds: ext4, XFS, btrfs and tmpfs
//! report unwritten extents as holes unless the page cache holds dirty data for them, which is why the file is synced
//! first. A file system that does not know holes reports none (`lseek(2)`), so nothing is said of it wrongly.
//!
//! Block devices have no holes to ask for. Storage that compresses, and ranges of an SSD that were discarded, answer
//! zeroes without reading too; [`zeroes`] reads samples to find that. Zeroes on an ordinary disk are data like any
//! other, so a sample is a hint and holes are a fact.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};
use units::{Bytes, Ratio};

/// A file of more pieces is judged by the first of them.
const MOST_PIECES: usize = 100_000;

/// How many places are sampled.
const SAMPLES: u64 = 64;

/// What is read at each.
const SAMPLE: Bytes = Bytes::kib(4);

/// How much of a file its medium does not store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hollow {
    /// Holes and unwritten extents.
    pub holes: Bytes,
    /// How much was looked at.
    pub of: Bytes,
}

impl Hollow {
    /// Looks for holes in a file. A block device, and a file on a file system that does not know holes, have none.
    pub fn find(path: &Path) -> io::Result<Hollow> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        // Data that were written and not yet allocated would be taken for what they will be, and unwritten extents
        // beneath them for data.
        file.sync_data()
            .or_else(|error| if error.kind() == io::ErrorKind::InvalidInput { Ok(()) } else { Err(error) })?;
        let (mut at, mut holes) = (0, 0);
        for _ in 0..MOST_PIECES {
            if at >= size {
                break;
            }
            let data = match seek(&file, SeekFrom::Data(at)) {
                Ok(data) => data,
                // No data from here to the end.
                Err(rustix::io::Errno::NXIO) => size,
                // Not known here.
                Err(_) => return Ok(Hollow { holes: Bytes::ZERO, of: Bytes::new(size) }),
            };
            holes += data.min(size) - at;
            at = if data < size { seek(&file, SeekFrom::Hole(data))?.min(size) } else { size };
        }
        Ok(Hollow { holes: Bytes::new(holes), of: Bytes::new(at) })
    }

    /// The share of it; zero of an empty file.
    pub fn share(&self) -> Ratio {
        Ratio::new(self.holes.get() as f64 / self.of.get().max(1) as f64)
    }
}

/// The share of sampled places that hold zeroes only, on a file or device of this size.
pub fn zeroes(path: &Path, size: Bytes) -> io::Result<Ratio> {
    let file = File::open(path)?;
    let places = (size / SAMPLE).min(SAMPLES);
    let mut zero = 0;
    for place in 0..places {
        // In the middle of equal parts: the ends hold tables and labels.
        let at = (size.get() as u128 * (2 * u128::from(place) + 1) / (2 * u128::from(places))) as u64;
        let mut block = vec![0u8; SAMPLE.as_usize()];
        file.read_exact_at(&mut block, Bytes::new(at).round_down(SAMPLE).get())?;
        zero += u64::from(block.iter().all(|byte| *byte == 0));
    }
    Ok(Ratio::new(zero as f64 / places.max(1) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn holes_and_unwritten_extents_are_found_and_written_zeroes_are_not_holes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = File::create(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        let whole = Hollow { holes: Bytes::mib(1), of: Bytes::mib(1) };
        if Hollow::find(&path).unwrap() != whole {
            eprintln!("skipped: the file system of {} does not know holes", folder.path().display());
            return;
        }
        assert_eq!(Hollow::find(&path).unwrap().share(), Ratio::ONE);
        assert_eq!(zeroes(&path, Bytes::mib(1)).unwrap(), Ratio::ONE);
        // Zeroes that were written are data; what the page cache has not allocated yet is, too.
        file.write_all(&vec![0; 256 << 10]).unwrap();
        let found = Hollow::find(&path).unwrap();
        assert_eq!((found.holes, found.of), (Bytes::kib(768), Bytes::mib(1)));
        file.write_all(&vec![7; 768 << 10]).unwrap();
        assert_eq!(Hollow::find(&path).unwrap().holes, Bytes::ZERO);
        assert_eq!(zeroes(&path, Bytes::mib(1)).unwrap(), Ratio::percent(25.0));
        let unwritten = folder.path().join("unwritten");
        let file = File::create(&unwritten).unwrap();
        match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 1 << 20) {
            Ok(()) => assert_eq!(Hollow::find(&unwritten).unwrap(), whole),
            Err(error) => eprintln!("skipped: fallocate: {error}"),
        }
    }

    #[test]
    fn an_empty_file_and_one_that_is_not_there_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        File::create(folder.path().join("empty")).unwrap();
        assert_eq!(Hollow::find(&folder.path().join("empty")).unwrap().share(), Ratio::ZERO);
        assert_eq!(Hollow::find(&folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
