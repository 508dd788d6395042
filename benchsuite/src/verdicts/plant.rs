//! How causes are made: devices in memory, NBD servers with delays and rates, control groups, programs beside the run.
//! All of it is gone when it is dropped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use scratch::Loop;
use units::Bytes;

const SIZE: Bytes = Bytes::mib(128);
const FILE: usize = 32 << 20;
const LARGE: usize = 512 << 20;
/// A machine with one drive, which stands at the end: a line more makes it several.
pub(crate) const DRIVE: &str = r#"kind = "system"
name = "flash drives"
status = "made for a test"
source = "made for a test"
[[node]]
name = "memory"
part = "ddr4-8-channels"
[[node]]
name = "processors"
part = "epyc-32-core"
on = "memory"
[[node]]
name = "linux"
part = "linux-6-direct"
on = "processors"
[[node]]
name = "root"
part = "pcie-4-root"
on = "memory"
[[node]]
name = "drive"
part = "flash-nvme-3.84tb"
on = "root"
"#;
const MEASURE: &str = "[run]\nmeasure = \"3 s\"\nstart-up = \"200 ms\"\npasses = 3\n";

/// Where set-ups are made.
pub struct Ground {
    folder: PathBuf,
}

/// A set-up: what is run, on what, and what must stay until it has run.
#[derive(Default)]
pub struct Planted {
    pub experiment: String,
    pub targets: Vec<String>,
    devices: Vec<Loop>,
    children: Vec<Child>,
    group: Option<Group>,
    stopper: Option<Stopper>,
    files: Vec<PathBuf>,
    /// Files of sysfs that were changed, and what was in them.
    settings: Vec<(PathBuf, String)>,
    one_processor: bool,
    /// A file of sysfs, and what is written to it between two runs that are compared.
    pub change: Option<(PathBuf, &'static str)>,
}

/// A control group of version 1, and the program that enters it.
struct Group(PathBuf);

/// Stops programs for a part of each period.
struct Stopper {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Stopper {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its programs have ended; the kernel may need a moment to know it.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        self.stopper = None;
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
        for (file, before) in &self.settings {
            let _ = std::fs::write(file, before);
        }
    }
}

impl Planted {
    /// Lets its programs work until a period is over but for `stopped`, and then stops them until it is.
    fn pulse(&mut self, period: Duration, stopped: Duration) {
        let programs: Vec<String> = self.children.iter().map(|child| child.id().to_string()).collect();
        let end = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&end);
        let thread = std::thread::spawn(move || {
            let signal = |name: &str| Command::new("kill").arg(name).args(&programs).status().is_ok();
            let (began, mut number) = (Instant::now(), 1);
            let wait = |until: Instant| {
                while Instant::now() < until && !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(until.saturating_duration_since(Instant::now()).min(Duration::from_millis(20)));
                }
            };
            while !stop.load(Ordering::Relaxed) {
                wait(began + period * number - stopped);
                signal("-STOP");
                wait(began + period * number);
                signal("-CONT");
                number += 1;
            }
        });
        self.stopper = Some(Stopper { end, thread: Some(thread) });
    }

    /// Long enough for bursts of two seconds in eight.
    fn long(mut self) -> Planted {
        self.experiment = self.experiment.replace(MEASURE, "[run]\nmeasure = \"20 s\"\nstart-up = \"200 ms\"\n");
        self
    }

    /// The command to run, in its control group or on its processor.
    pub fn command(&self, program: &Path) -> Command {
        if let Some(Group(group)) = &self.group {
            let mut command = Command::new("sh");
            let enter = "echo $$ > \"$0/cgroup.procs\"; exec \"$@\"";
            command.args(["-c", enter]).arg(group).arg(program);
            return command;
        }
        if self.one_processor {
            let mut command = Command::new("taskset");
            command.args(["-c", "0"]).arg(program);
            return command;
        }
        Command::new(program)
    }
}

fn spawn(command: &mut Command) -> Result<Child, String> {
    let program = command.get_program().display().to_string();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{program}: {error}"))
}

impl Ground {
    pub fn new(folder: &Path) -> Ground {
        Ground { folder: folder.to_owned() }
    }

    fn plant(&self, stream: &str, load: &str) -> Planted {
        let mut planted = Planted::default();
        planted.experiment = format!("{MEASURE}[[stream]]\nname = \"load\"\n{stream}{load}");
        planted
    }

