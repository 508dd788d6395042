//! What is refused: one message that says what, where and what next; nothing on standard output; the exit code of the
//! contract.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Desk, Loop, READS, Said, is_root, said, skip, writes};

const MIB: usize = 1 << 20;

/// A desk with a file of 8 MiB.
fn desk(load: &str) -> Desk {
    let desk = Desk::new(load);
    desk.file("data.bin", 8 * MIB);
    desk
}

/// The command was refused with this code and exactly this message.
fn refused(said: &Said, code: i32, message: &str) {
    assert_eq!((said.stdout.as_str(), said.code), ("", code), "{}", said.stderr);
    assert_eq!(said.stderr.trim_end(), message.trim_end());
}

/// The command was refused with this code and a message that has these parts.
fn refused_as(said: &Said, code: i32, parts: &[&str]) {
    assert_eq!((said.stdout.as_str(), said.code), ("", code), "{}", said.stderr);
    assert_eq!(said.stderr.matches("error: ").count(), 1, "{}", said.stderr);
    for part in parts {
        assert!(said.stderr.contains(part), "'{part}' in {}", said.stderr);
    }
}

fn run(desk: &Desk, more: &[&str]) -> Said {
    desk.arraylab(&[&["run", "load.toml", "--json"], more].concat())
}

const ON: [&str; 2] = ["--on", "data.bin"];

#[test]
fn an_unknown_key() {
    let desk = desk(&READS.replace("size =", "sise ="));
    let parts = ["unknown field `sise`", "load.toml:8:1", "`size`"];
    refused_as(&run(&desk, &ON), 2, &parts);
}

#[test]
fn a_missing_unit() {
    let desk = desk(&READS.replace("\"4 KiB\"", "4096"));
    let message = "\
error: '4096' has no unit; write a size as B, KiB, MiB, GiB, TiB (powers of 1024) or kB, MB, GB, TB (of 1000)
 --> load.toml:8:8
  |
8 | size = 4096
  |        ^^^^";
    refused(&run(&desk, &ON), 2, message);
}

#[test]
fn a_missing_key_is_shown_as_it_is_written() {
    let desk = desk(&READS.replace("pattern = \"random\"\n", ""));
    let parts =
        ["missing field `pattern`", "load.toml:4:1", "pattern = \"random\" ", "\"sequential\"", "arraylab help run"];
    refused_as(&run(&desk, &ON), 2, &parts);
}

#[test]
fn an_experiment_that_is_not_there_or_none() {
    let desk = desk(READS);
    let run = |experiment: &str| desk.arraylab(&["run", experiment, "--on", "data.bin"]);
    let next = "give the path of an experiment's TOML file, or a name that `arraylab experiments` lists";
    refused_as(&run("gone.toml"), 2, &["there is no file 'gone.toml'", "`arraylab help run` shows how"]);
    refused_as(&run("."), 2, &[".: Is a directory", next]);
    std::fs::write(desk.path().join("binary"), [0xff; 100]).unwrap();
    refused_as(&run("binary"), 2, &["binary: ", "UTF-8", next]);
}

#[test]
fn a_path_that_is_not_there() {
    let message = "error: gone.bin: there is no such file; give the path of an existing file or block device";
    refused(&run(&desk(READS), &["--on", "gone.bin"]), 2, message);
    let message = "error: gone.bin: there is no such file or device; name one that exists";
    refused(&run(&desk(&writes()), &["--on", "gone.bin", "--destroy-data"]), 2, message);
    let said = desk(READS).arraylab(&["survey", "--json", "gone.bin"]);
    refused_as(&said, 2, &["gone.bin: there is no such file or device"]);
    let said = desk(READS).arraylab(&["survey", "--dir", "gone"]);
    refused(&said, 2, "error: gone: No such file or directory (os error 2); name another directory with --dir");
}

/// The kernel would end the process for it.
#[test]
fn more_memory_than_the_machine_has() {
    let set = ["--on", "data.bin", "--set", "stream.readers.depth=65535", "--set", "stream.readers.size=1GiB"];
    let parts =
        ["the requests that may be under way need 64 TiB of memory, and ", "lower `depth`, `outstanding` or `size`"];
    refused_as(&run(&desk(READS), &set), 2, &parts);
}

#[test]
fn devices_that_are_too_small_for_a_survey() {
    let message = "error: data.bin holds 8 MiB, too little for a survey; name files or devices of at least 16 MiB";
    refused(&desk(READS).arraylab(&["survey", "data.bin"]), 2, message);
    let desk = desk(READS);
    desk.write("empty", "");
    let message = "error: empty holds 0 B, too little for a survey; name files or devices of at least 16 MiB";
    refused(&desk.arraylab(&["survey", "empty"]), 2, message);
    let message =
        "error: empty: it holds 0 B, less than one block of 512 B; name a larger file, or a device with a medium in it";
    refused(&run(&desk, &["--on", "empty"]), 2, message);
}

