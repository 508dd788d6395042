//! What else the machine does while requests count: the kernel's accounts at two moments, and what lies between; see
//! [`analysis::surroundings`].
//!
//! Looking takes some 20 us for each program of the machine, so it is done by the thread that makes no load, each
//! second, or less often where that would take more than half a percent of a processor.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use analysis::surroundings::{
    Clocks, Disk, Hole, Interrupt, Interval, Memory, MemoryLimit, Neighbour, Pressure, Processor, Surroundings,
    Throttle, Throttled,
};
use host::Kernel;
use host::cpu::Usage;
use host::disks::{DiskUse, Disks};
use host::frequency;
use host::neighbours::Neighbours;
use host::throttle::{Limit, throttles, withheld};
use units::{Bytes, Duration, Frequency, Ratio};
use uring::Mode;

use crate::experiment::Experiment;
use crate::target::{self, Target};

/// Who used less than this of a processor, and less storage than that, is not worth a line.
const LITTLE: f64 = 0.01;
const FEW_BYTES: u64 = 1 << 20;
/// So many programs are named.
const NAMED: usize = 8;

/// A device of the run that lies on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    name: String,
    path: PathBuf,
    /// It is a block device, which nobody but its users asks for anything.
    is_raw: bool,
}

/// Those of a run that do.
pub(crate) fn devices(targets: &[Target]) -> Vec<Device> {
    let device = |(name, target): (String, &Target)| {
        let path = target.paths().next()?.to_owned();
        let is_raw = std::fs::metadata(&path).is_ok_and(|metadata| metadata.file_type().is_block_device());
        Some(Device { name, path, is_raw })
    };
    target::names(targets).into_iter().zip(targets).filter_map(device).collect()
}

/// So many intervals are kept. Of a longer run two and two are joined.
const MOST_INTERVALS: usize = 256;
/// So many interrupts are named.
const INTERRUPTS: usize = 8;

/// The accounts at one moment.
pub(crate) struct Around {
    at: Instant,
    neighbours: Neighbours,
    /// By device: the block devices below it.
    disks: Vec<(Device, Disks)>,
    pressure: Option<host::pressure::Pressure>,
    memory: Option<host::memory::Counted>,
    withheld: Duration,
    clocks: Option<frequency::Clocks>,
}

impl Around {
    /// Reads them, of the machine, of the processors that the load may use and of what the devices stand on.
    pub fn take(kernel: &Kernel, devices: &[Device], allowed: &[u32]) -> Around {
        let below = |device: &Device| (device.clone(), Disks::below(kernel, [&*device.path]));
        Around::read(kernel, devices.iter().map(below).collect(), allowed)
    }

    /// Reads the same at a later moment.
    pub fn again(&self, kernel: &Kernel, allowed: &[u32]) -> Around {
        let disks = self.disks.iter().map(|(device, disks)| (device.clone(), disks.again())).collect();
        Around::read(kernel, disks, allowed)
    }

    fn read(kernel: &Kernel, disks: Vec<(Device, Disks)>, allowed: &[u32]) -> Around {
        Around {
            at: Instant::now(),
            neighbours: Neighbours::now(kernel),
            disks,
            pressure: host::pressure::Pressure::read(kernel),
            memory: host::memory::Counted::read(kernel),
            withheld: withheld(kernel),
            clocks: frequency::Clocks::read(kernel, allowed),
        }
    }

