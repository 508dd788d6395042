//! Memory for the lanes of one thread, registered with its ring, and the same for every pass.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use device::Buffer;
use units::Bytes;
use uring::Live;
use workload::Memory;

use crate::experiment::Experiment;

/// Buffers by size. What is asked for beyond them comes from the heap.
pub(crate) struct Pool {
    free: RefCell<HashMap<Bytes, Vec<Buffer>>>,
    /// Why the kernel did not take the memory, if it did not.
    pub refused: Option<String>,
}

/// Memory that is made ready between two looks at Ctrl-C: some ten milliseconds.
const PART: Bytes = Bytes::mib(64);

impl Pool {
    /// Memory for all lanes of the experiment on `devices`, or less if `stop` is set meanwhile.
    pub fn new(live: &Live, experiment: &Experiment, devices: &[usize], stop: &AtomicBool) -> Pool {
        let here: HashSet<usize> = devices.iter().copied().collect();
        let mut wanted: HashMap<Bytes, usize> = HashMap::new();
        // The requests of a trace have sizes of their own; what they need is taken as they come, and kept.
        for plan in experiment.streams.iter().filter(|plan| plan.script.is_none()) {
            let on = match &plan.on {
                Some(on) => on.iter().filter(|device| here.contains(device)).count(),
                None => devices.len(),
            };
            *wanted.entry(plan.stream.largest()).or_default() += on * plan.stream.lanes() as usize;
        }
        let mut refused = None;
        let mut free = HashMap::new();
        for (size, count) in wanted {
            let mut buffers = Vec::new();
            while buffers.len() < count && !stop.load(Relaxed) {
                let part = (count - buffers.len()).min((PART / size).max(1) as usize);
                let (some, registered) = live.buffers(part, size);
                refused = registered.err().map(|error| error.to_string()).or(refused);
                buffers.extend(some);
            }
            free.insert(size, buffers);
        }
        Pool { free: RefCell::new(free), refused }
    }
}

impl Memory for Pool {
    fn take(&self, size: Bytes) -> Buffer {
        let kept = self.free.borrow_mut().get_mut(&size).and_then(Vec::pop);
        kept.unwrap_or_else(|| Buffer::zeroed(size))
    }

    fn give_back(&self, buffer: Buffer) {
        self.free.borrow_mut().entry(buffer.len()).or_default().push(buffer);
    }
}