#[test]
fn a_character_device_for_a_device() {
    let message = "error: /dev/zero: this is a character device; name a file or a block device";
    refused(&run(&desk(READS), &["--on", "/dev/zero"]), 2, message);
    refused_as(&desk(READS).arraylab(&["survey", "/dev/zero"]), 2, &["/dev/zero", "is a character device"]);
}

#[test]
fn nothing_to_run_on() {
    let next = "name devices with --on PATH,PATH,..., or a modelled machine in [system]";
    refused_as(&run(&desk(READS), &[]), 2, &["there is nothing to run on", next]);
}

#[test]
fn a_region_beyond_the_end() {
    let desk = desk(&READS.replace("size =", "region = { length = \"1 GiB\" }\nsize ="));
    let message = "error: stream 'readers' uses 1 GiB from 0 B, but data.bin ends at 8 MiB; shorten `region` or take a larger device";
    refused(&run(&desk, &ON), 2, message);
}

#[test]
fn writes_that_overlap() {
    let one = writes();
    let second = one[one.find("[[").unwrap()..].replace("readers", "others");
    let desk = desk(&(one + &second));
    let message = "error: streams 'readers' and 'others' both write data.bin from 0 B to 8 MiB; give them regions that do not overlap, or both `overlap = true`";
    refused(&run(&desk, &["--on", "data.bin", "--destroy-data"]), 2, message);
    assert!(untouched(&desk.path().join("data.bin")));
}

#[test]
fn writing_without_consent() {
    let desk = desk(&writes());
    let message =
        "error: data.bin: writing would destroy what is there (a file of 8 MiB); add --destroy-data if that is meant";
    refused(&run(&desk, &ON), 2, message);
    assert!(untouched(&desk.path().join("data.bin")));
    // The same words with consent do write, so it was the consent that was missing.
    assert_eq!(run(&desk, &["--on", "data.bin", "--destroy-data"]).code, 0);
    assert!(!untouched(&desk.path().join("data.bin")));
}

fn untouched(file: &Path) -> bool {
    std::fs::read(file).unwrap().iter().all(|byte| *byte == 0x5a)
}

#[test]
fn settings_that_lead_nowhere() {
    let desk = desk(READS);
    let set = |setting: &str| run(&desk, &["--on", "data.bin", "--set", setting]);
    let message = "\
error: 'stream.nobody.depth' names no stream; there are: readers
 --> --set:1:1
  |
1 | stream.nobody.depth=4
  | ^^^^^^^^^^^^^^^^^^^";
    refused(&set("stream.nobody.depth=4"), 2, message);
    refused_as(&set("stream.readers.dpeth=4"), 2, &["unknown field `dpeth`", "--set:1:1", "`depth`"]);
    refused_as(&set("run.measure=5"), 2, &["'5' has no unit; write a time as ns, us, ms, s, min or h", "--set:1:13"]);
    refused_as(&set("stream.readers.limit={ time = \"1 s\", bites = 5 }"), 2, &["unknown field `bites`", "--set:1:38"]);
    refused_as(&set("sise=5"), 2, &["unknown field `sise`", "--set:1:1"]);
    refused_as(&set("run.measure.a=5"), 2, &["'run.measure.a' leads through 'measure', which is a value", "--set:1:1"]);
    refused_as(&set("sweep={ \"run.passes\" = 3 }"), 2, &["an axis of a sweep is a list of values", "--set:1:24"]);
    // What is wrong in the file is wrong there, whatever is set.
    desk.write("load.toml", &READS.replace("size =", "sise ="));
    refused_as(&set("run.measure=5s"), 2, &["unknown field `sise`", "load.toml:8:1"]);
    refused_as(&set("depth"), 2, &["'depth' is not of the form key=value"]);
}

#[test]
fn virtual_and_real_time_in_one_run() {
    let message = "error: memory:1MiB:100us exists in virtual time and data.bin in real time; run them apart";
    refused(&run(&desk(READS), &["--on", "memory:1MiB,data.bin"]), 2, message);
}

#[test]
fn a_directory_for_a_device() {
    let message = "error: .: this is a directory; name a file in it, or the block device that it is on";
    refused(&run(&desk(READS), &["--on", "."]), 2, message);
    refused(&desk(READS).arraylab(&["survey", "."]), 2, message);
}

