//! The processors and the memory of the machine.

use serde::Serialize;
use units::{Bytes, Frequency};

use crate::block::chosen;
use crate::kernel::{Kernel, field, flag, names, number, text};

/// The processors of the machine.
#[derive(Debug, Clone, Serialize)]
pub struct Processor {
    /// The model.
    pub model: Option<String>,
    /// Those online, as the kernel lists them: `0-7`.
    pub online: Option<String>,
    /// How many those are.
    pub count: usize,
    /// Several of them may be threads of one core.
    pub threads_share_cores: bool,
    /// Memory nodes, as the kernel lists them.
    pub numa_nodes: Option<String>,
    /// The frequency governors in use.
    pub governors: Vec<String>,
    /// The driver that sets the frequency.
    pub frequency_driver: Option<String>,
    /// The highest frequency that the driver knows.
    pub highest_frequency: Option<Frequency>,
    /// It may run faster than that for a while.
    pub boost: Option<bool>,
}

/// The memory of the machine.
#[derive(Debug, Clone, Serialize)]
pub struct Memory {
    /// All that the kernel has.
    pub total: Option<Bytes>,
    /// What programs can have without swapping.
    pub available: Option<Bytes>,
    /// Swap space.
    pub swap: Option<Bytes>,
    /// Of that in use.
    pub swapped: Option<Bytes>,
    /// When pages are made huge without being asked: `always`, `madvise`, `never`.
    pub huge_pages: Option<String>,
}

impl Processor {
    /// Reads it from sysfs and the text of `/proc/cpuinfo`.
    pub(crate) fn read(kernel: &Kernel, cpuinfo: &str) -> Processor {
        let cpus = kernel.sys("devices/system/cpu");
        let every = every(kernel);
        let scaling = |cpu: &String, name: &str| text(cpus.join(cpu).join("cpufreq").join(name));
        let mut governors: Vec<String> = every.iter().filter_map(|cpu| scaling(cpu, "scaling_governor")).collect();
        governors.sort();
        governors.dedup();
        let highest = every.iter().filter_map(|cpu| scaling(cpu, "cpuinfo_max_freq")?.parse::<u32>().ok()).max();
        // Intel's driver has a switch that says the opposite.
        let no_turbo = number::<u8>(cpus.join("intel_pstate/no_turbo"));
        let is_processor = |line: &&str| line.split(':').next().is_some_and(|key| key.trim() == "processor");
        Processor {
            // Arm names the parts of its model by number only.
            model: field(cpuinfo, "model name").or_else(|| field(cpuinfo, "CPU part")).map(str::to_owned),
            online: text(cpus.join("online")),
            count: cpuinfo.lines().filter(is_processor).count(),
            threads_share_cores: flag(cpus.join("smt/active")),
            numa_nodes: text(kernel.sys("devices/system/node/online")),
            governors,
            frequency_driver: every.first().and_then(|cpu| scaling(cpu, "scaling_driver")),
            highest_frequency: highest.map(|khz| Frequency::per_second(f64::from(khz) * 1e3)),
            boost: number::<u8>(cpus.join("cpufreq/boost")).map(|on| on == 1).or(no_turbo.map(|off| off == 0)),
        }
    }
}

/// The processors of a memory node; nothing if there is no such node.
pub fn of_node(kernel: &Kernel, node: u32) -> Option<Vec<u32>> {
    let list = text(kernel.sys(format!("devices/system/node/node{node}/cpulist")))?;
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.parse().ok()?..=to.parse().ok()?)
    };
    Some(list.split(',').filter_map(range).flatten().collect())
}

/// How many memory nodes there are; one where the kernel does not say.
pub fn nodes(kernel: &Kernel) -> usize {
    let is_node = |name: &String| name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok());
    names(kernel.sys("devices/system/node")).iter().filter(|name| is_node(name)).count().max(1)
}

/// The processors that the kernel knows, online or not, by their names.
fn every(kernel: &Kernel) -> Vec<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_cpu = |name: &String| name.strip_prefix("cpu").is_some_and(is_number);
    names(kernel.sys("devices/system/cpu")).into_iter().filter(is_cpu).collect()
}

/// How many processors there are, online or not; as `getconf _NPROCESSORS_CONF` counts them.
pub fn configured(kernel: &Kernel) -> usize {
    every(kernel).len().max(1)
}

/// The numbers of the processors on which this thread may run; empty if the kernel does not say.
pub fn allowed() -> Vec<u32> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect()
}

/// The size of a page of memory.
pub fn page() -> Bytes {
    Bytes::new(rustix::param::page_size() as u64)
}

impl Memory {
    /// Reads it from `/proc/meminfo`.
    pub fn read(kernel: &Kernel) -> Memory {
        let table = text(kernel.proc("meminfo")).unwrap_or_default();
        // "kB" there means 1024 bytes (proc_meminfo(5)).
        let amount = |name: &str| field(&table, name)?.strip_suffix(" kB")?.parse().ok().map(Bytes::kib);
        let (swap, free) = (amount("SwapTotal"), amount("SwapFree"));
        Memory {
            total: amount("MemTotal"),
            available: amount("MemAvailable"),
            swap,
            swapped: swap.zip(free).map(|(swap, free)| swap.saturating_sub(free)),
            huge_pages: text(kernel.sys("kernel/mm/transparent_hugepage/enabled")).map(|list| chosen(&list)),
        }
    }
}
