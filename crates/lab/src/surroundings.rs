//! What else the machine does while requests count: the kernel's accounts at two moments, and what lies between; see
//! [`analysis::surroundings`].
//!
//! Looking takes some 20 us for each program of the machine, so it is done when counting starts and when it ends and
//! not between.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use analysis::surroundings::{
    Disk, Hole, Memory, MemoryLimit, Neighbour, Pressure, Processor, Surroundings, Throttle, Throttled,
};
use host::Kernel;
use host::cpu::Usage;
use host::disks::Disks;
use host::neighbours::Neighbours;
use host::throttle::{Limit, throttles, withheld};
use units::{Bytes, Duration, Ratio};
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

/// The accounts at one moment.
pub(crate) struct Around {
    at: Instant,
    neighbours: Neighbours,
    /// By device: the block devices below it.
    disks: Vec<(Device, Disks)>,
    pressure: Option<host::pressure::Pressure>,
    memory: Option<host::memory::Counted>,
    withheld: Duration,
}

impl Around {
    /// Reads them, of the machine and of what the devices stand on.
    pub fn take(kernel: &Kernel, devices: &[Device]) -> Around {
        Around {
            at: Instant::now(),
            neighbours: Neighbours::now(kernel),
            disks: devices.iter().map(|device| (device.clone(), Disks::below(kernel, [&*device.path]))).collect(),
            pressure: host::pressure::Pressure::read(kernel),
            memory: host::memory::Counted::read(kernel),
            withheld: withheld(kernel),
        }
    }

    /// What has happened since, beside what the processors did.
    pub fn until_now(&self, kernel: &Kernel, usage: &Usage, allowed: &[u32]) -> Surroundings {
        let elapsed = self.at.elapsed();
        let share = |time: Duration| Ratio::new((time.as_seconds() / elapsed.as_secs_f64().max(1e-9)).max(0.0));
        let since = self.pressure.zip(host::pressure::Pressure::read(kernel)).map(|(then, now)| now.since(&then));
        let counted = self.memory.zip(host::memory::Counted::read(kernel)).map(|(then, now)| now.since(&then));
        let neighbours = self.neighbours.until(&Neighbours::now(kernel)).into_iter().map(|one| Neighbour {
            processor: share(one.processor),
            name: one.name,
            id: one.id,
            read: one.read,
            written: one.written,
        });
        let mut disks: Vec<Disk> = Vec::new();
        for (device, counters) in &self.disks {
            // The first is the nearest; what follows are members of an array or a volume.
            let Some(disk) = counters.since_then().into_iter().next() else { continue };
            match disks.iter_mut().find(|known| known.name == disk.name) {
                Some(known) => known.devices.push(device.name.clone()),
                None => disks.push(Disk {
                    is_raw: device.is_raw,
                    name: disk.name,
                    devices: vec![device.name.clone()],
                    requests: disk.requests,
                    moved: disk.bytes.map(units::Bytes::get),
                    busy: Ratio::new(disk.busy.as_seconds() / disk.elapsed.as_seconds().max(1e-9)),
                }),
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
            withheld: share(withheld(kernel).saturating_sub(self.withheld)),
            disks,
            ..Surroundings::default()
        }
    }
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
            }
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
    }
}