#[test]
fn a_place_where_no_run_folder_can_be_made() {
    let desk = desk(READS);
    let parts = ["data.bin/runs: Not a directory", "name another place with --runs DIR"];
    refused_as(&run(&desk, &["--on", "data.bin", "--runs", "data.bin/runs"]), 3, &parts);
}

/// What is refused leaves no folder that looks like a run.
#[test]
fn a_refused_run_leaves_nothing_behind() {
    let desk = desk(READS);
    refused_as(&run(&desk, &["--on", "gone.bin"]), 2, &["gone.bin"]);
    let left = std::fs::read_dir(desk.path().join("runs")).map_or(0, Iterator::count);
    assert_eq!(left, 0);
}

/// The command as typed by somebody who is not root; `None` where that cannot be had.
fn as_nobody(desk: &Desk, words: &[&str]) -> Option<Said> {
    if !is_root() {
        return Some(desk.arraylab(words));
    }
    let nobody = |program: &Path, words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program).args(words);
        command.current_dir(desk.path());
        command
    };
    let program = PathBuf::from(env!("CARGO_BIN_EXE_arraylab"));
    let able = nobody(&program, &["--version"]).output();
    if !able.as_ref().is_ok_and(|output| output.status.success()) {
        skip(&format!("an unprivileged user cannot start the command here: {able:?}"));
        return None;
    }
    Some(said(nobody(&program, words)))
}

#[test]
fn no_permission_is_the_worlds_failure() {
    let desk = desk(READS);
    desk.write("writes.toml", &writes());
    let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(desk.path(), 0o777);
    mode(&desk.path().join("data.bin"), 0o000);
    let Some(reads) = as_nobody(&desk, &["run", "load.toml", "--on", "data.bin", "--json"]) else { return };
    let message = "error: data.bin: no permission; run as root, or as a member of the group that owns it (for disks usually `disk`)";
    refused(&reads, 3, message);
    let words = ["run", "writes.toml", "--on", "data.bin", "--destroy-data"];
    let Some(writes) = as_nobody(&desk, &words) else { return };
    refused_as(&writes, 3, &["data.bin: Permission denied (os error 13); become root"]);
    mode(&desk.path().join("load.toml"), 0o000);
    let Some(hidden) = as_nobody(&desk, &["run", "load.toml", "--on", "data.bin"]) else { return };
    refused_as(&hidden, 3, &["load.toml: Permission denied"]);
}

/// A file system that is mounted for as long as the value lives.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_mounted_device_is_refused_however_often_it_is_named() {
    let desk = desk(&writes());
    let Some(device) = Loop::over(&desk.path().join("data.bin")) else { return };
    let done = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    if !done(Command::new("mkfs.ext4").args(["-q", &device.node])) {
        return skip("mkfs.ext4 is missing");
    }
    let node = device.node.as_str();
    let once = run(&desk, &["--on", node, "--destroy-data"]);
    refused_as(&once, 2, &[node, "it carries ", "ext4", "name it a second time"]);
    let at = desk.path().join("mnt");
    std::fs::create_dir(&at).unwrap();
    if !done(Command::new("mount").arg(node).arg(&at)) {
        return skip("mounting is not permitted");
    }
    let _mount = Mount(at);
    let twice = format!("{node},{node}");
    let parts = [node, "is in use and stays refused", "unmount it first (umount "];
    refused_as(&run(&desk, &["--on", &twice, "--destroy-data"]), 2, &parts);
    refused_as(&desk.arraylab(&["survey", node, node, "--destroy-data"]), 2, &parts);
}

#[test]
fn what_only_real_devices_or_job_files_have() {
    let desk = desk(READS);
    let virtual_time = ["--on", "memory:64MiB", "--set", "run.measure=10ms"];
    let message =
        "--watch and --metrics are of real devices; what is modelled or simulated runs in virtual time: leave them out";
    refused_as(&run(&desk, &[&virtual_time[..], &["--watch"]].concat()), 2, &[message]);
    refused_as(&run(&desk, &[&virtual_time[..], &["--metrics", "127.0.0.1:0"]].concat()), 2, &[message]);
    refused_as(&desk.arraylab(&["run", "raid-i/figure-03", "--watch"]), 2, &[message]);
    desk.write("job.fio", "[job]\nrw=read\nsize=4k\n");
    refused_as(&desk.arraylab(&["run", "job.fio", "--on", "memory:64MiB", "--watch"]), 2, &[message]);
    refused_as(
        &run(&desk, &[&virtual_time[..], &["--strict"]].concat()),
        2,
        &["--strict is of job files of fio, and load.toml is an experiment"],
    );
}
