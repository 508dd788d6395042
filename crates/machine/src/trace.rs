//! Where a request's time went.
//!
//! While a request walks through the machine, its [`Ledger`] notes which part spent each stretch of time on what. Stretches follow
//! each other without gap or overlap, so they sum to the request's latency to the nanosecond; this is asserted when the ledger
//! is closed. What goes on at the same time behind the request's back (a buffer draining while the next one fills) is in the
//! parts' busy times, not here.
//!
//! With tracing off, a ledger costs two comparisons and nothing is kept.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use units::{Duration, Instant};

/// A part of the machine, as spans name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartId(pub u16);

/// One stretch of a request's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Whose.
    pub request: u64,
    /// Which part spent it.
    pub part: PartId,
    /// What on.
    pub phase: &'static str,
    /// From.
    pub start: Instant,
    /// Up to.
    pub end: Instant,
}

impl Span {
    /// How long.
    pub fn length(&self) -> Duration {
        self.end.since(self.start)
    }
}

/// The spans of a machine; clones name the same ones.
#[derive(Clone, Default)]
pub struct Trace {
    inner: Rc<Inner>,
}

#[derive(Default)]
struct Inner {
    on: Cell<bool>,
    spans: RefCell<Vec<Span>>,
    parts: RefCell<Vec<String>>,
    requests: Cell<u64>,
}

impl Trace {
    /// Gives a part its number.
    pub fn part(&self, name: impl Into<String>) -> PartId {
        let mut parts = self.inner.parts.borrow_mut();
        parts.push(name.into());
        PartId((parts.len() - 1) as u16)
    }

    /// What a part is called.
    pub fn name(&self, part: PartId) -> String {
        self.inner.parts.borrow()[usize::from(part.0)].clone()
    }

    /// Whether spans are kept from now on.
    pub fn keep(&self, on: bool) {
        self.inner.on.set(on);
    }

    /// The spans kept so far; none are kept afterwards until new ones come.
    pub fn take(&self) -> Vec<Span> {
        std::mem::take(&mut self.inner.spans.borrow_mut())
    }

    /// Opens the ledger of a request that begins at `now`.
    pub fn open(&self, now: Instant) -> Ledger {
        let request = self.inner.requests.get();
        self.inner.requests.set(request + 1);
        let spans = self.inner.on.get().then(|| Vec::with_capacity(24));
        Ledger { trace: self.clone(), request, begun: now, at: now, spans }
    }
}

/// The account of one request.
pub struct Ledger {
    trace: Trace,
    request: u64,
    begun: Instant,
    at: Instant,
    spans: Option<Vec<Span>>,
}

impl Ledger {
    /// Up to where time is accounted for; when tracing is off, where the request began.
    pub fn at(&self) -> Instant {
        self.at
    }

    /// The time from where the account stands up to `until` was spent by `part` on `phase`.
    #[inline]
    pub fn until(&mut self, until: Instant, part: PartId, phase: &'static str) {
        let Some(spans) = &mut self.spans else { return };
        assert!(until >= self.at, "a request's spans follow each other: {phase} ends before it begins");
        if until > self.at {
            spans.push(Span { request: self.request, part, phase, start: self.at, end: until });
            self.at = until;
        }
    }

    /// The next `time` was spent by `part` on `phase`.
    #[inline]
    pub fn spend(&mut self, time: Duration, part: PartId, phase: &'static str) {
        if self.spans.is_some() {
            self.until(self.at + time, part, phase);
        }
    }

    /// Ends the account of a request that completed at `now`.
    ///
    /// # Panics
    /// If the spans do not sum to the latency: time was spent that nobody accounted for.
    pub fn close(self, now: Instant) {
        let Some(spans) = self.spans else { return };
        let sum: Duration = spans.iter().map(Span::length).sum();
        assert_eq!(sum, now.since(self.begun), "the spans of a request sum to its latency");
        self.trace.inner.spans.borrow_mut().extend_from_slice(&spans);
    }
}
