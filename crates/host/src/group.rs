//! A program with all that it has started: a process group of its own.

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process_group};

/// Kills a child that leads a process group, with its group. One that has ended already is no error.
pub fn kill_group(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // The child has not been waited for, so its number is nobody else's.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.kill();
}
