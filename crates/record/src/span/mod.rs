//! Spans: where the time of a request went, of a modelled machine or, where the kernel is traced, of a real one.
//!
//! A request walks from part to part; each leaves a span: this request was in this part, in this phase, from here to
//! there. The analyzer's phase table, the timeline of the kernel, utilizations, the ladder and the picture in Perfetto
//! are views of the spans. A request's spans *tile* its time: the first starts when it does, each starts where the one
//! before ended, the last ends when it does. So they sum to its latency exactly, which [`SpanLog::check`] holds. Work
//! that overlaps with another part's is in the span of the part that the request is waiting for; the other part
//! accounts for it as busy time, not as the request's.
//!
//! Parts and phases are named once, when the machine is built; a span is 32 bytes of numbers. Switched off, keeping one
//! is a branch that is always taken the same way.

pub mod live;
mod table;
mod trace;

pub use table::SpanReader;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use units::{Bytes, Duration, Instant};

/// A part of the machine, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartName(pub(crate) u16);

/// A phase of a part's work, by number. Parts share names: `transfer` is one phase everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhaseName(pub(crate) u16);

impl PartName {
    /// Its number: numbers are given from 0 on.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl PhaseName {
    /// Its number: numbers are given from 0 on.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// One request in one part in one phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The number under which the request was sent; 0 for work that no request asked for.
    pub request: u64,
    /// When it began.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
    /// Where it was.
    pub part: PartName,
    /// What was done there.
    pub phase: PhaseName,
}

impl Span {
    /// How long it took.
    pub fn time(&self) -> Duration {
        self.end.since(self.start)
    }
}

/// What the parts of a machine keep their spans with. Clones keep into the same log; a machine is of one thread.
#[derive(Debug, Clone)]
pub struct Spans {
    log: Option<Rc<RefCell<SpanLog>>>,
}

impl Spans {
    /// Keeps nothing.
    pub fn off() -> Spans {
        Spans { log: None }
    }

    /// Keeps spans in at most this much memory; those beyond it are counted ([`SpanLog::lost`]).
    pub fn on(memory: Bytes) -> Spans {
        let limit = (memory / Bytes::new(size_of::<Span>() as u64)) as usize;
        Spans { log: Some(Rc::new(RefCell::new(SpanLog { limit, ..SpanLog::default() }))) }
    }

    /// True if spans are kept: then it is worth computing what only they need.
    pub fn are_on(&self) -> bool {
        self.log.is_some()
    }

    /// The number of a part's name. To be asked once, when the part is built.
    pub fn part(&self, name: &str) -> PartName {
        PartName(self.log.as_ref().map_or(0, |log| log.borrow_mut().names.parts.number(name)))
    }

    /// The number of a phase's name.
    pub fn phase(&self, name: &str) -> PhaseName {
        PhaseName(self.log.as_ref().map_or(0, |log| log.borrow_mut().names.phases.number(name)))
    }

    /// Keeps a span. Panics if it ends before it starts.
    #[inline]
    pub fn keep(&self, request: u64, part: PartName, phase: PhaseName, start: Instant, end: Instant) {
        if let Some(log) = &self.log {
            log.borrow_mut().push(Span { request, start, end, part, phase });
        }
    }

    /// Takes what was kept so far; names stay known. `None` if spans are off.
    pub fn take(&self) -> Option<SpanLog> {
        let mut log = self.log.as_ref()?.borrow_mut();
        let empty = SpanLog { limit: log.limit, names: log.names.clone(), ..SpanLog::default() };
        Some(std::mem::replace(&mut log, empty))
    }
}

/// The spans of a run, in the order in which they were kept.
#[derive(Debug, Clone, Default)]
pub struct SpanLog {
    spans: Vec<Span>,
    names: SpanNames,
    limit: usize,
    lost: u64,
}

/// What the parts and phases of spans are called.
#[derive(Debug, Clone, Default)]
pub struct SpanNames {
    parts: Names,
    phases: Names,
}

impl SpanNames {
    /// What a part is called.
    pub fn part(&self, part: PartName) -> &str {
        &self.parts.list[part.index()]
    }

    /// What a phase is called.
    pub fn phase(&self, phase: PhaseName) -> &str {
        &self.phases.list[phase.index()]
    }

    /// All parts, in the order of their numbers.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.parts.list.iter().map(String::as_str)
    }

    /// All phases, in the order of their numbers.
    pub fn phases(&self) -> impl Iterator<Item = &str> {
        self.phases.list.iter().map(String::as_str)
    }
}

impl SpanLog {
    fn push(&mut self, span: Span) {
        assert!(span.start <= span.end, "a span does not end before it starts");
        if self.spans.len() < self.limit {
            self.spans.push(span);
        } else {
            self.lost += 1;
        }
    }

    /// All of them.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The first `count` of them, with all names.
    #[must_use]
    pub fn first(&self, count: usize) -> SpanLog {
        let spans = self.spans[..count.min(self.spans.len())].to_vec();
        SpanLog { spans, names: self.names.clone(), limit: count, lost: 0 }
    }

    /// How many found no place in the memory granted.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// What a part is called.
    pub fn part(&self, part: PartName) -> &str {
        self.names.part(part)
    }

    /// What a phase is called.
    pub fn phase(&self, phase: PhaseName) -> &str {
        self.names.phase(phase)
    }

    /// What they are called.
    pub fn names(&self) -> &SpanNames {
        &self.names
    }

    /// Holds that the spans of each of these requests tile its time, and so sum to its latency to the last nanosecond.
    /// Each request is given by its number, its start and its end.
    pub fn check(&self, requests: impl IntoIterator<Item = (u64, Instant, Instant)>) -> Result<(), SpanError> {
        let mut sorted: Vec<&Span> = self.spans.iter().collect();
        sorted.sort_by_key(|span| (span.request, span.start, span.end));
        for (request, start, end) in requests {
            let first = sorted.partition_point(|span| span.request < request);
            let mut reached = start;
            for span in sorted[first..].iter().take_while(|span| span.request == request) {
                if span.start != reached || span.end > end {
                    let (part, phase) = (self.part(span.part).to_owned(), self.phase(span.phase).to_owned());
                    return Err(SpanError::Misplaced {
                        request,
                        part,
                        phase,
                        start: span.start,
                        end: span.end,
                        reached,
                        latest: end,
                    });
                }
                reached = span.end;
            }
            if reached != end {
                return Err(SpanError::Incomplete { request, reached, end });
            }
        }
        Ok(())
    }
}

/// How the spans of a request fail to tile its time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum SpanError {
    /// A gap before it, an overlap with the one before it, or an end behind the request's.
    #[error(
        "request {request}: the span '{part}: {phase}' from {} to {} ns does not start where the one before it ended, at {} ns, or ends after the request, at {} ns",
        start.as_nanos(), end.as_nanos(), reached.as_nanos(), latest.as_nanos()
    )]
    Misplaced {
        request: u64,
        part: String,
        phase: String,
        start: Instant,
        end: Instant,
        reached: Instant,
        latest: Instant,
    },
    /// The last span is missing, or all of them.
    #[error("request {request}: its spans reach to {} ns, the request to {} ns", reached.as_nanos(), end.as_nanos())]
    Incomplete { request: u64, reached: Instant, end: Instant },
}

/// Names and their numbers.
#[derive(Debug, Clone, Default)]
struct Names {
    list: Vec<String>,
    numbers: HashMap<String, u16>,
}

impl Names {
    fn number(&mut self, name: &str) -> u16 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u16::try_from(self.list.len()).expect("a machine has fewer than 65 thousand parts");
        self.list.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}
