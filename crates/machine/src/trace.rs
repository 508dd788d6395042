//! Where a request's time went.
//!
//! While a request walks through the machine, its [`Ledger`] notes which part spent each stretch of time on what.
//! Stretches follow each other without gap or overlap, each one a [`record::Span`], so they sum to the request's
//! latency to the nanosecond; this is asserted when the ledger is closed. What goes on at the same time behind the
//! request's back (a buffer draining while the next one fills) is in the parts' busy times, not here.
//!
//! Parts are named when the machine is built. Phases are words in the code of the parts; a word's number is remembered
//! under the word's address, so that a span costs one comparison instead of the hash of a text. With spans off, a
//! ledger costs two comparisons and nothing is kept.

use std::cell::Cell;
use std::rc::Rc;

use record::{PartName, PhaseName, SpanLog, Spans};
use units::{Duration, Instant};

/// Words whose numbers are remembered: more than a machine has phases, so that two rarely share a place.
const WORDS: usize = 128;

/// A phase's word and its number.
type Word = Cell<Option<(&'static str, PhaseName)>>;

/// The spans of a machine; clones name the same ones.
#[derive(Clone)]
pub struct Trace {
    inner: Rc<Inner>,
}

struct Inner {
    spans: Spans,
    /// The number of the last request.
    requests: Cell<u64>,
    words: [Word; WORDS],
}

impl Default for Trace {
    fn default() -> Trace {
        Trace::new(Spans::off())
    }
}

impl Trace {
    /// Keeps spans there. Several machines may keep theirs together, one after the other.
    pub fn new(spans: Spans) -> Trace {
        let words = std::array::from_fn(|_| Cell::new(None));
        Trace { inner: Rc::new(Inner { spans, requests: Cell::new(0), words }) }
    }

    /// Gives a part its number.
    pub fn part(&self, name: &str) -> PartName {
        self.inner.spans.part(name)
    }

    /// The spans kept so far; nothing if they are off.
    pub fn take(&self) -> Option<SpanLog> {
        self.inner.spans.take()
    }

    /// How many requests have begun.
    pub fn requests(&self) -> u64 {
        self.inner.requests.get()
    }

    /// The number of the next request, from 1 on: for who keeps rows of requests, and wants to find their spans.
    pub fn number(&self) -> u64 {
        let request = self.inner.requests.get() + 1;
        self.inner.requests.set(request);
        request
    }

    /// Opens the ledger of a request that begins at `now`, under the next number.
    pub fn open(&self, now: Instant) -> Ledger {
        self.open_as(0, now)
    }

    /// As [`Trace::open`], under a number that was given to it; 0 if it has none yet.
    pub fn open_as(&self, number: u64, now: Instant) -> Ledger {
        self.ledger(if number == 0 { self.number() } else { number }, now)
    }

    /// Opens a ledger for what no request asked for: what a process does between two calls.
    pub fn aside(&self, now: Instant) -> Ledger {
        self.ledger(0, now)
    }

    fn ledger(&self, request: u64, now: Instant) -> Ledger {
        Ledger { trace: self.clone(), on: self.inner.spans.are_on(), request, begun: now, at: now, sum: Duration::ZERO }
    }

    fn phase(&self, word: &'static str) -> PhaseName {
        let place = &self.inner.words[(word.as_ptr().addr() >> 2) % WORDS];
        match place.get() {
            Some((known, number)) if std::ptr::eq(known, word) => number,
            _ => {
                let number = self.inner.spans.phase(word);
                place.set(Some((word, number)));
                number
            }
        }
    }
}

/// The account of one request.
pub struct Ledger {
    trace: Trace,
    on: bool,
    request: u64,
    begun: Instant,
    at: Instant,
    sum: Duration,
}

impl Ledger {
    /// The number of the request; 0 for what no request asked for.
    pub fn request(&self) -> u64 {
        self.request
    }
    /// Up to where time is accounted for; with spans off, where the request began.
    pub fn at(&self) -> Instant {
        self.at
    }

    /// The time from where the account stands up to `until` was spent by `part` on `phase`.
    #[inline]
    pub fn until(&mut self, until: Instant, part: PartName, phase: &'static str) {
        if !self.on {
            return;
        }
        assert!(until >= self.at, "a request's spans follow each other: {phase} ends before it begins");
        if until > self.at {
            self.trace.inner.spans.keep(self.request, part, self.trace.phase(phase), self.at, until);
            self.sum += until.since(self.at);
            self.at = until;
        }
    }

    /// The next `time` was spent by `part` on `phase`.
    #[inline]
    pub fn spend(&mut self, time: Duration, part: PartName, phase: &'static str) {
        if self.on {
            self.until(self.at + time, part, phase);
        }
    }

    /// Ends the account of a request that completed at `now`.
    ///
    /// # Panics
    /// If the spans do not sum to the latency: time was spent that nobody accounted for.
    pub fn close(self, now: Instant) {
        assert!(!self.on || self.sum == now.since(self.begun), "the spans of a request sum to its latency");
    }
}
