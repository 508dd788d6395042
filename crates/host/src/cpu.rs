//! What the processors did between two moments, and who had them do it.
//!
//! Three views, since none of them alone tells what an I/O costs:
//!
//! - **The machine** ([`Shares`], from `/proc/stat`): every tick (10 ms) of every CPU, by what it was used for.
//!   Interrupts and softirqs, where the block layer completes requests, are booked here and to nobody else.
//! - **The process** ([`Process`]): all its threads, those that have ended too, and among them the workers that
//!   io_uring makes for requests that would block (`iou-wrk-*`) or to poll a ring (`iou-sqp-*`). They are threads of
//!   the process; `getrusage` of the submitting thread, which fio prints, leaves them out.
//! - **The kernel's own threads** ([`Usage::kernel_threads`]): work that the kernel does for the process without
//!   booking it there: workqueues (`kworker`: loop devices, dm-crypt, unplugging by kblockd), md's `md0_raid5`, the
//!   journal of ext4 (`jbd2`), writeback, `kswapd`, `ksoftirqd`. On a machine with nothing else to do it is this
//!   process that they serve; which process they serve, the kernel does not say. What a hypervisor does for a virtual
//!   disk is in none of the three.
//!
//! A CPU that waits for I/O (`iowait`) is idle; the kernel books the wait to the CPU where the waiting task last ran,
//! so it shrinks when another task uses that CPU. It is shown, and counted as not busy.

use std::io;

use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::Serialize;
use units::{Duration, Instant, Ratio};

use crate::kernel::Kernel;
use crate::task::{Task, since, tick};

/// The counters at one moment. Two of them make a [`Usage`].
///
/// Taking one reads a file or two per task of the machine: 6 ms of CPU time with 108 processes, so it belongs before
/// and after a run, not into it. [`Process::time`] leaves it out.
#[derive(Debug, Clone)]
pub struct Snapshot {
    began: Mark,
    ended: Mark,
    machine: Ticks,
    cpus: Vec<(u32, Ticks)>,
    process: Task,
    threads: Vec<Task>,
    kernel_threads: Vec<Task>,
}

/// The time, and the CPU time of the process up to it: when the snapshot was begun, and when it was done.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Instant,
    used: Duration,
}

/// What happened between two snapshots.
#[derive(Debug, Clone, Serialize)]
pub struct Usage {
    /// The time between them.
    pub elapsed: Duration,
    /// All CPUs together.
    pub machine: Shares,
    /// Each CPU that was online at both.
    pub cpus: Vec<Cpu>,
    /// The process.
    pub process: Process,
    /// Threads of the kernel that used CPU time, the busiest first.
    pub kernel_threads: Vec<Thread>,
}

/// One CPU.
#[derive(Debug, Clone, Serialize)]
pub struct Cpu {
    /// Its number.
    pub cpu: u32,
    /// What it did.
    #[serde(flatten)]
    pub shares: Shares,
}

/// How CPU time was divided. The shares are disjoint and add up to the whole.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Shares {
    /// Programs, at any priority.
    pub user: Ratio,
    /// The kernel on behalf of programs, and its own threads.
    pub system: Ratio,
    /// Idle, with a task of this CPU waiting for I/O.
    pub iowait: Ratio,
    /// Interrupt handlers.
    pub irq: Ratio,
    /// Deferred interrupt work: completions of the block layer, network, timers.
    pub softirq: Ratio,
    /// The hypervisor ran something else while this CPU wanted to run.
    pub steal: Ratio,
    /// Virtual machines that run on this one.
    pub guest: Ratio,
    /// Idle.
    pub idle: Ratio,
}

/// The CPU time of a process.
#[derive(Debug, Clone, Serialize)]
pub struct Process {
    /// All its threads, io_uring's workers and threads that have ended included. To the nanosecond for this process, to
    /// 10 ms for others.
    pub time: Duration,
    /// Of that in user mode, to 10 ms.
    pub user: Duration,
    /// Of that in the kernel, to 10 ms.
    pub system: Duration,
    /// The time as a share of one CPU; above one if several were used.
    pub share: Ratio,
    /// Workers and pollers of io_uring that were alive at the second snapshot. One that found nothing to do for 5 s has
    /// ended.
    pub ring_workers: Duration,
    /// The threads that were alive at the second snapshot, the busiest first. One near 100 % is a limit by itself.
    pub threads: Vec<Thread>,
}

/// The CPU time of a thread.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Thread {
    /// The name it gave itself.
    pub name: String,
    /// CPU time.
    pub time: Duration,
    /// The time as a share of one CPU.
    pub share: Ratio,
}

impl Snapshot {
    /// The counters of the machine and of this process.
    pub fn take(kernel: &Kernel) -> io::Result<Snapshot> {
        // This clock adds up the threads of the process in nanoseconds, where /proc rounds to ticks.
        let mark = || Mark { at: now(), used: duration(clock_gettime(ClockId::ProcessCPUTime)) };
        let began = mark();
        let snapshot = Snapshot::read(kernel, "self")?;
        Ok(Snapshot { began, ended: mark(), ..snapshot })
    }

    /// The counters of the machine and of process `id`, such as a child of this one.
    pub fn of(kernel: &Kernel, id: u32) -> io::Result<Snapshot> {
        Snapshot::read(kernel, &id.to_string())
    }