    fn loop_device(&self) -> Result<Loop, String> {
        let device = Loop::over("/dev/shm".as_ref(), SIZE, false).map_err(|refused| refused.to_string())?;
        // What was never written is answered without the store.
        let zeroes = std::fs::OpenOptions::new().write(true).open(device.path());
        zeroes
            .and_then(|mut file| std::io::Write::write_all(&mut file, &vec![1; SIZE.as_usize()]))
            .map_err(|e| e.to_string())?;
        Ok(device)
    }

    /// One loop device over memory.
    pub fn device(&self, stream: &str, load: &str) -> Result<Planted, String> {
        let (device, mut planted) = (self.loop_device()?, self.plant(stream, load));
        planted.targets.push(device.path().display().to_string());
        planted.devices.push(device);
        Ok(planted)
    }

    /// Two of them, whose work both processors do.
    pub fn two_devices(&self, stream: &str, load: &str) -> Result<Planted, String> {
        let mut planted = self.device(stream, load)?;
        let device = self.loop_device()?;
        planted.targets.push(device.path().display().to_string());
        planted.devices.push(device);
        Ok(planted)
    }

    /// A server of memory for each list of options of the delay filter.
    pub fn servers(&self, delays: &[&[&str]], stream: &str, load: &str) -> Result<Planted, String> {
        let mut planted = self.plant(stream, load);
        for (number, delay) in delays.iter().enumerate() {
            let socket = self.folder.join(format!("{number}.sock"));
            let mut command = Command::new("nbdkit");
            command.args(["-f", "-U"]).arg(&socket).args(["--filter=delay", "memory", "64M"]).args(*delay);
            planted.children.push(spawn(&mut command)?);
            planted.targets.push(reached(&socket)?);
        }
        Ok(planted)
    }

    /// A modelled drive whose controller takes so long for a read, served in real time.
    pub fn modelled(&self, overhead: &str, stream: &str, load: &str) -> Result<Planted, String> {
        let ours = crate::jobs::arraylab().ok_or("there is no arraylab beside the benchsuite")?;
        let mut planted = self.plant(stream, load);
        let (system, socket) = (self.folder.join("drive.toml"), self.folder.join("drive.sock"));
        std::fs::write(&system, DRIVE).map_err(|error| error.to_string())?;
        let mut command = Command::new(ours);
        command.arg("serve").arg("--system").arg(&system).args(["--way", "asynchronous", "--nbd"]);
        command.arg(format!("unix:{}", socket.display()));
        command.arg("--set").arg(format!("drive.controller.read-overhead={overhead}"));
        planted.children.push(spawn(&mut command)?);
        planted.targets.push(reached(&socket)?);
        Ok(planted)
    }

    /// Two devices of one server that lets 40 Mbit/s pass for both together.
    pub fn one_link(&self, stream: &str, load: &str) -> Result<Planted, String> {
        let mut planted = self.plant(stream, load);
        let socket = self.folder.join("link.sock");
        let mut command = Command::new("nbdkit");
        command.args(["-f", "-U"]).arg(&socket).args(["--filter=rate", "memory", "64M", "rate=40M"]);
        planted.children.push(spawn(&mut command)?);
        // The same target given twice is one device; the server answers to any name.
        let uri = reached(&socket)?;
        planted.targets = ["one", "two"].map(|name| uri.replace("///?", &format!("///{name}?"))).into();
        Ok(planted)
    }

