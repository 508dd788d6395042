//! Where the kernel tells about the machine: the trees of `/sys` and `/proc`.
//!
//! Everything that reads them takes a [`Kernel`], so a recorded tree of a machine that we do not have is read by the
//! same code. Attributes come and go between kernels and drivers: a missing one is `None`, never an error, and the
//! caller says so.
//!
//! The crate `procfs-core` (0.18) was weighed and left: it does not decode the `\040` escapes of mount points, so a
//! file system mounted at a path with a blank in it would pass as not mounted, and what remains of it here is one line
//! per file.

use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The two trees of a running or a recorded kernel.
#[derive(Debug, Clone)]
pub struct Kernel {
    sys: PathBuf,
    proc: PathBuf,
}

impl Kernel {
    /// The kernel that runs this process.
    pub fn running() -> Kernel {
        Kernel { sys: "/sys".into(), proc: "/proc".into() }
    }

    /// A recorded kernel: `root/sys` and `root/proc`.
    pub fn recorded(root: &Path) -> Kernel {
        Kernel { sys: root.join("sys"), proc: root.join("proc") }
    }

    /// A path below `/sys`.
    pub(crate) fn sys(&self, path: impl AsRef<Path>) -> PathBuf {
        self.sys.join(path)
    }

    /// A path below `/proc`.
    pub(crate) fn proc(&self, path: impl AsRef<Path>) -> PathBuf {
        self.proc.join(path)
    }
}

/// The text of an attribute without the blanks around it; `None` if there is no such attribute, or nothing in it.
pub(crate) fn text(path: impl AsRef<Path>) -> Option<String> {
    // Attributes such as the serial number in SCSI's page 0x80 hold bytes that are not UTF-8.
    let bytes = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    (!text.is_empty()).then(|| text.to_owned())
}

/// The value of an attribute that holds one number and nothing else.
pub(crate) fn number<T: FromStr>(path: impl AsRef<Path>) -> Option<T> {
    text(path)?.parse().ok()
}

/// True for an attribute that holds `1`.
pub(crate) fn flag(path: impl AsRef<Path>) -> bool {
    number::<u64>(path) == Some(1)
}

/// The names in a directory, in the order in which people count (`sda`, `sdb`; `nvme2` before `nvme10`); none if there
/// is no such directory.
pub(crate) fn names(directory: impl AsRef<Path>) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    names
}

/// The last part of the path that a symbolic link leads to.
pub(crate) fn link_name(link: impl AsRef<Path>) -> Option<String> {
    Some(std::fs::read_link(link).ok()?.file_name()?.to_string_lossy().into_owned())
}

/// The value of the first `name : value` in a table such as `/proc/cpuinfo` or `/proc/meminfo`.
pub(crate) fn field<'t>(table: &'t str, name: &str) -> Option<&'t str> {
    table.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// Undoes the escapes of `/proc/self/mountinfo` and `/proc/swaps`: a backslash and three octal digits stand for one
/// byte.
pub(crate) fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes.get(at + 1..at + 4).and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match (bytes[at], octal) {
            (b'\\', Some(byte)) => {
                out.push(byte);
                at += 4;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_the_kernel_are_undone() {
        assert_eq!(unescape(r"/mnt/my\040disk"), "/mnt/my disk");
        assert_eq!(unescape(r"/mnt/a\134b\011c"), "/mnt/a\\b\tc");
        assert_eq!(unescape(r"/mnt/odd\9end\04"), r"/mnt/odd\9end\04");
    }
}
