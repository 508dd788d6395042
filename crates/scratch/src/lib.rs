//! Block devices that carry nobody's data.
//!
//! For tests and benches, no part of the product: loop devices over files of our own, and a zram device, each made new
//! and removed when dropped. Both need root; [`Refused`] says what was missing, for the line that a skipped test
//! prints.
//!
//! A device outlives the process that made it, and a process can end in ways that no destructor sees: Ctrl-C, a
//! time-out, a kill. So the removal is left to a `Remover`, a process of its own that waits for ours to end.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use units::Bytes;

/// A loop device. Detached when dropped, and the file removed that was made for it.
#[derive(Debug)]
pub struct Loop {
    path: PathBuf,
    _remover: Remover,
}

/// A zram device. Removed when dropped.
#[derive(Debug)]
pub struct Zram {
    number: u32,
    _remover: Remover,
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
    /// A device over a file of `size` bytes in `folder`; with `direct`, the file is read and written past the page
    /// cache.
    pub fn over(folder: &Path, size: Bytes, direct: bool) -> Result<Loop, Refused> {
        let io = |source| Refused::Io { path: folder.to_owned(), module: "loop", source };
        let image = tempfile::Builder::new().prefix("scratch-").tempfile_in(folder).map_err(io)?;
        image.as_file().set_len(size.get()).map_err(io)?;
        let image = image.into_temp_path();
        let path = attach(&image, direct)?;
        // From here on the image is the remover's.
        let image = image.keep().map_err(|error| io(error.error))?;
        Ok(Loop { _remover: Remover::of_loop(&path, Some(&image)).map_err(io)?, path })
    }

    /// A device over a file that is there, and stays.
    pub fn over_file(file: &Path) -> Result<Loop, Refused> {
        let path = attach(file, false)?;
        let io = |source| Refused::Io { path: file.to_owned(), module: "loop", source };
        Ok(Loop { _remover: Remover::of_loop(&path, None).map_err(io)?, path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes a device over a file, and gives its path.
fn attach(file: &Path, direct: bool) -> Result<PathBuf, Refused> {
    let mode = if direct { "--direct-io=on" } else { "--direct-io=off" };
    let losetup = Command::new("losetup").args(["--find", "--show", mode]).arg(file).output();
    let output = losetup.map_err(|source| Refused::Io { path: "losetup".into(), module: "loop", source })?;
    if !output.status.success() {
        return Err(Refused::Losetup(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
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
        let device = Zram { number, _remover: Remover::of_zram(number).map_err(io(&add))? };
        let disksize = PathBuf::from(format!("/sys/block/zram{number}/disksize"));
        fs::write(&disksize, size.get().to_string()).map_err(io(&disksize))?;
        Ok(device)
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        format!("/dev/zram{}", self.number).into()
    }
}

/// A shell that removes a device when its standard input ends: when it is dropped, or when this process has ended,
/// however it did.
///
/// It is in a process group of its own, so that what a terminal or a time-out sends to ours does not reach it.
#[derive(Debug)]
struct Remover {
    shell: Child,
}

impl Remover {
    /// Detaches a loop device and removes the file behind it, if it is ours.
    fn of_loop(device: &Path, image: Option<&Path>) -> io::Result<Remover> {
        let names: Vec<_> = [Some(device), image].into_iter().flatten().map(Path::as_os_str).collect();
        Remover::start(r#"losetup --detach "$1"; shift; rm -f "$@""#, &names)
    }

    /// Removes a zram device. The kernel refuses while somebody has it open, and a program that this process started,
    /// or its own ring, may have it for a moment longer.
    fn of_zram(number: u32) -> io::Result<Remover> {
        let script = r#"for _ in $(seq 300); do echo "$1" >"$2" && exit; sleep 0.1; done"#;
        let remove = Path::new(CONTROL).join("hot_remove");
        Remover::start(script, &[number.to_string().as_ref(), remove.as_os_str()])
    }

    fn start(script: &str, arguments: &[&std::ffi::OsStr]) -> io::Result<Remover> {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("cat; {script}"), "remover"]).args(arguments).process_group(0);
        let shell = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Remover { shell })
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // If this fails the device outlives the test; there is nobody left to tell.
        let _ = self.shell.wait();
    }
}