    /// What has happened until a later moment, beside what the processors did.
    pub fn until(&self, later: &Around, usage: &Usage, allowed: &[u32]) -> Surroundings {
        let elapsed = later.at.duration_since(self.at);
        let share = |time: Duration| Ratio::new((time.as_seconds() / elapsed.as_secs_f64().max(1e-9)).max(0.0));
        let since = self.pressure.zip(later.pressure).map(|(then, now)| now.since(&then));
        let counted = self.memory.zip(later.memory).map(|(then, now)| now.since(&then));
        let neighbours = self.neighbours.until(&later.neighbours).into_iter().map(|one| Neighbour {
            processor: share(one.processor),
            name: one.name,
            id: one.id,
            read: one.read,
            written: one.written,
        });
        let mut disks: Vec<Disk> = Vec::new();
        for ((device, before), (_, after)) in self.disks.iter().zip(&later.disks) {
            // The first is the nearest; what follows are members of an array or a volume.
            for (place, disk) in before.until(after).into_iter().enumerate() {
                let stands = (place == 0).then(|| device.name.clone());
                match disks.iter_mut().find(|known| known.name == disk.name) {
                    Some(known) => {
                        // An array asks its members for more than the run asks of them.
                        known.is_raw &= place == 0;
                        known.devices.extend(stands);
                    }
                    None => disks.push(told(disk, stands, place == 0 && device.is_raw)),
                }
            }
        }
        let cpus = usage.cpus.iter().filter(|cpu| allowed.is_empty() || allowed.contains(&cpu.cpu));
        let capacity = usage.elapsed.as_seconds() * usage.cpus.len() as f64;
        Surroundings {
            time: Duration::from_seconds(elapsed.as_secs_f64()),
            processors: cpus
                .map(|cpu| Processor {
                    number: cpu.cpu,
                    user: cpu.shares.user,
                    system: cpu.shares.system,
                    irq: cpu.shares.irq,
                    softirq: cpu.shares.softirq,
                    iowait: cpu.shares.iowait,
                    steal: cpu.shares.steal,
                })
                .collect(),
            own: Ratio::new((usage.with_helpers().as_seconds() / capacity.max(1e-9)).min(1.0)),
            neighbours: neighbours.collect(),
            pressure: since.map(|since| Pressure {
                processors: share(since.processors),
                io: share(since.io),
                memory: share(since.memory),
            }),
            memory: counted.map(|counted| Memory {
                reclaimed: counted.reclaimed,
                reached: counted.reached,
                ..Memory::default()
            }),
            withheld: share(later.withheld.saturating_sub(self.withheld)),
            clocks: self.clocks.zip(later.clocks).map(|(then, now)| Clocks {
                mean: Frequency::per_second((then.mean.get() + now.mean.get()) / 2.0),
                most: now.most,
                slowed: now.slowed.saturating_sub(then.slowed),
            }),
            disks,
            ..Surroundings::default()
        }
    }
}

/// What a block device did, on which a device of the run stands, or none.
fn told(disk: DiskUse, device: Option<String>, is_raw: bool) -> Disk {
    let share = |time: Duration| time.as_seconds() / disk.elapsed.as_seconds().max(1e-9);
    Disk {
        is_raw,
        busy: Ratio::new(share(disk.busy)),
        in_flight: share(disk.in_queue),
        devices: device.into_iter().collect(),
        requests: disk.requests,
        merges: disk.merges,
        moved: disk.bytes.map(Bytes::get),
        name: disk.name,
    }
}

/// Interrupts that came, for [`Surroundings::interrupts`].
pub(crate) fn interrupts(came: Vec<host::interrupts::Interrupted>) -> Vec<Interrupt> {
    let told = |one: host::interrupts::Interrupted| Interrupt {
        name: one.name,
        count: one.count,
        processor: one.processor,
        share: Ratio::new(one.there as f64 / one.count.max(1) as f64),
    };
    came.into_iter().take(INTERRUPTS).map(told).collect()
}

/// The surroundings by the second, as many as are worth keeping.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    kept: Vec<Interval>,
    /// How many of those that are taken are joined into one that is kept, if more than one.
    joined: usize,
    open: Vec<Interval>,
}

impl Intervals {
    /// Takes the next one.
    pub fn push(&mut self, interval: Interval) {
        if self.open.last().is_some_and(|last| last.until < interval.from) {
            // Another pass: what lies between two passes was not looked at.
            self.close();
        }
        self.open.push(interval);
        if self.open.len() >= self.joined.max(1) {
            self.close();
        }
        if self.kept.len() == MOST_INTERVALS {
            let two = |two: &[Interval]| match two {
                [one, other] if one.until < other.from => two.to_vec(),
                more => join(more).into_iter().collect(),
            };
            self.kept = self.kept.chunks(2).flat_map(two).collect();
            self.joined = self.joined.max(1) * 2;
        }
    }

    /// All of them.
    pub fn finish(mut self) -> Vec<Interval> {
        self.close();
        self.kept
    }

    fn close(&mut self) {
        self.kept.extend(join(&self.open));
        self.open.clear();
    }
}

/// Intervals that follow each other, as one.
fn join(intervals: &[Interval]) -> Option<Interval> {
    let around: Vec<Surroundings> = intervals.iter().map(|interval| interval.around.clone()).collect();
    let around = joined(&around)?;
    Some(Interval { from: intervals.first()?.from, until: intervals.last()?.until, around })
}

