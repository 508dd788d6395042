//! Processor time and surroundings while requests count: read from the kernel's accounts when counting starts and when
//! it ends, in each pass, and each second between.

use host::Kernel;
use host::cpu::{Snapshot, Usage, thread_time};
use host::interrupts::Interrupts;
use units::{Duration, Instant, Ratio};
use workload::Control;

use analysis::surroundings::{Interval, Surroundings};
use analysis::survey::Processors;

use crate::surroundings::{Around, Device, Intervals, interrupts, joined};

/// How long an interval is at least.
const INTERVAL: Duration = Duration::seconds(1);
/// It is also at least this many times the processor time that looking takes, so that looking costs half a percent.
const COSTS: u64 = 200;

/// The accounts at one moment.
struct Look {
    at: Instant,
    snapshot: Snapshot,
    around: Around,
}

/// A pass that counts.
struct Opened {
    begin: Look,
    interrupts: Interrupts,
    /// The last look, if there was one since.
    last: Option<Look>,
    /// When the next is due.
    next: Instant,
}

/// Reads the accounts at the right moments.
pub(crate) struct Accounts {
    kernel: Kernel,
    /// Counted time of a pass, if it is known beforehand.
    measure: Option<Duration>,
    /// The pass that was looked at last, by its beginning.
    pass: Option<Instant>,
    opened: Option<Opened>,
    usages: Vec<Usage>,
    surroundings: Vec<Surroundings>,
    intervals: Intervals,
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
            intervals: Intervals::default(),
            devices,
            allowed,
        }
    }

    /// How long nothing need be read, `most` at the most.
    pub fn wait(&self, control: Option<&Control>, now: Instant, most: Duration) -> Duration {
        let Some(control) = control else { return most };
        let next = match (&self.opened, self.pass == Some(control.begin())) {
            (None, false) => Some(control.counts_from()),
            (Some(opened), _) => Some(self.closes(control).map_or(opened.next, |closes| closes.min(opened.next))),
            (None, true) => None,
        };
        next.map_or(most, |next| next.saturating_since(now).min(most).max(Duration::micros(100)))
    }

    /// Reads what is due. A machine that hides its accounts is measured without them.
    pub fn look(&mut self, control: Option<&Control>, now: Instant) {
        let Some(control) = control else { return };
        if self.pass != Some(control.begin()) && now >= control.counts_from() {
            self.pass = Some(control.begin());
            self.open(now);
        }
        if self.pass != Some(control.begin()) {
            return;
        }
        if self.closes(control).is_some_and(|at| now >= at) {
            self.close(now);
        } else if self.opened.as_ref().is_some_and(|opened| now >= opened.next) {
            self.sample(now);
        }
    }

    fn open(&mut self, now: Instant) {
        let from = thread_time();
        let interrupts = Interrupts::read(&self.kernel);
        let around = Around::take(&self.kernel, &self.devices, &self.allowed);
        let Ok(snapshot) = Snapshot::take(&self.kernel) else { return };
        let begin = Look { at: now, snapshot, around };
        self.opened = Some(Opened { begin, interrupts, last: None, next: due(now, from) });
    }

    /// Ends an interval and begins another.
    fn sample(&mut self, now: Instant) {
        let (from, Some(opened)) = (thread_time(), &mut self.opened) else { return };
        let around = opened.begin.around.again(&self.kernel, &self.allowed);
        let Ok(snapshot) = Snapshot::take(&self.kernel) else { return };
        let look = Look { at: now, snapshot, around };
        let before = opened.last.as_ref().unwrap_or(&opened.begin);
        self.intervals.push(interval(before, &look, &self.allowed));
        (opened.last, opened.next) = (Some(look), due(now, from));
    }

    fn close(&mut self, now: Instant) {
        let Some(opened) = self.opened.take() else { return };
        let around = opened.begin.around.again(&self.kernel, &self.allowed);
        let Ok(snapshot) = Snapshot::take(&self.kernel) else { return };
        let closed = Look { at: now, snapshot, around };
        let before = opened.last.as_ref().unwrap_or(&opened.begin);
        // The last one may be short, and ticks of 10 ms say little of it then.
        if closed.at.saturating_since(before.at) * 2 >= INTERVAL {
            self.intervals.push(interval(before, &closed, &self.allowed));
        }
        let usage = opened.begin.snapshot.until(&closed.snapshot);
        let around = opened.begin.around.until(&closed.around, &usage, &self.allowed);
        let interrupts = interrupts(opened.interrupts.until(&Interrupts::read(&self.kernel)));
        self.surroundings.push(Surroundings { interrupts, ..around });
        self.usages.push(usage);
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

    /// What else the machine did, over all passes. Takes the intervals along.
    pub fn surroundings(&mut self) -> Option<Surroundings> {
        let intervals = std::mem::take(&mut self.intervals).finish();
        Some(Surroundings { intervals, ..joined(&self.surroundings)? })
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

/// When the next look is due, after one at `now`; `from` is the processor time of this thread when it began.
fn due(now: Instant, from: Duration) -> Instant {
    now + INTERVAL.max(thread_time().saturating_sub(from) * COSTS)
}

/// What lies between two looks.
fn interval(before: &Look, after: &Look, allowed: &[u32]) -> Interval {
    let usage = before.snapshot.until(&after.snapshot);
    let around = before.around.until(&after.around, &usage, allowed);
    let around = joined(&[around]).expect("one is enough");
    Interval { from: before.at.since(Instant::START), until: after.at.since(Instant::START), around }
}
