//! Where on its disk a file lies (`FS_IOC_FIEMAP`, `Documentation/filesystems/fiemap.rst`).
//!
//! The block layer knows sectors, not files. A file system that updates in place (ext4, XFS, F2FS for most of its life)
//! tells the extents of a file, so a request that goes past the page cache can be followed by its sectors. One that
//! spans two extents which do not lie together becomes two requests of the block layer, and is not followed. Extents
//! whose bytes are not on the disk as they are (inline, compressed, encrypted, not yet allocated) are left out.

use std::io;
use std::path::Path;

use fiemap::{FiemapExtentFlags, fiemap};
use units::Bytes;

/// A file of more extents is followed in the first of them.
const MOST: usize = 1 << 20;

/// A stretch of a file that lies in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    /// The byte of the file at which it begins, and that of the block device.
    file: u64,
    device: u64,
    length: u64,
}

/// The extents of a file, in order, those that lie together as one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extents(Vec<Extent>);

impl Extents {
    /// Asks the file system.
    pub fn of(path: &Path) -> io::Result<Extents> {
        let elsewhere = FiemapExtentFlags::UNKNOWN
            | FiemapExtentFlags::DELALLOC
            | FiemapExtentFlags::ENCODED
            | FiemapExtentFlags::NOT_ALIGNED;
        let mut extents = Extents::default();
        for extent in fiemap(path)?.take(MOST) {
            let extent = extent?;
            if !extent.fe_flags.intersects(elsewhere) {
                extents.push(extent.fe_logical, extent.fe_physical, extent.fe_length);
            }
        }
        Ok(extents)
    }

    fn push(&mut self, file: u64, device: u64, length: u64) {
        match self.0.last_mut() {
            Some(last) if (last.file + last.length, last.device + last.length) == (file, device) => {
                last.length += length;
            }
            _ => self.0.push(Extent { file, device, length }),
        }
    }

    /// Where on the block device a stretch of the file begins; `None` if it does not lie in one piece.
    pub fn place(&self, offset: Bytes, length: Bytes) -> Option<Bytes> {
        let (begin, end) = (offset.get(), offset.get() + length.get());
        let behind = self.0.partition_point(|extent| extent.file <= begin);
        let extent = self.0[..behind].last()?;
        (end <= extent.file + extent.length).then(|| Bytes::new(extent.device + (begin - extent.file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_found_where_it_lies_in_one_piece() {
        let mut extents = Extents::default();
        for (file, device) in [(0, 1000), (100, 1100), (200, 5000), (400, 300)] {
            extents.push(file, device, 100);
        }
        assert_eq!(extents.0.len(), 3, "two lie together");
        let place = |offset, length| extents.place(Bytes::new(offset), Bytes::new(length)).map(Bytes::get);
        assert_eq!((place(0, 200), place(150, 10), place(299, 1)), (Some(1000), Some(1150), Some(5099)));
        assert_eq!(place(150, 51), None, "over the end of an extent");
        assert_eq!((place(300, 1), place(350, 100)), (None, None), "in a hole");
        assert_eq!((place(400, 100), place(500, 1)), (Some(300), None), "at the end of the file");
        assert_eq!(Extents::default().place(Bytes::ZERO, Bytes::new(1)), None);
    }

    #[test]
    fn a_file_that_was_written_lies_somewhere() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![1; 1 << 16]).unwrap();
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
        match Extents::of(&path) {
            Ok(extents) => assert!(extents.place(Bytes::ZERO, Bytes::new(512)).is_some(), "{extents:?}"),
            Err(error) => eprintln!("skipped: the file system of {} tells no extents: {error}", path.display()),
        }
        assert_eq!(Extents::of(&folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
