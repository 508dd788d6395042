//! A user's desk: a directory of its own, the command, and devices that go away by themselves.
#![allow(dead_code)] // each test file uses its part

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A workload that reads, short enough for a test.
pub const READS: &str = r#"seed = 7
[run]
measure = "200 ms"
[[stream]]
name = "readers"
operation = "read"
pattern = "random"
size = "4 KiB"
depth = 4
"#;

/// One adapter with two strings of two disks each.
pub const SMALL: &str = r#"
kind = "system"
name = "a small RAID-I"
status = "made up"
source = "made up"
[[node]]
name = "memory"
part = "sun4-280-memory"
[[node]]
name = "processor"
part = "sun4-280"
on = "memory"
[[node]]
name = "os"
part = "sprite"
on = "processor"
[[node]]
name = "backplane"
part = "vme"
on = "memory"
[[node]]
name = "adapter-0"
part = "jaguar"
on = "backplane"
slot = 0
[[node]]
name = "string-0"
part = "scsi-1"
on = "adapter-0"
[[node]]
name = "string-1"
part = "scsi-1"
on = "adapter-0"
[[node]]
name = "disk-0"
part = "wren-iv"
on = "string-0"
count = 2
[[node]]
name = "disk-1"
part = "wren-iv"
on = "string-1"
count = 2
"#;

/// The first workload, writing.
pub fn writes() -> String {
    READS.replace("\"read\"", "\"write\"")
}

/// What a command said and how it ended.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    /// The one document on standard output.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.stdout, self.stderr))
    }
}

/// A directory in which commands are typed.
pub struct Desk {
    dir: tempfile::TempDir,
}

impl Desk {
    /// With `load.toml` in it. It lies in the build directory, which is on a disk: a file system in memory may have no
    /// direct I/O.
    pub fn new(load: &str) -> Desk {
        let desk = Desk { dir: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() };
        desk.write("load.toml", load);
        desk
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    /// A file of this many bytes with something in each of them.
    pub fn file(&self, name: &str, bytes: usize) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, vec![0x5a; bytes]).unwrap();
        path
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arraylab"));
        command.args(words).current_dir(self.path());
        command
    }

    /// Types the words after `arraylab` and waits for the end.
    pub fn arraylab(&self, words: &[&str]) -> Said {
        said(self.command(words))
    }

    /// Types them and does not wait.
    pub fn start(&self, words: &[&str]) -> Running {
        Running::of(self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }
}

/// A program that goes on beside the test, and ends with it at the latest.
pub struct Running(Option<Child>);

impl Running {
    pub fn of(child: Child) -> Running {
        Running(Some(child))
    }

    pub fn wait_with_output(mut self) -> std::io::Result<std::process::Output> {
        self.0.take().expect("it is taken by whoever has it").wait_with_output()
    }
}

impl std::ops::Deref for Running {
    type Target = Child;
    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it is taken by whoever has it")
    }
}

impl std::ops::DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("it is taken by whoever has it")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

pub fn said(mut command: Command) -> Said {
    of(command.output().unwrap())
}

pub fn of(output: std::process::Output) -> Said {
    Said {
        code: output.status.code().unwrap_or_else(|| panic!("ended by a signal: {output:?}")),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Sends a signal, such as INT for Ctrl-C.
pub fn signal(child: &Child, signal: &str) {
    let kill = Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status().unwrap();
    assert!(kill.success());
}

/// Waits until it is so; a machine that does something else at the time takes its time.
pub fn wait_for(what: &str, so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < deadline, "{what} within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// True once a process has a thread of this name.
pub fn has_thread(process: u32, name: &str) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.any(|found| found.trim() == name)
}

/// The folder of the run holds its records, and knows how far it came. Gives its summary.
pub fn is_kept(desk: &Desk, document: &Value, state: &str) -> Value {
    let folder = desk.path().join(Path::new(document["run"].as_str().unwrap()));
    assert!(std::fs::read(folder.join("records.parquet")).unwrap().ends_with(b"PAR1"));
    let run = std::fs::read_to_string(folder.join("run.json")).unwrap();
    assert!(run.contains(state), "{run}");
    serde_json::from_slice(&std::fs::read(folder.join("summary.json")).unwrap()).unwrap()
}

/// A loop device whose backing file of 32 MiB has lost its second half: reads from there fail.
pub fn damaged(desk: &Desk) -> Option<Loop> {
    let backing = desk.file("backing", 32 << 20);
    let device = Loop::over(&backing)?;
    std::fs::OpenOptions::new().write(true).open(&backing).unwrap().set_len(16 << 20).unwrap();
    Some(device)
}

/// True if this is root, without whom there are no loop devices.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A test that cannot run here says why.
pub fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

/// A loop device over a file, as long as the value lives.
pub struct Loop {
    pub node: String,
}

impl Loop {
    /// `None`, and said, where there are none.
    pub fn over(file: &Path) -> Option<Loop> {
        Loop::with_blocks(file, 512)
    }

    /// As [`Loop::over`], with blocks of so many bytes.
    pub fn with_blocks(file: &Path, block: usize) -> Option<Loop> {
        if !is_root() {
            skip("loop devices are root's");
            return None;
        }
        match Command::new("losetup").args(["--find", "--show", "--sector-size", &block.to_string()]).arg(file).output()
        {
            Ok(done) if done.status.success() => {
                Some(Loop { node: String::from_utf8(done.stdout).unwrap().trim().to_owned() })
            }
            other => {
                skip(&format!("losetup is missing or refused: {other:?}"));
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.node]).status();
    }
}

/// Runs a program of others; false, and said, where it is absent.
pub fn peer(program: &str, words: &[&str]) -> bool {
    match Command::new(program).args(words).output() {
        Ok(output) => {
            let said = of(output);
            assert_eq!(said.code, 0, "{program} {words:?}: {}{}", said.stdout, said.stderr);
            true
        }
        Err(_) => {
            skip(&format!("there is no {program}; apt-get install libnbd-bin qemu-utils fio e2fsprogs"));
            false
        }
    }
}

/// Bytes that differ everywhere.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64 / 8).flat_map(|n| (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect()
}

/// What events are called.
pub fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap()).collect()
}
