//! The care that a measurement takes of itself, as xdd does: memory locked, real-time priority, processors of its own.
//!
//! Each precaution may be refused (by a limit, a missing capability, a container). That is no reason to fail: the run
//! goes on, and its result says what was refused, why, and what would help, so that nobody reads a number as if the
//! care had been taken.

use std::io;

use rustix::mm::{MlockAllFlags, mlockall, munlockall};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, CpuSet, capabilities, sched_setaffinity};
use serde::Serialize;
use thread_priority::unix::{
    RealtimeThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};
use units::Bytes;

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Precautions {
    /// Keeps all memory of the process in memory, that of later too.
    pub lock_memory: bool,
    /// Lets this thread, and those that it starts from now on, run before all ordinary ones, at this priority (1 to 99)
    /// of `SCHED_FIFO`.
    pub real_time: Option<u8>,
    /// Keeps this thread, and those that it starts from now on, on these processors; on all where none is named.
    pub cpus: Vec<u32>,
}

/// What became of one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Precaution {
    /// What was asked for.
    pub asked: String,
    /// It was taken.
    pub taken: bool,
    /// What the reader must know: why it was refused and what would help, or what it does not cover.
    pub remark: Option<String>,
}

impl Precautions {
    /// Takes what was asked for, for this thread (memory: for the process), and says what became of each.
    pub fn take(&self) -> Vec<Precaution> {
        let mut taken = Vec::new();
        if self.lock_memory {
            taken.push(lock_memory());
        }
        if !self.cpus.is_empty() {
            taken.push(stay_on(&self.cpus));
        }
        // Last: what a real-time thread does meanwhile, others wait for.
        if let Some(priority) = self.real_time {
            taken.push(real_time(priority));
        }
        taken
    }
}

/// Ends the locking of memory: what runs next may be meant to run without.
pub fn unlock_memory() {
    // It fails only for a flag that the kernel does not know, and there is none.
    let _ = munlockall();
}

/// As a result says it.
impl std::fmt::Display for Precaution {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.asked)?;
        match (&self.remark, self.taken) {
            (None, true) => Ok(()),
            (Some(remark), true) => write!(f, ", {remark}"),
            (remark, false) => write!(f, ": refused, {}", remark.as_deref().unwrap_or("without a reason")),
        }
    }
}

impl Precaution {
    fn new(asked: &str, outcome: Result<Option<String>, String>) -> Precaution {
        let asked = asked.to_owned();
        match outcome {
            Ok(remark) => Precaution { asked, taken: true, remark },
            Err(reason) => Precaution { asked, taken: false, remark: Some(reason) },
        }
    }
}

fn may(capability: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(capability))
}

fn lock_memory() -> Precaution {
    let limit = getrlimit(Resource::Memlock).current.map(Bytes::new);
    // With a limit on what may be locked, locking the future turns some later allocation into the end of the program.
    let unlimited = limit.is_none() || may(CapabilitySet::IPC_LOCK);
    let flags = if unlimited { MlockAllFlags::CURRENT | MlockAllFlags::FUTURE } else { MlockAllFlags::CURRENT };
    let outcome = match mlockall(flags) {
        Ok(()) if unlimited => Ok(None),
        Ok(()) => Ok(Some(format!(
            "only what was allocated by then: the limit on locked memory is {}; raise it (ulimit -l unlimited) or run as root",
            limit.unwrap_or_default()
        ))),
        Err(error) => Err(format!(
            "{}; the limit on locked memory is {}: raise it (ulimit -l unlimited) or run as root",
            io::Error::from(error),
            limit.map_or("unlimited".to_owned(), |limit| limit.to_string())
        )),
    };
    Precaution::new("memory locked", outcome)
}

fn real_time(priority: u8) -> Precaution {
    let asked = format!("real-time priority {priority}");
    let outcome = match ThreadPriorityValue::try_from(priority) {
        Ok(value) if (1..=99).contains(&priority) => {
            let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
            set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Crossplatform(value), fifo)
                .map(|()| None)
                .map_err(|error| match error {
                    thread_priority::Error::OS(code) => format!(
                        "{}; it takes CAP_SYS_NICE (root), or a limit of at least {priority} (ulimit -r)",
                        io::Error::from_raw_os_error(code)
                    ),
                    other => other.to_string(),
                })
        }
        _ => Err("real-time priorities are 1 (the lowest) to 99".to_owned()),
    };
    Precaution::new(&asked, outcome)
}

fn stay_on(cpus: &[u32]) -> Precaution {
    let list = cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let asked = format!("processors {list}");
    if let Some(unknown) = cpus.iter().find(|cpu| **cpu as usize >= CpuSet::MAX_CPU) {
        return Precaution::new(&asked, Err(format!("there is no processor {unknown}")));
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu as usize));
    // The kernel takes a list of which it knows only some, and leaves the others out.
    let partly = || {
        let got = rustix::thread::sched_getaffinity(None).ok()?;
        let missing: Vec<String> =
            cpus.iter().filter(|cpu| !got.is_set(**cpu as usize)).map(ToString::to_string).collect();
        (!missing.is_empty())
            .then(|| format!("without {}, which this process may not use or which is not online", missing.join(", ")))
    };
    let outcome = sched_setaffinity(None, &set).map(|()| partly()).map_err(|error| {
        let allowed = rustix::thread::sched_getaffinity(None).map(|set| set.count()).unwrap_or(0);
        let error = io::Error::from(error);
        format!(
            "{error}; this process may run on {allowed} processors: see /sys/devices/system/cpu/online and its cpuset"
        )
    });
    Precaution::new(&asked, outcome)
}
