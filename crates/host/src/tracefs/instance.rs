//! An instance of tracefs for as long as a run lasts.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use units::Bytes;

use super::event::{DeviceCode, Event, Layout, Point, RingPoint, event};
use super::page::Header;
use crate::block::DeviceNumber;
use crate::kernel::{Kernel, names, number, text};

/// The instances of processes of this program: this and their process number.
const PREFIX: &str = "arraylab-";

/// Where tracefs is mounted: its own place, or the older one below debugfs.
const PLACES: [&str; 2] = ["kernel/tracing", "kernel/debug/tracing"];

/// The largest page that is read; the kernel's are of 4 KiB unless an administrator made them larger.
const LARGEST_PAGE: u64 = 1 << 20;

/// Why nothing is traced.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum TraceError {
    #[error("tracefs is not mounted; as root, mount it: mount -t tracefs tracefs {}", .0.display())]
    NotMounted(PathBuf),
    #[error("this kernel has no tracefs (CONFIG_TRACING): no tracing here")]
    NoTracefs,
    #[error("tracing needs root (CAP_SYS_ADMIN, CAP_DAC_OVERRIDE): {} cannot be used: {source}", path.display())]
    Permission { path: PathBuf, source: io::Error },
    #[error("the trace instance {} exists already; if no run uses it, remove it: rmdir {}", .0.display(), .0.display())]
    Exists(PathBuf),
    #[error("this kernel's trace point {0} is missing, or unlike those that are known")]
    Unknown(&'static str),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Trace points that are on for some devices, until it is dropped.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    header: Header,
    layouts: Vec<Layout>,
}

