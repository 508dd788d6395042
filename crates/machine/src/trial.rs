//! A trial: processes that issue requests on a machine, and what came of it.
//!
//! Each process has one request outstanding and issues the next as soon as it can, as the generators of the studies did. The first
//! requests are not counted. What is measured is the difference between two looks at the machine, and the spans of the
//! requests that began in between.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use rand::RngExt;
use runtime::{Random, Runtime};
use units::{Bytes, Duration, Frequency, Instant, Rate};

use crate::os::{Process, command};
use crate::part::PartError;
use crate::raid5::Raid5;
use crate::scsi::protocol::Passage;
use crate::scsi::target::BLOCK;
use crate::system::{Kit, Load, Machine};
use crate::trace::Span;

/// How requests enter the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Issue {
    /// Through the no-copy call.
    NoCopy,
    /// As raw reads and writes of a process.
    Raw,
    /// As requests to a level 5 array of all the disks, in stripe units of this.
    Raid(Bytes),
}

/// Where requests go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// One after the other, from the middle of the disk on.
    Sequential,
    /// Anywhere on the disk, aligned to the request.
    Random,
}

/// What is tried.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Trial {
    /// Which system.
    pub system: String,
    /// Changes to its parts.
    pub settings: Vec<(String, String)>,
    /// Which disks are used: string and place on it.
    pub disks: Vec<(usize, usize)>,
    /// The way in.
    pub issue: Issue,
    /// Writes instead of reads.
    pub write: bool,
    /// Where.
    pub pattern: Pattern,
    /// How much at a time.
    pub request: Bytes,
    /// Processes for each disk; for an array, processes in all.
    pub processes: u32,
    /// Sequential requests in flight per process beyond the one: asynchronous issue.
    pub ahead: u32,
    /// Requests that count, all processes together.
    pub requests: u64,
    /// Requests of each process that do not count.
    pub warm_up: u64,
    /// Decides everything random.
    pub seed: u64,
    /// Keep spans.
    pub spans: bool,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Requests that counted.
    pub requests: u64,
    /// How long they took all together.
    pub elapsed: Duration,
    /// How much they moved.
    pub bytes: Bytes,
    /// What each part did meanwhile.
    pub load: Load,
    /// Time in each phase of each part, summed over the requests that began while they were counted; and how many those were.
    pub phases: BTreeMap<(String, &'static str), Duration>,
    /// See [`Outcome::phases`].
    pub traced: u64,
    /// On the bus, summed.
    pub passages: Vec<Passage>,
    /// Completed requests of each disk.
    pub completions: Vec<u64>,
    /// Which disk completed, in order.
    pub order: Vec<u16>,
    /// The most requests that were at boards at one time.
    pub most_outstanding: u64,
    /// Spans of the last requests, for those who look closer.
    pub spans: Vec<Span>,
}

impl Outcome {
    /// Bytes a second.
    pub fn bandwidth(&self) -> Rate {
        self.bytes.per(self.elapsed)
    }
    /// Requests a second.
    pub fn rate(&self) -> Frequency {
        Frequency::per_second(self.requests as f64 / self.elapsed.as_seconds())
    }
    /// Mean time of a traced request in all phases of the parts and phases chosen.
    pub fn mean(&self, choose: impl Fn(&str, &str) -> bool) -> Duration {
        let sum: Duration =
            self.phases.iter().filter(|((part, phase), _)| choose(part, phase)).map(|(_, time)| *time).sum();
        if self.traced == 0 { Duration::ZERO } else { sum / self.traced }
    }
    /// What share of the time the idle loop did not run.
    pub fn host_utilization(&self) -> f64 {
        1.0 - self.load.idle_loop.as_seconds() / self.elapsed.as_seconds()
    }
    /// What share of the time a string was not free.
    pub fn string_utilization(&self, string: usize) -> f64 {
        // A tenure's fixed steps are booked when it decides on them, a few microseconds before they are over.
        (self.load.strings[string].iter().copied().sum::<Duration>().as_seconds() / self.elapsed.as_seconds()).min(1.0)
    }
}

