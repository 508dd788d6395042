//! Processor time while requests count: read from the kernel's accounts when counting starts and when it ends, in each
//! pass.

use host::Kernel;
use host::cpu::{Snapshot, Usage};
use units::{Duration, Instant, Ratio};
use workload::Control;

use analysis::surroundings::Surroundings;
use analysis::survey::Processors;

use crate::surroundings::{Around, Device, joined};

/// Reads the accounts at the right moments.
pub(crate) struct Accounts {
    kernel: Kernel,
    /// Counted time of a pass, if it is known beforehand.
    measure: Option<Duration>,
    /// The pass that was looked at last, by its beginning.
    pass: Option<Instant>,
    opened: Option<(Snapshot, Around)>,
    usages: Vec<Usage>,
    surroundings: Vec<Surroundings>,
    devices: Vec<Device>,
    /// The processors that the load may use; empty if all.
    allowed: Vec<u32>,
}

impl Accounts {
    /// For passes that count for `measure`, or until some limit is reached, on these devices and processors.
    pub fn new(measure: Option<Duration>, devices: Vec<Device>, allowed: Vec<u32>) -> Accounts {
        let (usages, surroundings) = (Vec::new(), Vec::new());
        Accounts {
            kernel: Kernel::running(),
            measure,
            pass: None,
            opened: None,
            usages,
            surroundings,
            devices,
            allowed,
        }
    }

    /// How long nothing need be read, `most` at the most.
    pub fn wait(&self, control: Option<&Control>, now: Instant, most: Duration) -> Duration {
        let Some(control) = control else { return most };
        let next = match (&self.opened, self.pass == Some(control.begin())) {
            (None, false) => Some(control.counts_from()),
            (Some(_), _) => self.closes(control),
            (None, true) => None,
        };
        next.map_or(most, |next| next.saturating_since(now).min(most).max(Duration::micros(100)))
    }

    /// Reads what is due. A machine that hides its accounts is measured without them.
    pub fn look(&mut self, control: Option<&Control>, now: Instant) {
        let Some(control) = control else { return };
        if self.pass != Some(control.begin()) && now >= control.counts_from() {
            self.pass = Some(control.begin());
            let around = Around::take(&self.kernel, &self.devices);
            self.opened = Snapshot::take(&self.kernel).ok().map(|snapshot| (snapshot, around));
        }
        if self.pass == Some(control.begin())
            && self.closes(control).is_some_and(|at| now >= at)
            && let Some((opened, around)) = self.opened.take()
            && let Ok(closed) = Snapshot::take(&self.kernel)
        {
            let usage = opened.until(&closed);
            self.surroundings.push(around.until_now(&self.kernel, &usage, &self.allowed));
            self.usages.push(usage);
        }
    }

    fn closes(&self, control: &Control) -> Option<Instant> {
        let planned = self.measure.map(|measure| control.counts_from() + measure);
        match (control.counted_until(), planned) {
            (Some(known), Some(planned)) => Some(known.min(planned)),
            (known, planned) => known.or(planned),
        }
    }

    /// The machine's processors, on the average of all passes.
    pub fn mean(&self) -> Option<Processors> {
        let n = self.usages.len() as f64;
        let mean = |of: &dyn Fn(&Usage) -> f64| Ratio::new(self.usages.iter().map(of).sum::<f64>() / n);
        let capacity = |usage: &Usage| usage.elapsed.as_seconds() * usage.cpus.len() as f64;
        let (capacity, taken) = self
            .usages
            .iter()
            .fold((0.0, 0.0), |(all, taken), usage| (all + capacity(usage), taken + usage.with_helpers().as_seconds()));
        // Threads of the kernel are accounted in ticks of 10 ms, of which a short pass may hold a part of one.
        let own = Ratio::new((taken / capacity.max(1e-9)).min(1.0));
        (!self.usages.is_empty()).then(|| Processors {
            user: mean(&|usage| usage.machine.user.get()),
            system: mean(&|usage| usage.machine.system.get()),
            iowait: mean(&|usage| usage.machine.iowait.get()),
            softirq: mean(&|usage| usage.machine.softirq.get() + usage.machine.irq.get()),
            own,
        })
    }

    /// What else the machine did, over all passes.
    pub fn surroundings(&self) -> Option<Surroundings> {
        joined(&self.surroundings)
    }

    /// Processor time of this process, in user mode and in the kernel, over all counted time.
    pub fn own(&self) -> [Duration; 2] {
        let sum = |of: fn(&Usage) -> Duration| self.usages.iter().map(of).sum();
        [sum(|usage| usage.process.user), sum(|usage| usage.process.system)]
    }

    /// Processor time of this process and of the kernel threads that worked for whoever, over all counted time.
    pub fn time(&self) -> (Duration, Duration) {
        let process = self.usages.iter().map(|usage| usage.process.time).sum();
        let kernel = self.usages.iter().flat_map(|usage| &usage.kernel_threads).map(|thread| thread.time).sum();
        (process, kernel)
    }
}
