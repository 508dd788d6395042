//! Limits on what one connection may have under way.
//!
//! A request takes its share before its payload is received, and gives it back when its reply has been sent. While there is none left no
//! further request is read, and the client's sends wait in the kernel: a client that does not read its replies stops only itself.

use std::cell::Cell;
use std::rc::Rc;

use runtime::Signal;
use units::Bytes;

/// What one connection may have under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests.
    pub requests: u32,
    /// Memory for their payloads. One request is always let in, however large.
    pub memory: Bytes,
}

impl Default for Limits {
    /// 256 requests and 64 MiB: twice the largest payload.
    fn default() -> Limits {
        Limits { requests: 256, memory: Bytes::mib(64) }
    }
}

/// What is left; clones name the same one.
#[derive(Clone)]
pub struct Budget {
    state: Rc<State>,
}

struct State {
    limits: Limits,
    requests: Cell<u32>,
    memory: Cell<Bytes>,
    changed: Signal,
}

/// A part of the budget, given back when it is dropped.
pub struct Share {
    state: Rc<State>,
    memory: Bytes,
}

impl Budget {
    /// All of it.
    pub fn new(limits: Limits) -> Budget {
        let (requests, memory) = (Cell::new(0), Cell::new(Bytes::ZERO));
        Budget { state: Rc::new(State { limits, requests, memory, changed: Signal::default() }) }
    }

    /// Waits for a share for one request with this much memory.
    pub async fn take(&self, memory: Bytes) -> Share {
        let state = &self.state;
        let fits = || {
            let (requests, taken) = (state.requests.get(), state.memory.get());
            requests == 0 || (requests < state.limits.requests && taken + memory <= state.limits.memory)
        };
        if !fits() {
            state.changed.wait_until(fits).await;
        }
        state.requests.set(state.requests.get() + 1);
        state.memory.set(state.memory.get() + memory);
        Share { state: Rc::clone(state), memory }
    }

    /// Waits until nothing is under way.
    pub async fn all_back(&self) {
        self.state.changed.wait_until(|| self.state.requests.get() == 0).await;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        assert!(self.state.requests.get() > 0, "a share is given back once");
        self.state.requests.set(self.state.requests.get() - 1);
        self.state.memory.set(self.state.memory.get() - self.memory);
        self.state.changed.notify();
    }
}