    fn group(&self, controller: &str, file: &str, value: &str) -> Result<Group, String> {
        let path = Path::new("/sys/fs/cgroup").join(controller).join(format!("planted-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let group = Group(path);
        std::fs::write(group.0.join(file), value).map_err(|error| format!("{file}: {error}"))?;
        Ok(group)
    }

    /// 1000 reads a second.
    pub fn throttled(&self, stream: &str, load: &str) -> Result<Planted, String> {
        let mut planted = self.device(stream, load)?;
        let name = planted.devices[0].path().file_name().unwrap_or_default().to_owned();
        let number =
            std::fs::read_to_string(Path::new("/sys/class/block").join(name).join("dev")).map_err(|e| e.to_string())?;
        planted.group =
            Some(self.group("blkio", "blkio.throttle.read_iops_device", &format!("{} 1000", number.trim()))?);
        Ok(planted)
    }

    /// A fifth of a processor.
    pub fn quota(&self, stream: &str, load: &str) -> Result<Planted, String> {
        let mut planted = self.device(stream, load)?;
        planted.group = Some(self.group("cpu", "cpu.cfs_quota_us", "20000")?);
        Ok(planted)
    }

    /// Two programs for each processor that do nothing but compute.
    pub fn hog(&self, stream: &str, load: &str) -> Result<Planted, String> {
        let mut planted = self.device(stream, load)?;
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        for _ in 0..2 * processors {
            planted.children.push(spawn(Command::new("sh").args(["-c", "while :; do :; done"]))?);
        }
        Ok(planted)
    }

    /// Two devices for a program that may use one processor. One does not fill it: the kernel's threads work elsewhere.
    pub fn one_processor(&self, stream: &str, load: &str) -> Result<Planted, String> {
        let mut planted = self.two_devices(stream, load)?;
        planted.one_processor = true;
        Ok(planted)
    }

    /// A device that does nothing.
    pub fn null(&self, stream: &str, load: &str) -> Result<Planted, String> {
        let mut planted = self.plant(stream, load);
        planted.targets.push("null:1GiB".to_owned());
        Ok(planted)
    }

    /// The load on a file of 32 MiB in the present folder, which `fill` makes.
    fn file(&self, stream: &str, load: &str, fill: fn(&Path) -> std::io::Result<()>) -> Result<Planted, String> {
        let here = std::env::current_dir().map_err(|error| error.to_string())?;
        let path = here.join(format!("planted-{}", std::process::id()));
        let mut planted = self.plant(stream, load);
        planted.targets.push(path.display().to_string());
        planted.files.push(path.clone());
        fill(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(planted)
    }

    /// A file that is in the page cache, and stays there.
    pub fn cached(&self, stream: &str, load: &str) -> Result<Planted, String> {
        let mut planted = self.file(stream, load, |path| std::fs::write(path, vec![1; FILE]))?;
        planted.experiment.insert_str(0, "[io]\nmode = \"buffered\"\ncache = \"keep\"\n");
        Ok(planted)
    }

    /// A file that is written past the page cache, and is larger than what the control group of its reader may use.
    pub fn little_memory(&self, stream: &str, load: &str) -> Result<Planted, String> {
        let mut planted = self.file(stream, load, |path| {
            let mut file = std::fs::File::create(path)?;
            (0..LARGE / FILE).try_for_each(|_| std::io::Write::write_all(&mut file, &vec![1; FILE]))?;
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).map_err(Into::into)
        })?;
        planted.experiment.insert_str(0, "[io]\nmode = \"buffered\"\ncache = \"keep\"\n");
        planted.group = Some(self.group("memory", "memory.limit_in_bytes", &(LARGE / 2).to_string())?);
        Ok(planted)
    }

    /// A device with an I/O scheduler, and then without.
    pub fn scheduled(&self, stream: &str, load: &str) -> Result<Planted, String> {
        let mut planted = self.device(stream, load)?;
        let name = planted.devices[0].path().file_name().unwrap_or_default().to_owned();
        let scheduler = Path::new("/sys/class/block").join(name).join("queue/scheduler");
        std::fs::write(&scheduler, "bfq").map_err(|error| format!("{}: bfq: {error}", scheduler.display()))?;
        planted.settings.push((scheduler.clone(), "none".to_owned()));
        planted.change = Some((scheduler, "none"));
        Ok(planted)
    }

    /// A file of which nothing was written.
    pub fn hollow(&self, stream: &str, load: &str) -> Result<Planted, String> {
        self.file(stream, load, |path| std::fs::File::create(path)?.set_len(FILE as u64))
    }

    /// fio on the same device, in threads: processes of its own would run on when it is killed.
    pub fn neighbour(&self, stream: &str, load: &str) -> Result<Planted, String> {
        let mut planted = self.device(stream, load)?;
        let options = [
            "--name=n",
            "--rw=randread",
            "--bs=64k",
            "--direct=1",
            "--time_based",
            "--runtime=60",
            "--ioengine=psync",
            "--thread",
        ];
        let mut command = Command::new("fio");
        command.args(options).arg("--rate=,400m").arg(format!("--filename={}", planted.targets[0]));
        planted.children.push(spawn(&mut command)?);
        std::thread::sleep(Duration::from_millis(700));
        Ok(planted)
    }

    /// fio on another file of the same file system, for two seconds of each eight.
    pub fn neighbour_in_bursts(&self, stream: &str, load: &str) -> Result<Planted, String> {
        let written = |path: &Path| {
            let mut file = std::fs::File::create(path)?;
            (0..LARGE / FILE).try_for_each(|_| std::io::Write::write_all(&mut file, &vec![1; FILE]))?;
            file.sync_all()
        };
        let mut planted = self.file(stream, load, written)?.long();
        let other = planted.files[0].with_extension("other");
        planted.files.push(other.clone());
        written(&other).map_err(|error| format!("{}: {error}", other.display()))?;
        let options = ["--name=n", "--rw=randread", "--bs=256k", "--direct=1", "--time_based", "--runtime=60"];
        let mut command = Command::new("fio");
        command.args(options).args(["--ioengine=libaio", "--iodepth=32", "--thread"]);
        planted.children.push(spawn(command.arg(format!("--filename={}", other.display())))?);
        planted.pulse(Duration::from_secs(8), Duration::from_secs(6));
        Ok(planted)
    }

    /// Programs that compute for two seconds of each eight.
    pub fn hog_in_bursts(&self, stream: &str, load: &str) -> Result<Planted, String> {
        let mut planted = self.hog(stream, load)?.long();
        planted.pulse(Duration::from_secs(8), Duration::from_secs(6));
        Ok(planted)
    }

    /// A server that takes 20 ms for each request from the twelfth second on.
    pub fn cliff(&self, stream: &str, load: &str) -> Result<Planted, String> {
        let mut planted = self.plant(stream, load).long();
        let socket = self.folder.join("cliff.sock");
        let read = "pread=if [ $(date +%s) -ge $cliff ]; then sleep 0.02; fi; head -c $3 /dev/zero";
        let cliff = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_err(|e| e.to_string())?;
        let mut command = Command::new("nbdkit");
        command.env("cliff", (cliff.as_secs() + 12).to_string());
        command.args(["-f", "-U"]).arg(&socket).args(["eval", "get_size=echo 64M", read]);
        planted.children.push(spawn(&mut command)?);
        planted.targets.push(reached(&socket)?);
        Ok(planted)
    }

    /// A server that does nothing for 100 ms of each second.
    pub fn stalls(&self, stream: &str, load: &str) -> Result<Planted, String> {
        let mut planted = self.servers(&[&["rdelay=1ms"]], stream, load)?;
        planted.pulse(Duration::from_secs(1), Duration::from_millis(100));
        Ok(planted)
    }

    /// Each write, which the page cache takes, is followed by a flush.
    pub fn flushed(&self) -> Result<Planted, String> {
        let stream = "operation = \"write\"\npattern = \"random\"\nsize = \"4 KiB\"\n";
        let mut planted = self.file(stream, "depth = 1\n", |path| std::fs::write(path, vec![1; FILE]))?;
        let path = planted.targets.remove(0);
        planted
            .experiment
            .push_str(&format!("[[device]]\nfiles = [\"{path}\"]\nmode = \"buffered\"\nfsync-every = 1\n"));
        Ok(planted)
    }

    /// Requests of 256 KiB on a device that takes 16 KiB at most. A loop device keeps that bound when it is set up
    /// anew, so it is restored.
    pub fn split(&self, load: &str) -> Result<Planted, String> {
        let mut planted = self.device("operation = \"read\"\npattern = \"random\"\nsize = \"256 KiB\"\n", load)?;
        let name = planted.devices[0].path().file_name().unwrap_or_default().to_owned();
        let most = Path::new("/sys/class/block").join(name).join("queue/max_sectors_kb");
        let failed = |error| format!("{}: {error}", most.display());
        let before = std::fs::read_to_string(&most).map_err(failed)?;
        std::fs::write(&most, "16").map_err(failed)?;
        planted.settings.push((most, before));
        Ok(planted)
    }
}

/// The URI of a server, once it listens.
fn reached(socket: &Path) -> Result<String, String> {
    for _ in 0..200 {
        if socket.exists() {
            return Ok(format!("nbd+unix:///?socket={}", socket.display()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err("nbdkit did not begin to listen".to_owned())
}
