//! Interrupts of devices: how many each sent, and to which processors (`/proc/interrupts`, proc_interrupts(5)).
//!
//! Lines with a number are of devices; those with letters (`LOC`, `RES`) are timers and messages between processors,
//! which nobody steers, and are left out. A device that has a queue for each processor has a line for each queue, by
//! the name that its driver gave it (`nvme0q3`). On a machine of 200 processors the file is some 100 KB, so it is read
//! when counting begins and when it ends.

use crate::kernel::{Kernel, text};

/// The counts of all devices at one moment.
#[derive(Debug, Clone, Default)]
pub struct Interrupts {
    /// The processors of the columns.
    processors: Vec<u32>,
    lines: Vec<Line>,
}

#[derive(Debug, Clone)]
struct Line {
    number: u32,
    name: String,
    counts: Vec<u64>,
}

/// What one interrupt did between two moments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupted {
    /// The name that the driver gave it.
    pub name: String,
    /// How many came.
    pub count: u64,
    /// The processor that had the most of them.
    pub processor: u32,
    /// How many it had.
    pub there: u64,
}

impl Interrupts {
    /// Reads them; none where the kernel does not tell.
    pub fn read(kernel: &Kernel) -> Interrupts {
        let table = text(kernel.proc("interrupts")).unwrap_or_default();
        let mut lines = table.lines();
        let number = |word: &str| word.strip_prefix("CPU")?.parse().ok();
        let processors: Vec<u32> =
            lines.next().map_or(vec![], |head| head.split_whitespace().map_while(number).collect());
        let line = |line: &str| {
            let (number, rest) = line.split_once(':')?;
            let mut words = rest.split_whitespace();
            let counts: Vec<u64> = words.by_ref().take(processors.len()).map_while(|word| word.parse().ok()).collect();
            // The controller, its line and its trigger stand before the name, in as many words as it takes.
            let name = words.last()?.to_owned();
            (counts.len() == processors.len()).then_some(Line { number: number.trim().parse().ok()?, name, counts })
        };
        Interrupts { lines: lines.filter_map(line).collect(), processors }
    }

    /// What came between this moment and a later one, the most frequent first.
    pub fn until(&self, later: &Interrupts) -> Vec<Interrupted> {
        let came = |after: &Line| {
            let before = self.lines.iter().find(|before| before.number == after.number && before.name == after.name)?;
            // A processor that came or went has moved the columns.
            let columns = later.processors.iter().zip(&after.counts);
            let counts = columns.map(|(processor, count)| {
                let place = self.processors.iter().position(|one| one == processor);
                (*processor, count.saturating_sub(place.map_or(*count, |place| before.counts[place])))
            });
            let counts: Vec<(u32, u64)> = counts.collect();
            let (processor, there) = *counts.iter().max_by_key(|(_, count)| *count)?;
            let count = counts.iter().map(|(_, count)| count).sum();
            (count > 0).then_some(Interrupted { name: after.name.clone(), count, processor, there })
        };
        let mut all: Vec<Interrupted> = later.lines.iter().filter_map(came).collect();
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Interrupts {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc")).unwrap();
        std::fs::write(root.path().join("proc/interrupts"), text).unwrap();
        Interrupts::read(&Kernel::recorded(root.path()))
    }

    #[test]
    fn each_queue_of_a_device_is_told_with_its_processor() {
        let table = |nvme: u64, cpu3: u64| {
            at(&format!(
                "            CPU0       CPU3\n\
                 \x20 8:          1          0  IO-APIC   8-edge      rtc0\n\
                 \x2036:         10   {nvme} PCI-MSIX-0000:00:02.0   1-edge      nvme0q1\n\
                 \x2037:          5   {cpu3} PCI-MSIX-0000:00:02.0   2-edge      nvme0q2\n\
                 \x20LOC:   18932708   19301671   Local timer interrupts\n\
                 \x20ERR:          0\n"
            ))
        };
        let came = table(100, 7).until(&table(900, 8));
        let told: Vec<_> = came.iter().map(|one| (one.name.as_str(), one.count, one.processor)).collect();
        assert_eq!(told, [("nvme0q1", 800, 3), ("nvme0q2", 1, 3)]);
    }

    #[test]
    fn a_processor_that_came_has_no_count_before() {
        let before = at("   CPU0\n 5: 100 IO-APIC sda\n");
        let after = at("   CPU0 CPU1\n 5: 130 70 IO-APIC sda\n");
        let came = before.until(&after);
        assert_eq!(came, [Interrupted { name: "sda".to_owned(), count: 30, processor: 0, there: 30 }]);
        assert_eq!(at("").until(&after), []);
    }
}
