//! Other programs: what each of them took from the machine between two moments, processors and storage.
//!
//! Processor time is of `/proc/<id>/stat`, in ticks of 10 ms. Storage is of `/proc/<id>/io`: the bytes that a program
//! had the block layer read, and those that it made dirty and that will be written. Another user's are hidden without a
//! right to trace (`ptrace`): then they count as none. A program that began and ended between the two moments is not
//! seen. Threads of the kernel are no programs: they work for somebody, who is not said, and [`cpu`](crate::cpu) counts
//! their time.

use std::path::Path;

use units::{Bytes, Duration};

use crate::kernel::{Kernel, text};
use crate::task::Task;

/// All programs but this one, at one moment.
#[derive(Debug, Clone)]
pub struct Neighbours(Vec<Seen>);

#[derive(Debug, Clone)]
struct Seen {
    task: Task,
    read: u64,
    written: u64,
}

/// What a program took between two moments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// The name it gave itself, at most 15 bytes.
    pub name: String,
    /// Its number.
    pub id: u32,
    /// Processor time of all its threads.
    pub processor: Duration,
    /// Had from storage.
    pub read: Bytes,
    /// Given to storage, now or later.
    pub written: Bytes,
}

impl Neighbours {
    /// Looks at all of them. It takes some 20 us for each.
    pub fn now(kernel: &Kernel) -> Neighbours {
        let own = std::process::id();
        let seen = |task: Task| {
            let (read, written) = storage(&kernel.proc(task.id.to_string()));
            Seen { task, read, written }
        };
        let others = Task::all(&kernel.proc("")).into_iter().filter(|task| !task.is_kernel && task.id != own);
        Neighbours(others.map(seen).collect())
    }

    /// What those took that took anything from this moment to a later one, who took the most processor time first.
    pub fn until(&self, later: &Neighbours) -> Vec<Neighbour> {
        let took = |after: &Seen| {
            let before = self.0.iter().find(|before| before.task.is(&after.task));
            let time = |seen: &Seen| seen.task.user + seen.task.system;
            let (processor, read, written) =
                before.map_or((Duration::ZERO, 0, 0), |before| (time(before), before.read, before.written));
            Neighbour {
                name: after.task.name.clone(),
                id: after.task.id,
                processor: time(after).saturating_sub(processor),
                read: Bytes::new(after.read.saturating_sub(read)),
                written: Bytes::new(after.written.saturating_sub(written)),
            }
        };
        let any = |one: &Neighbour| !(one.processor.is_zero() && one.read.is_zero() && one.written.is_zero());
        let mut took: Vec<Neighbour> = later.0.iter().map(took).filter(any).collect();
        took.sort_by(|a, b| b.processor.cmp(&a.processor).then_with(|| a.id.cmp(&b.id)));
        took
    }
}

/// Bytes that a program read from storage, and wrote to it.
fn storage(process: &Path) -> (u64, u64) {
    let table = text(process.join("io")).unwrap_or_default();
    let value = |key: &str| {
        let line = table.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    (value("read_bytes:"), value("write_bytes:").saturating_sub(value("cancelled_write_bytes:")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_is_told_by_what_it_took() {
        let root = tempfile::tempdir().unwrap();
        let kernel = Kernel::recorded(root.path());
        let put = |id: u32, name: &str, flags: u64, ticks: u64, read: u64| {
            let folder = root.path().join(format!("proc/{id}"));
            std::fs::create_dir_all(&folder).unwrap();
            let stat = format!("{id} ({name}) R 1 1 1 0 -1 {flags} 0 0 0 0 {ticks} 0 0 0 20 0 1 0 77 0 0");
            std::fs::write(folder.join("stat"), stat).unwrap();
            let io = format!("rchar: 5\nread_bytes: {read}\nwrite_bytes: 10\ncancelled_write_bytes: 4\n");
            std::fs::write(folder.join("io"), io).unwrap();
        };
        put(10, "idle", 0, 3, 5);
        put(11, "hog", 0, 3, 0);
        put(12, "kworker", 0x0020_0000, 3, 0);
        let before = Neighbours::now(&kernel);
        put(11, "hog", 0, 53, 4096);
        put(12, "kworker", 0x0020_0000, 99, 0);
        put(13, "new", 0, 1, 0);
        let took = before.until(&Neighbours::now(&kernel));
        let told: Vec<_> = took.iter().map(|one| (one.name.as_str(), one.processor, one.read.get())).collect();
        let tick = crate::task::tick();
        assert_eq!(told, [("hog", tick * 50, 4096), ("new", tick, 0)]);
        assert_eq!(took[1].written, Bytes::new(6));
    }
}