    fn read(kernel: &Kernel, process: &str) -> io::Result<Snapshot> {
        let stat = std::fs::read_to_string(kernel.proc("stat"))?;
        let malformed = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let line = |name: &str| stat.lines().find_map(|line| Ticks::parse(line.strip_prefix(name)?));
        let machine = line("cpu ").ok_or_else(|| malformed("/proc/stat has no line of all CPUs"))?;
        let cpu = |line: &str| {
            let (number, rest) = line.strip_prefix("cpu")?.split_once(' ')?;
            Some((number.parse().ok()?, Ticks::parse(rest)?))
        };
        let directory = kernel.proc(process);
        let task = Task::read(&directory).ok_or_else(|| malformed("the process has no readable stat in /proc"))?;
        let mark = Mark { at: now(), used: task.user + task.system };
        Ok(Snapshot {
            began: mark,
            ended: mark,
            machine,
            cpus: stat.lines().filter_map(cpu).collect(),
            process: task,
            threads: Task::all(&directory.join("task")),
            kernel_threads: Task::all(&kernel.proc("")).into_iter().filter(|task| task.is_kernel).collect(),
        })
    }

    /// What happened from this snapshot to a `later` one of the same process.
    pub fn until(&self, later: &Snapshot) -> Usage {
        assert!(self.process.is(&later.process), "two snapshots of one process");
        let elapsed = later.began.at.since(self.ended.at);
        let cpu = |(number, after): &(u32, Ticks)| {
            let (_, before) = self.cpus.iter().find(|(other, _)| other == number)?;
            Some(Cpu { cpu: *number, shares: before.until(after) })
        };
        let ring_workers = since(&self.threads, &later.threads).filter(|(task, _)| task.serves_a_ring());
        let time = later.began.used.saturating_sub(self.ended.used);
        Usage {
            elapsed,
            machine: self.machine.until(&later.machine),
            cpus: later.cpus.iter().filter_map(cpu).collect(),
            process: Process {
                time,
                user: later.process.user.saturating_sub(self.process.user),
                system: later.process.system.saturating_sub(self.process.system),
                share: share(time, elapsed),
                ring_workers: ring_workers.map(|(_, time)| time).sum(),
                threads: busiest(&self.threads, &later.threads, elapsed),
            },
            kernel_threads: busiest(&self.kernel_threads, &later.kernel_threads, elapsed),
        }
    }
}

/// Processor time of the calling thread so far, in the program and in the kernel on its behalf, by the thread's own
/// clock.
pub fn thread_time() -> Duration {
    duration(rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime))
}

/// The number of the processor on which the caller runs. The kernel tells it without a system call.
pub fn current() -> u16 {
    u16::try_from(rustix::thread::sched_getcpu()).unwrap_or(u16::MAX)
}

impl Usage {
    /// The CPU time of the process and of the kernel's threads: what the work cost, if the machine did nothing else.
    /// Interrupts and softirqs that ran on top of other tasks are in [`Usage::machine`] only.
    pub fn with_helpers(&self) -> Duration {
        self.process.time + self.kernel_threads.iter().map(|thread| thread.time).sum()
    }
}

impl Shares {
    /// The share of the time in which the CPU ran something of this machine.
    pub fn busy(&self) -> Ratio {
        Ratio::new([self.user, self.system, self.irq, self.softirq, self.guest].iter().map(|share| share.get()).sum())
    }
}

fn now() -> Instant {
    Instant::START + duration(clock_gettime(ClockId::Monotonic))
}

fn duration(time: Timespec) -> Duration {
    Duration::seconds(time.tv_sec.cast_unsigned()) + Duration::nanos(time.tv_nsec.cast_unsigned())
}

fn share(time: Duration, elapsed: Duration) -> Ratio {
    if elapsed.is_zero() { Ratio::ZERO } else { Ratio::new(time.as_seconds() / elapsed.as_seconds()) }
}

fn busiest(before: &[Task], after: &[Task], elapsed: Duration) -> Vec<Thread> {
    let mut threads: Vec<Thread> = since(before, after)
        .filter(|(_, time)| !time.is_zero())
        .map(|(task, time)| Thread { name: task.name.clone(), time, share: share(time, elapsed) })
        .collect();
    threads.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.name.cmp(&b.name)));
    threads
}

/// The counters of one CPU, in the order of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal, guest,
/// guest at low priority. User time contains guest time, and nice contains guest time at low priority.
#[derive(Debug, Clone, Copy, Default)]
struct Ticks([Duration; 10]);

impl Ticks {
    fn parse(numbers: &str) -> Option<Ticks> {
        let mut ticks = Ticks::default();
        let mut numbers = numbers.split_whitespace();
        for (i, counter) in ticks.0.iter_mut().enumerate() {
            match numbers.next() {
                Some(number) => *counter = tick() * number.parse::<u64>().ok()?,
                // Old kernels count less; the first four have always been there.
                None if i >= 4 => break,
                None => return None,
            }
        }
        Some(ticks)
    }

    fn until(&self, later: &Ticks) -> Shares {
        // Idle and iowait are estimates that may go back (proc_stat(5)): no time, then.
        let used: Vec<Duration> = self.0.iter().zip(&later.0).map(|(a, b)| b.saturating_sub(*a)).collect();
        let &[user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice] = used.as_slice() else {
            unreachable!("there are ten counters");
        };
        let guest = guest + guest_nice;
        let user = (user + nice).saturating_sub(guest);
        let total = user + system + idle + iowait + irq + softirq + steal + guest;
        let share = |time: Duration| share(time, total);
        Shares {
            user: share(user),
            system: share(system),
            iowait: share(iowait),
            irq: share(irq),
            softirq: share(softirq),
            steal: share(steal),
            guest: share(guest),
            idle: share(idle),
        }
    }
}
