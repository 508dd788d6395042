//! What a reader of a run must know of the machine it ran on.
//!
//! Two runs can be compared if what differs between them is known. So this is written to every run folder: what ran,
//! where and when; the processor and how it is clocked; what the kernel was told; and the limits that the process was
//! put under, which are the causes of surprising numbers that are hardest to see from inside. What a machine does not
//! tell is absent, never guessed.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::clock::Clock;
use crate::kernel::{Kernel, field, names, text};
use crate::limit::limits;
pub use crate::processor::{Memory, Processor};

/// The environment of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Environment {
    /// When it was looked at, in UTC, as RFC 3339.
    pub date: String,
    /// The program.
    pub arraylab: Build,
    /// The name of the machine, or a hash of it.
    pub host: String,
    /// The maker and model of the machine, as its firmware tells them.
    pub machine: Option<String>,
    /// Why this looks like a virtual machine or a container; empty if it does not.
    pub virtualization: Vec<String>,
    /// The kernel, its release and version, and the architecture.
    pub kernel: String,
    /// Those of the kernel's boot parameters that change how fast it is.
    pub boot: Vec<String>,
    /// The processor.
    pub processor: Processor,
    /// The memory.
    pub memory: Memory,
    /// The clock of time stamps.
    pub clock: Clock,
    /// Flaws of the processor, with what the kernel does about them; those that do not affect it are left out.
    pub flaws: BTreeMap<String, String>,
    /// Limits from control groups and of the process, by the name of the file or limit.
    pub limits: BTreeMap<String, String>,
    /// Settings of the kernel that matter to storage, by their sysctl name.
    pub settings: BTreeMap<String, String>,
    /// Tasks that ran or waited, on the average of the last 1, 5 and 15 minutes.
    pub load: Option<String>,
}

/// Which arraylab it was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Build {
    /// Its version.
    pub version: String,
    /// The commit it was built from, if that is known.
    pub commit: Option<String>,
}

/// How the machine is called in a run folder, which may be given to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// By its name.
    Name,
    /// By a hash: the same for all runs of one machine. It hides the name from a reader, not from one who guesses it.
    Hash,
}

/// The boot parameters that change how fast the kernel is; others may name disks, hosts or keys and are nobody's
/// business.
const BOOT_PARAMETERS: [&str; 26] = [
    "mitigations",
    "nosmt",
    "isolcpus",
    "nohz",
    "nohz_full",
    "rcu_nocbs",
    "irqaffinity",
    "iommu",
    "intel_iommu",
    "amd_iommu",
    "iommu.passthrough",
    "iommu.strict",
    "idle",
    "processor.max_cstate",
    "intel_idle.max_cstate",
    "intel_pstate",
    "amd_pstate",
    "pcie_aspm",
    "pcie_aspm.policy",
    "transparent_hugepage",
    "hugepages",
    "preempt",
    "threadirqs",
    "clocksource",
    "tsc",
    "elevator",
];

/// Prefixes of further ones: parameters of the drivers that requests pass.
const BOOT_PREFIXES: [&str; 8] =
    ["nvme", "scsi_mod.", "libata.", "mpt3sas.", "megaraid_sas.", "virtio_blk.", "loop.", "raid"];

/// The settings of the kernel that matter to storage.
const SETTINGS: [&str; 20] = [
    "dev.raid.speed_limit_max",
    "dev.raid.speed_limit_min",
    "fs.aio-max-nr",
    "kernel.io_uring_disabled",
    "kernel.nmi_watchdog",
    "kernel.numa_balancing",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_rt_runtime_us",
    "kernel.timer_migration",
    "vm.dirty_background_bytes",
    "vm.dirty_background_ratio",
    "vm.dirty_bytes",
    "vm.dirty_expire_centisecs",
    "vm.dirty_ratio",
    "vm.dirty_writeback_centisecs",
    "vm.nr_hugepages",
    "vm.overcommit_memory",
    "vm.swappiness",
    "vm.vfs_cache_pressure",
    "vm.zone_reclaim_mode",
];