/// The mean over passes, which are weighed by their time.
pub(crate) fn joined(passes: &[Surroundings]) -> Option<Surroundings> {
    let (first, rest) = passes.split_first()?;
    let mut all = first.clone();
    for pass in rest {
        let (was, is) = (all.time.as_seconds(), pass.time.as_seconds());
        let mean = |a: Ratio, b: Ratio| Ratio::new((a.get() * was + b.get() * is) / (was + is).max(1e-9));
        for here in &mut all.processors {
            let Some(there) = pass.processors.iter().find(|other| other.number == here.number) else { continue };
            *here = Processor {
                number: here.number,
                user: mean(here.user, there.user),
                system: mean(here.system, there.system),
                irq: mean(here.irq, there.irq),
                softirq: mean(here.softirq, there.softirq),
                iowait: mean(here.iowait, there.iowait),
                steal: mean(here.steal, there.steal),
            };
        }
        for one in &mut all.neighbours {
            one.processor = mean(one.processor, Ratio::ZERO);
        }
        for other in &pass.neighbours {
            let share = mean(Ratio::ZERO, other.processor);
            match all.neighbours.iter_mut().find(|one| one.id == other.id && one.name == other.name) {
                Some(one) => {
                    one.processor = Ratio::new(one.processor.get() + share.get());
                    (one.read, one.written) = (one.read + other.read, one.written + other.written);
                }
                None => all.neighbours.push(Neighbour { processor: share, ..other.clone() }),
            }
        }
        for disk in &mut all.disks {
            let Some(other) = pass.disks.iter().find(|other| other.name == disk.name) else { continue };
            for way in 0..2 {
                disk.requests[way] += other.requests[way];
                disk.moved[way] += other.moved[way];
                disk.merges[way] += other.merges[way];
            }
            disk.in_flight = (disk.in_flight * was + other.in_flight * is) / (was + is).max(1e-9);
            disk.busy = mean(disk.busy, other.busy);
        }
        all.pressure = all.pressure.zip(pass.pressure).map(|(a, b)| Pressure {
            processors: mean(a.processors, b.processors),
            io: mean(a.io, b.io),
            memory: mean(a.memory, b.memory),
        });
        all.memory = all.memory.take().zip(pass.memory.as_ref()).map(|(all, pass)| Memory {
            reclaimed: all.reclaimed + pass.reclaimed,
            reached: all.reached + pass.reached,
            ..all
        });
        all.clocks = all.clocks.zip(pass.clocks).map(|(a, b)| Clocks {
            mean: Frequency::per_second((a.mean.get() * was + b.mean.get() * is) / (was + is).max(1e-9)),
            most: b.most,
            slowed: a.slowed + b.slowed,
        });
        for other in &pass.interrupts {
            match all.interrupts.iter_mut().find(|one| one.name == other.name) {
                Some(one) => {
                    let there = |one: &Interrupt| one.share.get() * one.count as f64;
                    let at_its = if one.processor == other.processor { there(other) } else { 0.0 };
                    let (sum, count) = (there(one) + at_its, one.count + other.count);
                    (one.count, one.share) = (count, Ratio::new(sum / count.max(1) as f64));
                }
                None => all.interrupts.push(other.clone()),
            }
        }
        (all.own, all.withheld) = (mean(all.own, pass.own), mean(all.withheld, pass.withheld));
        all.time += pass.time;
    }
    all.neighbours.retain(|one| one.processor.get() >= LITTLE || (one.read + one.written).get() >= FEW_BYTES);
    all.neighbours.sort_by(|a, b| b.processor.get().total_cmp(&a.processor.get()));
    all.neighbours.truncate(NAMED);
    Some(all)
}

/// Adds what is known without two moments: limits of control groups, holes, and who goes through the page cache.
pub(crate) fn complete(
    around: &mut Surroundings,
    experiment: &Experiment,
    targets: &[Target],
    holes: &[(String, Ratio)],
) {
    let kernel = Kernel::running();
    let devices = devices(targets);
    for throttle in throttles(&kernel) {
        let stands = |device: &&Device| {
            host::topology::Target::find(&kernel, &device.path).is_ok_and(|target| throttle.holds_for(&target))
        };
        let held: Vec<String> = devices.iter().filter(stands).map(|device| device.name.clone()).collect();
        let (what, most) = match throttle.limit {
            Limit::ReadRate(rate) => (Throttled::BytesRead, rate.get()),
            Limit::ReadFrequency(rate) => (Throttled::Reads, rate.get()),
            Limit::WriteRate(rate) => (Throttled::BytesWritten, rate.get()),
            Limit::WriteFrequency(rate) => (Throttled::Writes, rate.get()),
        };
        if !held.is_empty() {
            around.throttles.push(Throttle { devices: held, what, most, said: throttle.to_string() });
        }
    }
    around.holes = holes.iter().map(|(device, share)| Hole { device: device.clone(), share: *share }).collect();
    let mode = |index: usize| experiment.devices.get(index).map_or(experiment.io.mode, |device| device.io.mode);
    let names = target::names(targets).into_iter().zip(targets).enumerate();
    let cached = names.filter(|(index, (_, target))| mode(*index) == Mode::Buffered && target.paths().next().is_some());
    let cached: Vec<(String, &Target)> = cached.map(|(_, named)| named).collect();
    if let Some(memory) = &mut around.memory {
        let sizes = cached.iter().flat_map(|(_, target)| target.paths()).filter_map(|path| size(path).ok());
        memory.wanted = sizes.sum();
        memory.installed = host::memory::installed(&kernel).unwrap_or(Bytes::ZERO);
        memory.limit = host::memory::allowance(&kernel)
            .map(|limit| MemoryLimit { most: limit.most, group: limit.group.display().to_string() });
    }
    around.cached = cached.into_iter().map(|(name, _)| name).collect();
}