impl Load {
    /// The work since an earlier look.
    pub fn since(&self, earlier: &Load) -> Load {
        let pairs = |a: &[(Duration, Duration)], b: &[(Duration, Duration)]| {
            a.iter().zip(b).map(|(a, b)| (a.0 - b.0, a.1 - b.1)).collect()
        };
        Load {
            at: self.at - earlier.at,
            cpu: self.cpu.saturating_sub(earlier.cpu),
            idle_loop: self.idle_loop.saturating_sub(earlier.idle_loop),
            memory: self.memory.saturating_sub(earlier.memory),
            backplane: self.backplane.saturating_sub(earlier.backplane),
            adapters: pairs(&self.adapters, &earlier.adapters),
            strings: self
                .strings
                .iter()
                .zip(&earlier.strings)
                .map(|(a, b)| a.iter().zip(b).map(|(a, b)| a.saturating_sub(*b)).collect())
                .collect(),
            time_outs: self.time_outs.iter().zip(&earlier.time_outs).map(|(a, b)| a - b).collect(),
            dispatches: self.dispatches - earlier.dispatches,
            switches: self.switches - earlier.switches,
        }
    }
}

/// What the processes share while they run.
struct Desk {
    trial: Trial,
    warming: Cell<u64>,
    counted: Cell<u64>,
    begun: Cell<Option<Instant>>,
    ended: Cell<Option<Instant>>,
    loads: RefCell<(Load, Load)>,
    passages: RefCell<Vec<Passage>>,
    completions: RefCell<Vec<u64>>,
    order: RefCell<Vec<u16>>,
    done: runtime::Signal,
}

impl Desk {
    /// A request of a process has completed.
    fn completed(&self, machine: &Machine, nth: u64, disk: usize, passage: Option<Passage>) {
        if nth + 1 == self.trial.warm_up.max(1) {
            self.warming.set(self.warming.get() - 1);
            if self.warming.get() == 0 {
                machine.trace.keep(self.trial.spans);
                self.begun.set(Some(machine.runtime.now()));
                self.loads.borrow_mut().0 = machine.load();
                return;
            }
        }
        if self.begun.get().is_none() || self.ended.get().is_some() {
            return;
        }
        self.counted.set(self.counted.get() + 1);
        self.completions.borrow_mut()[disk] += 1;
        self.order.borrow_mut().push(disk as u16);
        if let Some(passage) = passage {
            self.passages.borrow_mut().push(passage);
        }
        if self.counted.get() == self.trial.requests {
            self.ended.set(Some(machine.runtime.now()));
            self.loads.borrow_mut().1 = machine.load();
            self.done.notify();
        }
    }
}

/// Runs a trial on a fresh machine.
pub fn run(trial: &Trial) -> Result<Outcome, PartError> {
    let mut kit = Kit::load(&trial.system)?;
    for (key, value) in &trial.settings {
        kit.set(key, value)?;
    }
    run_on(&kit, trial)
}

