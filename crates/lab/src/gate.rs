//! Where the threads of a run meet before each pass.

use std::sync::{Arc, Condvar, Mutex};

use workload::Control;

/// A barrier at which the last to arrive makes the pass for all.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Debug)]
struct State {
    threads: usize,
    arrived: usize,
    /// How often the gate has opened.
    passed: usize,
    control: Option<Arc<Control>>,
    closed: bool,
}

impl Gate {
    /// A gate for this many threads.
    pub fn new(threads: usize) -> Gate {
        let state = State { threads, arrived: 0, passed: 0, control: None, closed: false };
        Gate { state: Mutex::new(state), opened: Condvar::new() }
    }

    /// Waits until all threads are here; the last one calls `make`, which may say that there is no further pass. `None`
    /// then, and if the run is called off.
    pub fn pass(&self, make: impl FnOnce() -> Option<Control>) -> Option<Arc<Control>> {
        let mut state = self.lock();
        state.arrived += 1;
        let turn = state.passed;
        if state.arrived >= state.threads && !state.closed {
            // The beginning may have to be agreed upon with other hosts, and the foreman looks at the gate meanwhile.
            drop(state);
            let made = make();
            state = self.lock();
            match made {
                Some(control) if !state.closed => state.open(control),
                _ => state.closed = true,
            }
            self.opened.notify_all();
        }
        while state.passed == turn && !state.closed {
            state = self.opened.wait(state).expect("no panic under this lock");
        }
        if state.closed { None } else { state.control.clone() }
    }

    /// Calls the run off: nobody waits any more, nobody passes.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.opened.notify_all();
        if let Some(control) = &state.control {
            // Those who are in a pass come out of it, too.
            control.interrupt(control.begin());
        }
    }

    /// The pass that is on, or was last.
    pub fn control(&self) -> Option<Arc<Control>> {
        self.lock().control.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }
}

impl State {
    fn open(&mut self, control: Control) {
        self.control = Some(Arc::new(control));
        self.arrived = 0;
        self.passed += 1;
    }
}
