//! A search for the deepest queue that keeps to a latency: fio's `latency_target`.
//!
//! The depth begins at 1. When a window is over in which a large enough share of requests kept to the target, it is
//! doubled, or once a depth has failed, halved toward that one; when too few did, it goes halfway back to the last one
//! that was good. With a share of all requests the first that is late ends the window. Before a shallower depth nothing
//! is to be under way any more: what is, was asked for at the old one. When a good window leaves the depth as it is, it
//! is found; one more window at it is what counts, and ends the stream, unless it is to go on searching.
//!
//! These are the steps of fio 3.33 (`lat_target_check` and its neighbours), its corners included: at depth 1 a window
//! that fails is not begun anew, and a depth below the least that was good counts that one down.

use units::{Duration, Instant};

/// What is searched for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// The latency that requests are to keep to.
    pub target: Duration,
    /// How long a depth is tried.
    pub window: Duration,
    /// How many of them are to, in percent; above zero.
    pub percent: f64,
    /// The depth is adjusted as long as the stream lasts.
    pub goes_on: bool,
}

/// How far a search has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Searched {
    /// The depth that is tried, or was found.
    pub depth: u32,
    /// Since when only requests of the depth that was found were made.
    pub from: Option<Instant>,
}

/// What follows from a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The load goes on.
    On,
    /// The depth is found and its window over.
    Found,
    /// Even one at a time is too late.
    Late,
}

/// A search while it goes on.
#[derive(Debug)]
pub(crate) struct Seeking {
    rule: Search,
    most: u32,
    depth: u32,
    low: u32,
    high: u32,
    since: Instant,
    requests: u64,
    late: u64,
    stable: u32,
    last: bool,
    under_way: u32,
    /// Nothing is asked for until nothing is under way.
    quiet: bool,
    from: Option<Instant>,
}

impl Seeking {
    /// Of a stream that may have `most` requests under way and begins at `begin`.
    pub fn new(rule: Search, most: u32, begin: Instant) -> Seeking {
        Seeking {
            rule,
            most,
            depth: 1,
            low: 1,
            high: most,
            since: begin,
            requests: 0,
            late: 0,
            stable: 0,
            last: false,
            under_way: 0,
            quiet: false,
            from: None,
        }
    }

    /// Takes a place in the queue, if there is one.
    pub fn take(&mut self) -> bool {
        let free = !self.quiet && self.under_way < self.depth;
        self.under_way += u32::from(free);
        free
    }

    /// Gives a place back, at `now`.
    pub fn give_back(&mut self, now: Instant) {
        assert!(self.under_way > 0, "a place that is given back was taken");
        self.under_way -= 1;
        if self.quiet && self.under_way == 0 {
            self.quiet = false;
            self.begin(now);
            if self.last && self.from.is_none() {
                self.from = Some(now);
            }
        }
    }

    /// Where it is.
    pub fn searched(&self) -> Searched {
        Searched { depth: self.depth, from: self.from }
    }

    fn begin(&mut self, now: Instant) {
        (self.since, self.requests, self.late) = (now, 0, 0);
    }

    /// Judges a request that has completed at `now`.
    pub fn completed(&mut self, now: Instant, took: Duration) -> Step {
        if self.quiet {
            return Step::On;
        }
        self.requests += 1;
        if took > self.rule.target {
            match self.rule.percent >= 100.0 {
                true if self.depth == 1 => return Step::Late,
                true => return self.shallower(),
                false => self.late += 1,
            }
        }
        if now.saturating_since(self.since) < self.rule.window {
            return Step::On;
        }
        let good = (self.requests - self.late) as f64 / self.requests as f64 * 100.0;
        if good >= self.rule.percent { self.deeper(now) } else { self.shallower() }
    }

    fn shallower(&mut self) -> Step {
        if self.depth > 1 {
            self.high = self.depth;
            self.low -= u32::from(self.depth == self.low);
            self.depth = ((self.depth + self.low) / 2).max(1);
            (self.stable, self.quiet) = (0, true);
        }
        Step::On
    }

    fn deeper(&mut self, now: Instant) -> Step {
        let before = self.depth;
        self.low = before;
        if before + 1 == self.high {
            // Three good windows beside one that failed once: it is tried again.
            self.stable += 1;
            if self.stable >= 3 {
                (self.high, self.stable) = (self.high + 1, 0);
            }
        }
        let next = if self.high != self.most { (before + self.high) / 2 } else { before * 2 };
        self.depth = next.min(self.most);
        if !self.rule.goes_on && self.depth == before {
            if self.last {
                return Step::Found;
            }
            (self.last, self.quiet) = (true, true);
            return Step::On;
        }
        self.begin(now);
        Step::On
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The depths that a search tries at a device whose requests take a millisecond for each that is under way, window
    /// by window, and how it ends.
    fn tried(percent: f64, target: u64, most: u32) -> (Vec<u32>, Step) {
        let rule = Search { target: Duration::millis(target), window: Duration::millis(100), percent, goes_on: false };
        let mut now = Instant::START;
        let mut seeking = Seeking::new(rule, most, now);
        let (mut depths, mut step) = (vec![1], Step::On);
        while step == Step::On && depths.len() < 50 {
            while seeking.take() {}
            let depth = seeking.under_way;
            now += Duration::millis(depth.into());
            for _ in 0..depth {
                step = if step == Step::On { seeking.completed(now, Duration::millis(depth.into())) } else { step };
                seeking.give_back(now);
            }
            if seeking.depth != *depths.last().unwrap() {
                depths.push(seeking.depth);
            }
        }
        (depths, step)
    }

    #[test]
    fn the_depth_doubles_until_it_fails_and_is_halved_toward_that() {
        assert_eq!(tried(99.0, 11, 128), (vec![1, 2, 4, 8, 16, 12, 10, 11], Step::Found));
        assert_eq!(tried(100.0, 11, 128), (vec![1, 2, 4, 8, 16, 12, 10, 11], Step::Found));
        // What the load can do at most, and what not even one at a time can.
        assert_eq!(tried(99.0, 500, 16), (vec![1, 2, 4, 8, 16], Step::Found));
        let rule = Search { target: Duration::ZERO, window: Duration::seconds(1), percent: 100.0, goes_on: false };
        let mut seeking = Seeking::new(rule, 4, Instant::START);
        assert!(seeking.take());
        assert_eq!(seeking.completed(Instant::START, Duration::millis(1)), Step::Late);
    }

    #[test]
    fn what_counts_begins_when_nothing_of_the_search_is_under_way() {
        let rule = Search { target: Duration::millis(50), window: Duration::millis(10), percent: 90.0, goes_on: false };
        let at = |millis| Instant::START + Duration::millis(millis);
        let mut seeking = Seeking::new(rule, 2, Instant::START);
        assert!(seeking.take() && !seeking.take(), "one at a time at first");
        assert_eq!(seeking.completed(at(11), Duration::millis(11)), Step::On);
        seeking.give_back(at(11));
        assert!(seeking.take() && seeking.take());
        assert_eq!(seeking.completed(at(22), Duration::millis(11)), Step::On);
        seeking.give_back(at(22));
        assert!(!seeking.take(), "one is still under way");
        assert_eq!(seeking.searched(), Searched { depth: 2, from: None });
        seeking.give_back(at(25));
        assert_eq!(seeking.searched(), Searched { depth: 2, from: Some(at(25)) });
        assert!(seeking.take());
        assert_eq!(seeking.completed(at(36), Duration::millis(11)), Step::Found);
    }
}
