//! Block devices that carry nobody's data.
//!
//! For tests and benches, no part of the product: a loop device over a file of our own, and a zram device, each made new and removed
//! when dropped. Both need root; [`Refused`] says what was missing, for the line that a skipped test prints.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use units::Bytes;

/// A loop device over a new file. Detached when dropped, and the file removed.
#[derive(Debug)]
pub struct Loop {
    path: PathBuf,
    /// After the device, as it must go first.
    _image: tempfile::TempPath,
}

/// A zram device. Removed when dropped.
#[derive(Debug)]
pub struct Zram {
    number: u32,
}

/// Why a device could not be made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum Refused {
    /// The kernel, or the permission, is missing.
    #[error("{path}: {source}; block devices are made by root, with {module} in the kernel")]
    Io { path: PathBuf, module: &'static str, source: io::Error },
    /// The program said no.
    #[error("losetup: {0}; block devices are made by root")]
    Losetup(String),
}

impl Loop {
    /// A device over a file of `size` bytes in `folder`; with `direct`, the file is read and written past the page cache.
    pub fn over(folder: &Path, size: Bytes, direct: bool) -> Result<Loop, Refused> {
        let io = |source| Refused::Io { path: folder.to_owned(), module: "loop", source };
        let image = tempfile::Builder::new().prefix("scratch-").tempfile_in(folder).map_err(io)?;
        image.as_file().set_len(size.get()).map_err(io)?;
        let image = image.into_temp_path();
        let mode = if direct { "--direct-io=on" } else { "--direct-io=off" };
        let losetup = Command::new("losetup").args(["--find", "--show", mode]).arg(&image).output();
        let output = losetup.map_err(|source| Refused::Io { path: "losetup".into(), module: "loop", source })?;
        if !output.status.success() {
            return Err(Refused::Losetup(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        Ok(Loop { path, _image: image })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // If this fails the device outlives the test; there is nobody left to tell.
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).output();
    }
}

const CONTROL: &str = "/sys/class/zram-control";

impl Zram {
    /// A device of `size` bytes: a new one, as an existing one may be somebody's swap.
    pub fn new(size: Bytes) -> Result<Zram, Refused> {
        let add = Path::new(CONTROL).join("hot_add");
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| Refused::Io { path, module: "zram", source }
        };
        // Reading this file makes a device and gives its number.
        let number = fs::read_to_string(&add).map_err(io(&add))?;
        let number = number.trim().parse().map_err(io::Error::other).map_err(io(&add))?;
        let device = Zram { number };
        let disksize = PathBuf::from(format!("/sys/block/zram{number}/disksize"));
        fs::write(&disksize, size.get().to_string()).map_err(io(&disksize))?;
        Ok(device)
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        format!("/dev/zram{}", self.number).into()
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        // The kernel refuses while somebody has the device open, and a process that used a ring may have ended some milliseconds before its
        // ring has. After a second the device outlives the test; there is nobody left to tell.
        for _ in 0..100 {
            if fs::write(Path::new(CONTROL).join("hot_remove"), self.number.to_string()).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
