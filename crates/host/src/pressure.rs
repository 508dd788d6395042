//! Pressure: for how long tasks of the machine waited for processors, I/O or memory (`/proc/pressure`,
//! Documentation/accounting/psi.rst of the kernel).
//!
//! Of each resource the kernel adds up the time in which *some* task was stalled for want of it. A share of that time
//! is no loss by itself: on a machine whose devices are loaded some task waits for I/O all the time. For processors it
//! says that others took what the run would have used, and for memory that pages were reclaimed while somebody needed
//! them.

use units::Duration;

use crate::kernel::{Kernel, text};

/// For how long some task has waited since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pressure {
    /// For a processor.
    pub processors: Duration,
    /// For I/O.
    pub io: Duration,
    /// For memory.
    pub memory: Duration,
}

impl Pressure {
    /// Reads it; `None` where the kernel does not count it.
    pub fn read(kernel: &Kernel) -> Option<Pressure> {
        let of = |resource: &str| some(&text(kernel.proc("pressure").join(resource))?);
        Some(Pressure { processors: of("cpu")?, io: of("io")?, memory: of("memory")? })
    }

    /// What was added since an earlier moment.
    pub fn since(&self, earlier: &Pressure) -> Pressure {
        Pressure {
            processors: self.processors.saturating_sub(earlier.processors),
            io: self.io.saturating_sub(earlier.io),
            memory: self.memory.saturating_sub(earlier.memory),
        }
    }
}

/// The total of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`, in microseconds.
fn some(text: &str) -> Option<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = line.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok().map(Duration::micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_and_what_a_kernel_does_not_count_is_none() {
        let root = tempfile::tempdir().unwrap();
        let kernel = Kernel::recorded(root.path());
        assert_eq!(Pressure::read(&kernel), None);
        let folder = root.path().join("proc/pressure");
        std::fs::create_dir_all(&folder).unwrap();
        for (resource, total) in [("cpu", 1500), ("io", 20), ("memory", 0)] {
            let text = format!("some avg10=1.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 total=7\n");
            std::fs::write(folder.join(resource), text).unwrap();
        }
        let read = Pressure::read(&kernel).unwrap();
        assert_eq!((read.processors, read.io), (Duration::micros(1500), Duration::micros(20)));
        assert_eq!(
            read.since(&Pressure { processors: Duration::micros(500), ..Pressure::default() }).processors,
            Duration::millis(1)
        );
    }
}
