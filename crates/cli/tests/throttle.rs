//! A limit that is known because we set it: a loop device throttled by a control group. The survey must name it.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Desk, Loop, READS, said, skip};

/// A control group of version 1 that bounds what is read of a device, as long as the value lives.
struct Throttle(PathBuf);

impl Throttle {
    /// `None`, and said, where there is no such hierarchy.
    fn of(device: &str, bytes: u64, requests: u64) -> Option<Throttle> {
        let group = Path::new("/sys/fs/cgroup/blkio").join(format!("arraylab-test-{}", std::process::id()));
        if let Err(error) = std::fs::create_dir(&group) {
            skip(&format!("no control group of version 1 can be made: {}: {error}", group.display()));
            return None;
        }
        let throttle = Throttle(group);
        let name = Path::new(device).file_name().unwrap().to_str().unwrap();
        let number = std::fs::read_to_string(format!("/sys/class/block/{name}/dev")).unwrap();
        for (what, limit) in [("bps", bytes), ("iops", requests)] {
            let file = throttle.0.join(format!("blkio.throttle.read_{what}_device"));
            if let Err(error) = std::fs::write(&file, format!("{} {limit}", number.trim())) {
                skip(&format!("this kernel does not throttle: {}: {error}", file.display()));
                return None;
            }
        }
        Some(throttle)
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_throttled_device_is_not_taken_for_a_slow_one() {
    let desk = Desk::new(READS);
    let Some(device) = Loop::over(&desk.file("backing", 32 << 20)) else { return };
    let Some(throttle) = Throttle::of(&device.node, 8 << 20, 400) else { return };
    let mut command = Command::new("sh");
    let words = "echo $$ > \"$1/cgroup.procs\" && exec \"$0\" survey \"$2\" --time 20s --json";
    command.args(["-c", words, env!("CARGO_BIN_EXE_arraylab")]).arg(&throttle.0).arg(&device.node);
    command.current_dir(desk.path());
    let said = said(command);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let document = said.json();
    let verdicts = document["verdicts"].as_array().unwrap();
    for question in ["bandwidth", "requests"] {
        let verdict = verdicts.iter().find(|verdict| verdict["question"] == question).unwrap();
        assert_eq!(verdict["kind"], "known", "{verdict:#}");
        let group = throttle.0.file_name().unwrap().to_str().unwrap();
        assert!(verdict["limit"].as_str().unwrap().contains(group), "{verdict:#}");
    }
}