/// Runs a trial on a fresh machine of a kit that is already at hand; the trial's own settings are not looked at.
pub fn run_on(kit: &Kit, trial: &Trial) -> Result<Outcome, PartError> {
    let runtime = Runtime::simulated();
    let machine = Rc::new(kit.build(&runtime, trial.seed)?);
    let streams = match trial.issue {
        Issue::Raid(_) => trial.processes as u64,
        _ => u64::from(trial.processes) * trial.disks.len() as u64 * (u64::from(trial.ahead) + 1),
    };
    let desk = Rc::new(Desk {
        trial: trial.clone(),
        warming: Cell::new(streams),
        counted: Cell::new(0),
        begun: Cell::new(None),
        ended: Cell::new(None),
        loads: RefCell::default(),
        passages: RefCell::default(),
        completions: RefCell::new(vec![0; trial.disks.len()]),
        order: RefCell::default(),
        done: runtime::Signal::default(),
    });
    match trial.issue {
        Issue::Raid(stripe) => {
            let members = trial
                .disks
                .iter()
                .map(|(string, disk)| Rc::clone(&machine.strings[*string].units[*disk].unit))
                .collect();
            let raid = Raid5::new(&runtime, &machine.trace, &machine.os, members, stripe);
            for number in 0..trial.processes {
                runtime.spawn_detached(array_process(
                    Rc::clone(&machine),
                    Rc::clone(&desk),
                    Rc::clone(&raid),
                    stripe,
                    number,
                ));
            }
        }
        _ => {
            for (disk, _) in trial.disks.iter().enumerate() {
                for number in 0..trial.processes {
                    let next = Rc::new(Cell::new(0));
                    for _ in 0..=trial.ahead {
                        runtime.spawn_detached(disk_process(
                            Rc::clone(&machine),
                            Rc::clone(&desk),
                            disk,
                            number,
                            Rc::clone(&next),
                        ));
                    }
                }
            }
        }
    }
    runtime.block_on(desk.done.wait_until(|| desk.ended.get().is_some()));
    runtime.clear();
    let spans = machine.trace.take();
    let mut phases = BTreeMap::new();
    let mut seen = std::collections::HashSet::new();
    let mut begins: BTreeMap<(u16, &'static str), Duration> = BTreeMap::new();
    for span in &spans {
        *begins.entry((span.part.0, span.phase)).or_default() += span.length();
        if span.phase != "between-calls" {
            seen.insert(span.request);
        }
    }
    for ((part, phase), time) in begins {
        *phases.entry((machine.trace.name(crate::trace::PartId(part)), phase)).or_default() += time;
    }
    let loads = desk.loads.borrow();
    let (passages, completions, order) = (desk.passages.take(), desk.completions.take(), desk.order.take());
    Ok(Outcome {
        requests: desk.counted.get(),
        elapsed: desk.ended.get().expect("it ended").since(desk.begun.get().expect("it began")),
        bytes: trial.request * desk.counted.get(),
        load: loads.1.since(&loads.0),
        phases,
        traced: seen.len() as u64,
        passages,
        completions,
        order,
        most_outstanding: machine.os.most_outstanding(),
        spans,
    })
}

/// One process on one disk.
async fn disk_process(machine: Rc<Machine>, desk: Rc<Desk>, disk: usize, number: u32, next: Rc<Cell<u64>>) {
    let trial = &desk.trial;
    let (string, place) = trial.disks[disk];
    let slot = &machine.strings[string].units[place];
    let size = slot.size().round_down(trial.request.max(BLOCK));
    let mut random = Random::named(trial.seed, &format!("process {string} {place} {number}"));
    let process = Process::default();
    // Sequential processes on one disk stay out of each other's way.
    let start = (size / 2 + size / 16 * u64::from(number)).round_down(trial.request.max(Bytes::kib(4)));
    for nth in 0.. {
        let offset = match trial.pattern {
            Pattern::Sequential => {
                let at = start + trial.request * next.replace(next.get() + 1);
                at % size.round_down(trial.request)
            }
            Pattern::Random => trial.request * random.random_range(0..size / trial.request),
        };
        let order = command(trial.write, offset, trial.request);
        let mut ledger = machine.trace.open(machine.runtime.now());
        let passage = match trial.issue {
            Issue::NoCopy => machine.os.no_copy(&slot.unit, order, &mut ledger).await,
            _ => machine.os.raw(&process, &slot.unit, order, &mut ledger).await,
        };
        ledger.close(machine.runtime.now());
        desk.completed(&machine, nth, disk, Some(passage));
        if trial.issue == Issue::Raw {
            let mut ledger = machine.trace.open(machine.runtime.now());
            machine.os.between(&process, &mut ledger).await;
            ledger.close(machine.runtime.now());
        }
    }
}

/// One process on the array.
async fn array_process(machine: Rc<Machine>, desk: Rc<Desk>, raid: Rc<Raid5>, stripe: Bytes, number: u32) {
    let trial = &desk.trial;
    let mut random = Random::named(trial.seed, &format!("array process {number}"));
    let process = Process::default();
    let (string, place) = trial.disks[0];
    let rows = machine.strings[string].units[place].size() / stripe;
    let units = rows * (trial.disks.len() as u64 - 1);
    for nth in 0.. {
        // Requests are aligned on stripe unit boundaries.
        let address = stripe * random.random_range(0..units);
        let mut ledger = machine.trace.open(machine.runtime.now());
        if trial.write {
            raid.write(&process, address, trial.request, &mut ledger).await;
        } else {
            raid.read(&process, address, trial.request, &mut ledger).await;
        }
        ledger.close(machine.runtime.now());
        desk.completed(&machine, nth, 0, None);
        let mut ledger = machine.trace.open(machine.runtime.now());
        machine.os.between(&process, &mut ledger).await;
        ledger.close(machine.runtime.now());
    }
}
