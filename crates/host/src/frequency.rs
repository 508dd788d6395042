//! The frequency of processors, and how often heat has lowered it.
//!
//! `scaling_cur_freq` of cpufreq is what the driver asked for or, where the processor counts cycles, what it had in the
//! last tick. `thermal_throttle` counts how often a core or its package was slowed for heat (x86 only). Virtual machines
//! mostly have neither: then nothing is known.

use units::Frequency;

use crate::kernel::{Kernel, number};

/// Some processors at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Clocks {
    /// The mean of their frequencies.
    pub mean: Frequency,
    /// The highest that any of them can have.
    pub most: Frequency,
    /// How often heat has slowed one of them since the machine started.
    pub slowed: u64,
}

impl Clocks {
    /// Those of some processors; `None` where the kernel does not tell.
    pub fn read(kernel: &Kernel, processors: &[u32]) -> Option<Clocks> {
        let at = |cpu: &u32, file: &str| number::<u64>(kernel.sys(format!("devices/system/cpu/cpu{cpu}/{file}")));
        // cpufreq counts in kHz.
        let now: Vec<u64> = processors.iter().filter_map(|cpu| at(cpu, "cpufreq/scaling_cur_freq")).collect();
        let most = processors.iter().filter_map(|cpu| at(cpu, "cpufreq/cpuinfo_max_freq")).max()?;
        let mean = now.iter().sum::<u64>() as f64 / now.len().max(1) as f64;
        let heat = |cpu: &u32| {
            let of = |file: &str| at(cpu, file).unwrap_or(0);
            of("thermal_throttle/core_throttle_count") + of("thermal_throttle/package_throttle_count")
        };
        (!now.is_empty()).then(|| Clocks {
            mean: Frequency::per_second(mean * 1e3),
            most: Frequency::per_second(most as f64 * 1e3),
            slowed: processors.iter().map(heat).sum(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_are_those_of_the_processors_that_were_asked_for() {
        let root = tempfile::tempdir().unwrap();
        let kernel = Kernel::recorded(root.path());
        for (cpu, now) in [(0, 1_000_000u64), (1, 3_000_000), (2, 500_000)] {
            let folder = root.path().join(format!("sys/devices/system/cpu/cpu{cpu}"));
            std::fs::create_dir_all(folder.join("cpufreq")).unwrap();
            std::fs::create_dir_all(folder.join("thermal_throttle")).unwrap();
            std::fs::write(folder.join("cpufreq/scaling_cur_freq"), format!("{now}\n")).unwrap();
            std::fs::write(folder.join("cpufreq/cpuinfo_max_freq"), "3500000\n").unwrap();
            std::fs::write(folder.join("thermal_throttle/core_throttle_count"), format!("{cpu}\n")).unwrap();
        }
        let clocks = Clocks::read(&kernel, &[0, 1]).unwrap();
        let ghz = |frequency: Frequency| frequency.get() / 1e9;
        assert_eq!((ghz(clocks.mean), ghz(clocks.most), clocks.slowed), (2.0, 3.5, 1));
        assert_eq!(Clocks::read(&kernel, &[7]), None);
    }
}
