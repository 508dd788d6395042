//! The CPU time of single tasks (threads), from `/proc/<id>/stat` and `/proc/<id>/schedstat` (proc_pid_stat(5)).

use std::path::Path;

use units::Duration;

use crate::kernel::{names, text};

/// A task at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    /// Its number.
    pub id: u32,
    /// When it started, in ticks since boot: numbers are used again.
    pub started: u64,
    /// The name it gave itself, at most 15 bytes.
    pub name: String,
    /// CPU time in user mode; a whole process where the directory is that of one.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Both together. Exact where the kernel counts nanoseconds per task.
    pub time: Duration,
    /// It is a thread of the kernel.
    pub is_kernel: bool,
}

/// The length of a tick: the unit of times in `/proc`, 10 ms on all usual machines.
pub(crate) fn tick() -> Duration {
    Duration::nanos(1_000_000_000 / rustix::param::clock_ticks_per_second())
}

/// Set in the flags of a task that is a thread of the kernel (`PF_KTHREAD`, `include/linux/sched.h`).
const KERNEL_THREAD: u64 = 0x0020_0000;

impl Task {
    /// The task with the directory `task`, which is gone if there is none.
    pub fn read(task: &Path) -> Option<Task> {
        let stat = std::fs::read_to_string(task.join("stat")).ok()?;
        // The name stands in parentheses and may contain any character, parentheses too.
        let (id, rest) = stat.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        // Counted from field 3, the first after the name.
        let field = |number: usize| fields.get(number - 3)?.trim().parse::<u64>().ok();
        let (user, system) = (tick() * field(14)?, tick() * field(15)?);
        // The first number of schedstat is the time on a CPU in nanoseconds. That of a process counts its first thread
        // only.
        let exact = text(task.join("schedstat")).and_then(|line| line.split(' ').next()?.parse().ok());
        Some(Task {
            id: id.parse().ok()?,
            started: field(22)?,
            name: name.to_owned(),
            user,
            system,
            time: exact.map_or(user + system, Duration::nanos),
            is_kernel: field(9)? & KERNEL_THREAD != 0,
        })
    }

    /// The tasks whose directories lie in `directory`, except those that end meanwhile.
    pub fn all(directory: &Path) -> Vec<Task> {
        let is_task = |name: &String| name.bytes().all(|b| b.is_ascii_digit());
        names(directory)
            .iter()
            .filter(|name| is_task(name))
            .filter_map(|name| Task::read(&directory.join(name)))
            .collect()
    }

    /// True if this is the same task at another moment.
    pub fn is(&self, other: &Task) -> bool {
        (self.id, self.started) == (other.id, other.started)
    }

    /// True for the workers and pollers of io_uring, which are threads of the process that made the ring.
    pub fn serves_a_ring(&self) -> bool {
        self.name.starts_with("iou-")
    }
}

/// How much CPU time each task of `after` used since `before`; a task that is new there used all of its own.
pub(crate) fn since<'a>(before: &'a [Task], after: &'a [Task]) -> impl Iterator<Item = (&'a Task, Duration)> {
    after.iter().map(move |task| {
        let then = before.iter().find(|earlier| earlier.is(task)).map_or(Duration::ZERO, |earlier| earlier.time);
        (task, task.time.saturating_sub(then))
    })
}
