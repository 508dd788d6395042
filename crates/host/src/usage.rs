//! Who uses a device: what is mounted from it, swaps on it, or is built over it, through as many storeys as there are.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::block::{DeviceNumber, directory};
use crate::kernel::{Kernel, link_name, names, number, text, unescape};
use crate::mount::{Mounts, devices_of};
use crate::topology::backing_file;

/// One use of a device, of a part of it, or of what is built over it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "as", rename_all = "kebab-case")]
pub enum Use {
    /// It is mounted.
    Mounted {
        /// The device or file that is.
        device: String,
        /// Where.
        at: PathBuf,
    },
    /// Memory is swapped to it.
    Swap {
        /// The device or file.
        device: String,
    },
    /// Another device is built over it: md, dm, bcache, a loop device.
    Held {
        /// The device or file.
        device: String,
        /// The device over it.
        by: String,
    },
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Use::Mounted { device, at } => write!(f, "{device} is mounted at {}", at.display()),
            Use::Swap { device } => write!(f, "{device} is swap space"),
            Use::Held { device, by } => write!(f, "{device} belongs to {by}"),
        }
    }
}

/// Storeys of devices; more are a loop in the records, not a machine.
const HIGHEST: usize = 16;

/// All uses of block device `number`, of its partitions, and of what is built over them.
pub fn of_device(kernel: &Kernel, number: DeviceNumber) -> io::Result<Vec<Use>> {
    let mut search = Search::new(kernel)?;
    if let Some(name) = link_name(kernel.sys(format!("dev/block/{number}"))) {
        search.device(&name, 0);
    }
    Ok(search.found)
}

/// All uses of the regular file `file` (without symbolic links) as a device, and of what is built over that.
pub fn of_file(kernel: &Kernel, file: &Path) -> io::Result<Vec<Use>> {
    let mut search = Search::new(kernel)?;
    let name = file.display().to_string();
    search.swap(&name);
    for device in search.loops_over(file) {
        search.note(Use::Held { device: name.clone(), by: device.clone() });
        search.device(&device, 0);
    }
    Ok(search.found)
}

/// The loop devices over `file`, which is given without symbolic links.
pub(crate) fn loops_over(kernel: &Kernel, file: &Path) -> Vec<String> {
    let is_over = |name: &String| directory(kernel, name).and_then(|d| backing_file(&d)).as_deref() == Some(file);
    names(kernel.sys("class/block")).into_iter().filter(|name| name.starts_with("loop")).filter(is_over).collect()
}

struct Search<'a> {
    kernel: &'a Kernel,
    /// Mounted devices by name, and where.
    mounted: Vec<(String, PathBuf)>,
    swaps: Vec<String>,
    found: Vec<Use>,
}

impl<'a> Search<'a> {
    fn new(kernel: &'a Kernel) -> io::Result<Search<'a>> {
        let mounts = Mounts::read(kernel)?;
        let on = |mount: &crate::mount::Mount| {
            devices_of(kernel, mount).into_iter().map(|d| (d, mount.at.clone())).collect()
        };
        let mounted = mounts.iter().flat_map::<Vec<_>, _>(on).collect();
        // A kernel without swap has no such file.
        let table = text(kernel.proc("swaps")).unwrap_or_default();
        let swaps = table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(unescape).collect();
        Ok(Search { kernel, mounted, swaps, found: Vec::new() })
    }

    fn note(&mut self, usage: Use) {
        if !self.found.contains(&usage) {
            self.found.push(usage);
        }
    }

    fn swap(&mut self, name: &str) {
        if self.swaps.iter().any(|swap| swap == name || swap.strip_prefix("/dev/") == Some(name)) {
            self.note(Use::Swap { device: name.to_owned() });
        }
    }

    fn loops_over(&self, file: &Path) -> Vec<String> {
        loops_over(self.kernel, file)
    }

    fn device(&mut self, name: &str, height: usize) {
        let Some(device) = directory(self.kernel, name).filter(|_| height < HIGHEST) else { return };
        let places: Vec<PathBuf> = self.mounted.iter().filter(|(d, _)| d == name).map(|(_, at)| at.clone()).collect();
        for at in places {
            self.note(Use::Mounted { device: name.to_owned(), at });
        }
        self.swap(name);
        for holder in names(device.join("holders")) {
            self.note(Use::Held { device: name.to_owned(), by: holder.clone() });
            self.device(&holder, height + 1);
        }
        let is_partition = |child: &String| number::<u32>(device.join(child).join("partition")).is_some();
        for partition in names(&device).into_iter().filter(is_partition) {
            self.device(&partition, height + 1);
        }
    }
}