impl Instance {
    /// Makes the instance of this process, with at most so much memory for what is not yet read, and switches it on for
    /// these devices.
    pub fn start(kernel: &Kernel, devices: &[DeviceCode], memory: Bytes) -> Result<Instance, TraceError> {
        let root = mounted(kernel)?;
        let header = read_header(&root)?;
        let instances = root.join("instances");
        remove_stale(kernel, &instances);
        let path = instances.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => TraceError::Exists(path.clone()),
            _ => refused(&path, source),
        })?;
        // Dropping it removes the directory, whatever fails from here on.
        let mut instance = Instance { path, header, layouts: Vec::new() };
        instance.prepare(kernel, devices, memory)?;
        Ok(instance)
    }

    fn prepare(&mut self, kernel: &Kernel, devices: &[DeviceCode], memory: Bytes) -> Result<(), TraceError> {
        let processors = self.processors().len().max(1) as u64;
        self.write("tracing_on", "0")?;
        self.write("trace_clock", "mono")?;
        self.write("buffer_size_kb", &(memory.get() / processors / 1024).max(64).to_string())?;
        // Names of tasks would be noted at each switch of tasks, and are not needed. Not every kernel lets an instance
        // decide that.
        let _ = self.write("trace_options", "norecord-cmd");
        let one = |code: &DeviceCode| format!("dev == {}", code.0);
        let filter = devices.iter().map(one).collect::<Vec<_>>().join(" || ");
        // Where there are requests their ends say all, but for bios that were given back.
        let end = |code: &DeviceCode| match has_requests(kernel, *code) {
            true => format!("(dev == {} && error != 0)", code.0),
            false => one(code),
        };
        let ends = devices.iter().map(end).collect::<Vec<_>>().join(" || ");
        for (point, name) in Point::ALL {
            let folder = format!("events/block/{name}");
            if !self.learn(&folder, |format| Layout::parse(point, format)) {
                return Err(TraceError::Unknown(name));
            }
            let filtered = format!("{folder}/filter");
            // Not every kernel tells the error of a bio.
            if point != Point::BioCompleted || self.write(&filtered, &ends).is_err() {
                self.write(&filtered, &filter)?;
            }
            self.write(&format!("{folder}/enable"), "1")?;
        }
        // Partitions pass all their requests on to their disk, under one name for both here; that need not be told.
        let stacked = devices.iter().filter(|code| stands_on_others(kernel, **code));
        let stacked = stacked.map(|code| format!("old_dev == {}", code.0)).collect::<Vec<_>>().join(" || ");
        for name in Point::PASSED_ON.into_iter().filter(|_| !stacked.is_empty()) {
            let folder = format!("events/block/{name}");
            if !self.learn(&folder, Layout::of_passing_on) {
                return Err(TraceError::Unknown(name));
            }
            self.write(&format!("{folder}/filter"), &stacked)?;
            self.write(&format!("{folder}/enable"), "1")?;
        }
        for (point, name) in RingPoint::ALL {
            let folder = format!("events/io_uring/{name}");
            // Without them less is known of a request, and no less of the rest.
            if self.learn(&folder, |format| Layout::of_ring(point, format)) {
                self.write(&format!("{folder}/enable"), "1")?;
            }
        }
        self.write("tracing_on", "1")
    }

    /// Learns how the records of a trace point are read; says whether it has what is needed.
    fn learn(&mut self, folder: &str, parse: impl Fn(&str) -> Option<Layout>) -> bool {
        let format = whole(&self.path.join(folder).join("format")).ok();
        let layout = format.and_then(|format| parse(&format));
        self.layouts.extend(layout);
        layout.is_some()
    }

    /// Ends the recording; what was recorded can still be read.
    pub fn stop(&self) -> Result<(), TraceError> {
        self.write("tracing_on", "0")
    }

    /// A reader for each processor. They are dropped before the instance: what is open cannot be removed.
    pub fn readers(&self) -> Result<Vec<Reader>, TraceError> {
        let size: u64 =
            number(self.path.join("buffer_subbuf_size_kb")).map_or(4096, |kib: u64| kib.saturating_mul(1024));
        let page = size.clamp(4096, LARGEST_PAGE) as usize;
        let reader = |name: String| {
            let path = self.path.join("per_cpu").join(name).join("trace_pipe_raw");
            let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&path);
            let file = file.map_err(|source| refused(&path, source))?;
            Ok(Reader { file, page: vec![0; page], header: self.header, layouts: self.layouts.clone(), lost: 0 })
        };
        self.processors().into_iter().map(reader).collect()
    }

    /// The names of the processors' folders.
    fn processors(&self) -> Vec<String> {
        names(self.path.join("per_cpu"))
    }

    fn write(&self, file: &str, value: &str) -> Result<(), TraceError> {
        let path = self.path.join(file);
        fs::write(&path, value).map_err(|source| refused(&path, source))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Events that stay on cost every request of their devices. The kernel switches them off with the instance.
        let _ = fs::remove_dir(&self.path);
    }
}

/// True of a device that makes requests of its bios (blk-mq), and of a partition of one.
fn has_requests(kernel: &Kernel, code: DeviceCode) -> bool {
    let directory = kernel.sys(format!("dev/block/{}", DeviceNumber::from(code)));
    ["mq", "../mq"].iter().any(|queues| directory.join(queues).exists())
}

/// True of a device that has its requests done by others: md, device mapper.
fn stands_on_others(kernel: &Kernel, code: DeviceCode) -> bool {
    !names(kernel.sys(format!("dev/block/{}/slaves", DeviceNumber::from(code)))).is_empty()
}

/// Where tracefs is.
fn mounted(kernel: &Kernel) -> Result<PathBuf, TraceError> {
    let mut hidden = None;
    for place in PLACES.map(|place| kernel.sys(place)) {
        match fs::metadata(place.join("instances")) {
            Ok(_) => return Ok(place),
            Err(source) if source.kind() == ErrorKind::PermissionDenied => {
                hidden = hidden.or(Some(TraceError::Permission { path: place, source }));
            }
            Err(_) => {}
        }
    }
    let known = text(kernel.proc("filesystems")).is_some_and(|list| list.lines().any(|line| line.ends_with("tracefs")));
    Err(hidden.unwrap_or(match known {
        true => TraceError::NotMounted(kernel.sys(PLACES[0])),
        false => TraceError::NoTracefs,
    }))
}

