//! What several files of tests need: superblocks of new arrays, and Linux md as a peer, in a virtual machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use array::geometry::Level;
use array::md::{self, Consistency, NewArray, NewMember, Stamp, Superblock, Uuid};
use units::Bytes;

pub mod bed;
pub mod image;
pub mod rig;

/// Superblocks of a new array that was stopped, of members with so much room each. Its identity is made of `array`, its
/// members' of 1, 2, 3...
pub fn superblocks(
    (level, members, consistency): (Level, usize, Consistency),
    chunk: Bytes,
    size: Bytes,
    array: u8,
) -> Vec<Superblock> {
    let (name, array, now) = ("t".to_owned(), Uuid([array; 16]), Stamp(0));
    let new = NewArray { level, chunk, name, array, now, consistency, clean: true };
    let sized: Vec<NewMember> =
        (0..members).map(|member| NewMember { size, member: Uuid([member as u8 + 1; 16]) }).collect();
    md::create(&new, &sized).expect("there is such an array").0
}

/// The scripts that run md, if this machine has them and one of their virtual machines runs here.
///
/// user-mode-linux is the faster by far (2 s a run for 7). Its kernel of Debian 12 starts no program where the
/// processor has AMX, unless `xstate.c` is loaded with it. Where it does not run, the same kernel runs in qemu, which
/// the scripts install.
#[derive(Clone)]
pub struct Peer {
    run: PathBuf,
    machine: &'static str,
    /// What is loaded with user-mode-linux.
    preload: Option<PathBuf>,
}

impl Peer {
    /// Looks in `$ARRAYLAB_SHARED/md-peer` and beside the repository; prints that the test is skipped, and why, if
    /// there is none that runs.
    pub fn find() -> Option<Peer> {
        static FOUND: OnceLock<Result<Peer, String>> = OnceLock::new();
        let found = FOUND.get_or_init(Peer::look);
        found.as_ref().inspect_err(|why| eprintln!("skipped: {why}")).ok().cloned()
    }

    fn look() -> Result<Peer, String> {
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
        let shared = std::env::var_os("ARRAYLAB_SHARED").map_or(beside, PathBuf::from);
        let run = shared.join("md-peer/run.sh");
        if !run.exists() {
            let missing = run.display();
            return Err(format!("there is no {missing}; set ARRAYLAB_SHARED to the folder that holds md-peer"));
        }
        let linux = Peer { run: run.clone(), machine: "uml", preload: xstate() };
        let started = linux.command(&[]).arg("true").output().expect("the peer's script starts");
        if started.status.success() {
            return Ok(linux);
        }
        // This one is only asked for: to start it takes several seconds.
        let installed = Command::new(shared.join("md-peer/setup.sh")).env("MDVM_LANES", "tcg").output();
        let installed = installed.expect("the peer's script starts");
        if installed.status.success() {
            return Ok(Peer { run, machine: "tcg", preload: None });
        }
        let [linux, qemu] = [&started, &installed].map(|output| String::from_utf8_lossy(&output.stderr));
        Err(format!("no virtual machine of {} runs here: uml: {linux}\ntcg: {qemu}", run.display()))
    }

    /// The script with its disks; what it shall run is to follow.
    fn command(&self, disks: &[PathBuf]) -> Command {
        let mut command = Command::new(&self.run);
        command.args(["-b", self.machine, "-t", "200"]);
        command.envs(self.preload.iter().map(|library| ("LD_PRELOAD", library)));
        for disk in disks {
            command.arg("-d").arg(disk);
        }
        command.arg("--");
        command
    }

    /// Runs commands in the machine with these disks, `$D0` and so on; gives what they printed. Panics if one fails.
    pub fn run(&self, disks: &[PathBuf], commands: &[String]) -> String {
        let output = self.command(disks).args(commands).output().expect("the peer's script starts");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
        out.into_owned()
    }
}

/// What is to be loaded with user-mode-linux, if there is a compiler that makes it.
fn xstate() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/xstate.c");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // Under a name of its own first: another run of the tests may load it meanwhile.
    let (own, library) = (folder.join(format!("xstate-{}.so", std::process::id())), folder.join("xstate.so"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&own).arg(source).arg("-ldl");
    let made = compiler.output().is_ok_and(|output| output.status.success());
    (made && std::fs::rename(own, &library).is_ok()).then_some(library)
}

/// Words that wait until md resyncs, rebuilds and checks an array no more. `mdadm --wait` looks every five seconds.
pub fn settle(array: usize) -> String {
    format!("while grep -qv idle /sys/block/md{array}/md/sync_action 2>/dev/null; do sleep 0.1; done")
}

/// Words that keep an array dirty from its next write on. Without them md says 200 ms after the last write that the
/// array is clean, and on a busy machine the power may go later than that.
pub fn stay_dirty(array: usize) -> String {
    format!("echo 0 > /sys/block/md{array}/md/safe_mode_delay")
}

/// Words that copy what an array holds to a disk, from so many MiB on: to compare it inside takes an emulated processor
/// several times as long.
pub fn copy_out(array: usize, disk: usize, mib: u64) -> String {
    format!("dd if=/dev/md{array} of=$D{disk} bs=1M seek={mib} 2>/dev/null")
}

/// Bytes that look random and are the same every time (an xorshift generator).
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let word = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..length.div_ceil(8)).flat_map(word).take(length).collect()
}