impl Environment {
    /// Looks around.
    pub fn read(kernel: &Kernel, arraylab: Build, naming: Naming) -> Environment {
        let cpuinfo = text(kernel.proc("cpuinfo")).unwrap_or_default();
        let setting = |name: &&str| {
            // In the path each dot is a directory.
            let value = text(kernel.proc("sys").join(name.replace('.', "/")))?;
            Some(((*name).to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
        };
        Environment {
            date: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
            arraylab,
            host: host_name(kernel, naming),
            machine: machine(kernel),
            virtualization: virtualization(kernel, &cpuinfo),
            kernel: kernel_name(kernel),
            boot: boot_parameters(&text(kernel.proc("cmdline")).unwrap_or_default()),
            processor: Processor::read(kernel, &cpuinfo),
            memory: Memory::read(kernel),
            clock: Clock::measure(kernel),
            flaws: flaws(kernel),
            limits: limits(kernel),
            settings: SETTINGS.iter().filter_map(setting).collect(),
            load: text(kernel.proc("loadavg")).map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")),
        }
    }
}

fn kernel_name(kernel: &Kernel) -> String {
    // Not /proc/version, which also names who built it and where.
    let part = |name: &str| text(kernel.proc("sys/kernel").join(name));
    let parts = [part("ostype"), part("osrelease"), part("version"), Some(std::env::consts::ARCH.to_owned())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// What the machine is called.
pub fn name(kernel: &Kernel) -> String {
    host_name(kernel, Naming::Name)
}

/// What tells one start of a kernel from all others; empty where the kernel hides it.
pub fn boot_id(kernel: &Kernel) -> String {
    text(kernel.proc("sys/kernel/random/boot_id")).unwrap_or_default()
}

fn host_name(kernel: &Kernel, naming: Naming) -> String {
    let name = text(kernel.proc("sys/kernel/hostname")).unwrap_or_else(|| "unnamed".into());
    match naming {
        Naming::Name => name,
        Naming::Hash => {
            // FNV-1a: the hash of a name must be the same in every version, which the standard library's hasher does
            // not promise.
            let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            format!("host-{:016x}", name.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
        }
    }
}

fn machine(kernel: &Kernel) -> Option<String> {
    let part = |name: &str| text(kernel.sys("class/dmi/id").join(name));
    let parts: Vec<String> = [part("sys_vendor"), part("product_name")].into_iter().flatten().collect();
    // Boards without DMI have a device tree.
    if parts.is_empty() { text(kernel.proc("device-tree/model")) } else { Some(parts.join(" ")) }
}

fn virtualization(kernel: &Kernel, cpuinfo: &str) -> Vec<String> {
    let mut signs = Vec::new();
    if field(cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")) {
        signs.push("the processor says that it runs under a hypervisor".to_owned());
    }
    if let Some(kind) = text(kernel.sys("hypervisor/type")) {
        signs.push(format!("hypervisor {kind}"));
    }
    let groups = text(kernel.proc("self/cgroup")).unwrap_or_default();
    if let Some(manager) =
        ["docker", "kubepods", "lxc", "libpod", "machine.slice"].iter().find(|name| groups.contains(**name))
    {
        signs.push(format!("a control group of {manager}"));
    }
    signs
}

fn boot_parameters(line: &str) -> Vec<String> {
    let matters = |word: &&str| {
        let name = word.split('=').next().unwrap_or_default();
        BOOT_PARAMETERS.contains(&name) || BOOT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    line.split_whitespace().filter(matters).map(str::to_owned).collect()
}

fn flaws(kernel: &Kernel) -> BTreeMap<String, String> {
    let directory = kernel.sys("devices/system/cpu/vulnerabilities");
    let affected = |name: String| {
        let state = text(directory.join(&name))?;
        (state != "Not affected").then_some((name, state))
    };
    names(&directory).into_iter().filter_map(affected).collect()
}