/// Removes the instances of processes that were killed: their trace points are still on. One that is in use the kernel
/// keeps.
fn remove_stale(kernel: &Kernel, instances: &Path) {
    for name in names(instances) {
        let process = name.strip_prefix(PREFIX).and_then(|process| process.parse::<u32>().ok());
        if process.is_some_and(|process| !kernel.proc(process.to_string()).exists()) {
            let _ = fs::remove_dir(instances.join(name));
        }
    }
}

fn read_header(root: &Path) -> Result<Header, TraceError> {
    let path = root.join("events/header_page");
    let text = whole(&path).map_err(|source| refused(&path, source))?;
    Header::parse(&text).ok_or(TraceError::Unknown("header_page"))
}

/// The text of a file of tracefs. Some of them give what fits into the first read and end there, so that must be large;
/// `fs::read` begins with 32 bytes.
fn whole(path: &Path) -> io::Result<String> {
    let (mut file, mut text) = (File::open(path)?, Vec::new());
    let mut part = vec![0; 1 << 16];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
            read => text.extend_from_slice(&part[..read]),
        }
    }
}

fn refused(path: &Path, source: io::Error) -> TraceError {
    let path = path.to_owned();
    match source.kind() {
        ErrorKind::PermissionDenied => TraceError::Permission { path, source },
        _ => TraceError::Io { path, source },
    }
}

/// Reads the buffer of one processor.
#[derive(Debug)]
pub struct Reader {
    file: File,
    page: Vec<u8>,
    header: Header,
    layouts: Vec<Layout>,
    lost: u64,
}

impl Reader {
    /// Takes all that has been recorded and not yet been read, without waiting for more.
    pub fn drain(&mut self, mut take: impl FnMut(Event)) -> io::Result<()> {
        loop {
            let read = match self.file.read(&mut self.page) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let (records, lost) = self.header.read(&self.page[..read]);
            self.lost += lost;
            for (first, second) in records.filter_map(|(at, record)| event(&self.layouts, at, record)) {
                take(first);
                second.map(&mut take);
            }
        }
    }

    /// Events that were overwritten before they were read: at least so many.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_no_tracefs_the_error_says_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        let kernel = Kernel::recorded(root.path());
        let refused = |kernel| Instance::start(kernel, &[], Bytes::mib(1)).unwrap_err().to_string();
        assert!(refused(&kernel).starts_with("this kernel has no tracefs"), "{}", refused(&kernel));
        fs::create_dir(root.path().join("proc")).unwrap();
        fs::write(root.path().join("proc/filesystems"), "nodev\tproc\nnodev\ttracefs\n").unwrap();
        assert!(refused(&kernel).contains("mount -t tracefs tracefs"), "{}", refused(&kernel));
    }

    #[test]
    fn an_instance_of_this_process_that_exists_is_left_alone_and_one_of_a_dead_process_removed() {
        let root = tempfile::tempdir().unwrap();
        let kernel = Kernel::recorded(root.path());
        let instances = root.path().join("sys/kernel/tracing/instances");
        let [own, dead, other] =
            [format!("{PREFIX}{}", std::process::id()), format!("{PREFIX}4000000"), "mine".to_owned()]
                .map(|name| instances.join(name));
        for folder in [&own, &dead, &other, &root.path().join(format!("proc/{}", std::process::id()))] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::create_dir(root.path().join("sys/kernel/tracing/events")).unwrap();
        let header = "field: u64 timestamp; offset:0; size:8;\n\
                      field: local_t commit; offset:8; size:8;\n\
                      field: char data; offset:16; size:4080;\n";
        fs::write(root.path().join("sys/kernel/tracing/events/header_page"), header).unwrap();
        let error = Instance::start(&kernel, &[], Bytes::mib(1)).unwrap_err();
        assert!(error.to_string().contains("rmdir"), "{error}");
        assert_eq!([own, dead, other].map(|path| path.exists()), [true, false, true]);
    }
}