/// The size of a file or a block device.
fn size(path: &Path) -> std::io::Result<Bytes> {
    File::open(path)?.seek(SeekFrom::End(0)).map(Bytes::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(seconds: u64, user: f64, programs: &[(&str, u32, f64, u64)], moved: u64) -> Surroundings {
        let processor = Processor {
            number: 0,
            user: Ratio::percent(user),
            system: Ratio::ZERO,
            irq: Ratio::ZERO,
            softirq: Ratio::ZERO,
            iowait: Ratio::ZERO,
            steal: Ratio::ZERO,
        };
        let neighbour = |(name, id, share, read): &(&str, u32, f64, u64)| Neighbour {
            name: (*name).to_owned(),
            id: *id,
            processor: Ratio::percent(*share),
            read: Bytes::new(*read),
            written: Bytes::ZERO,
        };
        let disk = Disk {
            name: "sda".to_owned(),
            devices: vec!["/dev/sda".to_owned()],
            is_raw: true,
            requests: [moved / 4096, 0],
            moved: [moved, 0],
            merges: [1, 0],
            in_flight: 2.0,
            busy: Ratio::ONE,
        };
        Surroundings {
            time: Duration::seconds(seconds),
            processors: vec![processor],
            neighbours: programs.iter().map(neighbour).collect(),
            disks: vec![disk],
            ..Surroundings::default()
        }
    }

    #[test]
    fn passes_are_weighed_by_their_time_and_programs_by_their_number() {
        assert_eq!(joined(&[]), None);
        let one = pass(1, 40.0, &[("hog", 7, 80.0, 0), ("idle", 8, 0.1, 5)], 4096);
        let two = pass(3, 80.0, &[("hog", 7, 40.0, 1 << 20), ("late", 9, 20.0, 0)], 8192);
        let all = joined(&[one, two]).unwrap();
        assert_eq!((all.time, all.disks[0].moved, all.disks[0].requests), (Duration::seconds(4), [12_288, 0], [3, 0]));
        assert!((all.processors[0].user.get() - 0.7).abs() < 1e-9, "{all:?}");
        let told: Vec<(&str, f64)> =
            all.neighbours.iter().map(|one| (one.name.as_str(), (one.processor.get() * 1000.0).round())).collect();
        assert_eq!(told, [("hog", 500.0), ("late", 150.0)]);
        assert_eq!(all.neighbours[0].read, Bytes::mib(1));
        assert_eq!((all.disks[0].merges, all.disks[0].in_flight), ([2, 0], 2.0));
    }

    #[test]
    fn a_long_run_keeps_longer_intervals_and_passes_stay_apart() {
        let mut intervals = Intervals::default();
        // Two passes of 300 s, an hour apart.
        for second in (0..300).chain(3600..3900) {
            let around = pass(1, 50.0, &[("hog", 7, 80.0, 0)], 4096);
            let [from, until] = [second, second + 1].map(Duration::seconds);
            intervals.push(Interval { from, until, around });
        }
        let kept = intervals.finish();
        assert!(kept.len() < MOST_INTERVALS, "{}", kept.len());
        let seconds: f64 = kept.iter().map(|one| (one.until - one.from).as_seconds()).sum();
        assert_eq!(seconds, 600.0, "nothing between the passes, and all of both");
        let moved: u64 = kept.iter().map(|one| one.around.disks[0].moved[0]).sum();
        assert_eq!(moved, 600 * 4096);
        assert!(kept.iter().all(|one| one.around.neighbours[0].name == "hog"));
    }
}
