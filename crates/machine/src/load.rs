//! How long each part of a machine was at work.
//!
//! Parts count from the start of the machine. What happened between two instants is the difference of two looks ([`Load::since`]),
//! and a part's utilization its busy time in that difference by the time between.

use units::{Duration, Instant, Ratio};

use crate::scsi::phase::Phase;
use crate::scsi::protocol::Passage;
use crate::system::Machine;

/// The work of all parts up to some instant, or between two.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Load {
    /// When, or how long.
    pub at: Duration,
    /// The processor.
    pub cpu: Duration,
    /// How long the idle loop could have run at full speed.
    pub idle_loop: Duration,
    /// The memory bus.
    pub memory: Duration,
    /// The backplane.
    pub backplane: Duration,
    /// Each adapter's processor and data path.
    pub adapters: Vec<(Duration, Duration)>,
    /// Each string by phase, in the order of [`Phase::ALL`].
    pub strings: Vec<Vec<Duration>>,
    /// Each string's disks: for how long they had a command.
    pub disks: Vec<Vec<Duration>>,
    /// Time-outs of each adapter.
    pub time_outs: Vec<u64>,
    /// How often a process was put on the processor, and how often that was a switch from another.
    pub dispatches: u64,
    /// See [`Load::dispatches`].
    pub switches: u64,
    /// What commands did on the strings.
    pub passages: Passages,
    /// The most requests that were at boards at one time since the machine was started.
    pub most_outstanding: u64,
}

/// What completed commands did on their strings, summed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passages {
    /// How many commands.
    pub commands: u64,
    /// Times that a device took the bus.
    pub tenures: u64,
    /// Times that a target let go of it before it was done.
    pub disconnects: u64,
    /// Save-pointer messages.
    pub saves: u64,
    /// Pauses of targets while they held the bus.
    pub target_pauses: Duration,
    /// Pauses of adapters while they held the bus.
    pub initiator_pauses: Duration,
    /// Arbitration, selection and release.
    pub bus_overhead: Duration,
    /// Blocks moved before the first disconnection.
    pub first_burst: u64,
}

impl Passages {
    /// One more command.
    pub fn add(&mut self, passage: &Passage) {
        self.commands += 1;
        self.tenures += u64::from(passage.tenures);
        self.disconnects += u64::from(passage.disconnects);
        self.saves += u64::from(passage.saves);
        self.target_pauses += passage.target_pauses;
        self.initiator_pauses += passage.initiator_pauses;
        self.bus_overhead += passage.bus_overhead;
        self.first_burst += passage.first_burst;
    }

    fn with(&self, b: &Passages, time: fn(Duration, Duration) -> Duration, count: fn(u64, u64) -> u64) -> Passages {
        Passages {
            commands: count(self.commands, b.commands),
            tenures: count(self.tenures, b.tenures),
            disconnects: count(self.disconnects, b.disconnects),
            saves: count(self.saves, b.saves),
            target_pauses: time(self.target_pauses, b.target_pauses),
            initiator_pauses: time(self.initiator_pauses, b.initiator_pauses),
            bus_overhead: time(self.bus_overhead, b.bus_overhead),
            first_burst: count(self.first_burst, b.first_burst),
        }
    }
}

impl Machine {
    /// How long every part was at work up to now.
    pub fn load(&self) -> Load {
        Load {
            at: self.runtime.now().since(Instant::START),
            cpu: self.cpu.busy(),
            idle_loop: self.cpu.idle_loop(),
            memory: self.memory.busy(),
            backplane: self.backplane.busy(),
            adapters: self
                .adapters
                .iter()
                .map(|adapter| (adapter.processor_busy(), adapter.data_path_busy()))
                .collect(),
            strings: self
                .strings
                .iter()
                .map(|slot| Phase::ALL.iter().map(|phase| slot.string.table().time(*phase)).collect())
                .collect(),
            disks: self
                .strings
                .iter()
                .map(|slot| slot.units.iter().map(|slot| slot.unit.work_queue.busy()).collect())
                .collect(),
            time_outs: self.adapters.iter().map(|adapter| adapter.time_outs()).collect(),
            dispatches: self.cpu.dispatches(),
            switches: self.cpu.switches(),
            passages: self.passages.get(),
            most_outstanding: self.os.most_outstanding(),
        }
    }
}

impl Load {
    /// The work since an earlier look.
    #[must_use]
    pub fn since(&self, earlier: &Load) -> Load {
        // Sums are rounded to the nanosecond at each look.
        self.with(earlier, Duration::saturating_sub, |a, b| a - b)
    }

    /// The work of two times together, of machines alike.
    #[must_use]
    pub fn plus(&self, other: &Load) -> Load {
        self.with(other, |a, b| a + b, |a, b| a + b)
    }

    fn with(&self, other: &Load, time: fn(Duration, Duration) -> Duration, count: fn(u64, u64) -> u64) -> Load {
        let times = |a: &[Duration], b: &[Duration]| a.iter().zip(b).map(|(a, b)| time(*a, *b)).collect();
        let adapters = self.adapters.iter().zip(&other.adapters);
        Load {
            at: time(self.at, other.at),
            cpu: time(self.cpu, other.cpu),
            idle_loop: time(self.idle_loop, other.idle_loop),
            memory: time(self.memory, other.memory),
            backplane: time(self.backplane, other.backplane),
            adapters: adapters.map(|(a, b)| (time(a.0, b.0), time(a.1, b.1))).collect(),
            strings: self.strings.iter().zip(&other.strings).map(|(a, b)| times(a, b)).collect(),
            disks: self.disks.iter().zip(&other.disks).map(|(a, b)| times(a, b)).collect(),
            time_outs: self.time_outs.iter().zip(&other.time_outs).map(|(a, b)| count(*a, *b)).collect(),
            dispatches: count(self.dispatches, other.dispatches),
            switches: count(self.switches, other.switches),
            passages: self.passages.with(&other.passages, time, count),
            most_outstanding: self.most_outstanding.max(other.most_outstanding),
        }
    }

    /// What share of the time the idle loop did not run.
    pub fn host_utilization(&self) -> Ratio {
        Ratio::new(1.0 - self.share(self.idle_loop))
    }

    /// What share of the time a string was not free.
    pub fn string_utilization(&self, string: usize) -> Ratio {
        // A tenure's fixed steps are booked when it decides on them, a few microseconds before they are over.
        Ratio::new(self.share(self.strings[string].iter().copied().sum()).min(1.0))
    }

    /// The utilization of every part, by name.
    pub fn utilizations(&self) -> Vec<(String, Ratio)> {
        let mut uses = Vec::new();
        let mut push = |part: String, utilization: f64| {
            uses.push((part, Ratio::new(utilization.clamp(0.0, 1.0))));
        };
        push("processor".into(), self.share(self.cpu));
        push("host (by its idle loop)".into(), self.host_utilization().get());
        push("memory".into(), self.share(self.memory));
        push("backplane".into(), self.share(self.backplane));
        for (number, (processor, path)) in self.adapters.iter().enumerate() {
            push(format!("adapter-{number} processor"), self.share(*processor));
            push(format!("adapter-{number} data path"), self.share(*path));
        }
        for string in 0..self.strings.len() {
            push(format!("string-{string}"), self.string_utilization(string).get());
        }
        for (string, disks) in self.disks.iter().enumerate() {
            for (disk, busy) in disks.iter().enumerate() {
                push(format!("disk-{string}.{disk}"), self.share(*busy));
            }
        }
        uses
    }

    fn share(&self, time: Duration) -> f64 {
        time.as_seconds() / self.at.as_seconds()
    }
}
