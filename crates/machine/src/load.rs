//! How long each part of a machine was at work.
//!
//! Parts count from the start of the machine. What happened between two instants is the difference of two looks
//! ([`Load::since`]), and a part's utilization its busy time in that difference by the time between.

use std::sync::Arc;

use units::{Duration, Instant, Ratio};

use crate::scsi::protocol::Passage;
use crate::system::Machine;

/// The work of all parts up to some instant, or between two.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Load {
    /// When, or how long.
    pub at: Duration,
    /// What each part says of itself, in the order of the tree.
    pub gauges: Vec<Gauge>,
    /// Which of them says how busy the host is: that of its first processor.
    pub host: Option<usize>,
    /// What commands did on the strings.
    pub passages: Passages,
}

/// A number that a part keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct Gauge {
    /// The name of its node.
    pub node: Arc<str>,
    /// Of what in it; empty for the part as a whole.
    pub what: &'static str,
    /// What it stands at.
    pub reading: Reading,
}

/// What a gauge stands at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// For how long it was at work.
    Busy(Duration),
    /// For how long it had something to do, of a part that does several things at a time: that it is used up it does
    /// not say.
    Present(Duration),
    /// For how long it could have worked on at full speed for somebody else.
    Spare(Duration),
    /// How much of its work was of this kind.
    Phase(Duration),
    /// How often something happened.
    Count(u64),
    /// The most that there was of something at one time since the machine was started.
    Most(u64),
}

/// What parts write their gauges into.
pub struct Gauges {
    node: Arc<str>,
    list: Vec<Gauge>,
    host: Option<usize>,
}

impl Gauges {
    /// A number of the part as a whole, or of something in it.
    pub fn put(&mut self, what: &'static str, reading: Reading) {
        self.list.push(Gauge { node: Arc::clone(&self.node), what, reading });
    }

    /// As [`Gauges::put`]; it says how busy the host is.
    pub fn put_host(&mut self, what: &'static str, reading: Reading) {
        self.host.get_or_insert(self.list.len());
        self.put(what, reading);
    }
}

/// What completed commands did on their strings, summed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passages {
    /// How many commands.
    pub commands: u64,
    /// Times that a device took the bus.
    pub tenures: u64,
    /// Times that a target let go of it before it was done.
    pub disconnects: u64,
    /// Save-pointer messages.
    pub saves: u64,
    /// Pauses of targets while they held the bus.
    pub target_pauses: Duration,
    /// Pauses of adapters while they held the bus.
    pub initiator_pauses: Duration,
    /// Arbitration, selection and release.
    pub bus_overhead: Duration,
    /// Blocks moved before the first disconnection.
    pub first_burst: u64,
}

impl Passages {
    /// One more command.
    pub fn add(&mut self, passage: &Passage) {
        self.commands += 1;
        self.tenures += u64::from(passage.tenures);
        self.disconnects += u64::from(passage.disconnects);
        self.saves += u64::from(passage.saves);
        self.target_pauses += passage.target_pauses;
        self.initiator_pauses += passage.initiator_pauses;
        self.bus_overhead += passage.bus_overhead;
        self.first_burst += passage.first_burst;
    }

    fn with(&self, b: &Passages, time: fn(Duration, Duration) -> Duration, count: fn(u64, u64) -> u64) -> Passages {
        Passages {
            commands: count(self.commands, b.commands),
            tenures: count(self.tenures, b.tenures),
            disconnects: count(self.disconnects, b.disconnects),
            saves: count(self.saves, b.saves),
            target_pauses: time(self.target_pauses, b.target_pauses),
            initiator_pauses: time(self.initiator_pauses, b.initiator_pauses),
            bus_overhead: time(self.bus_overhead, b.bus_overhead),
            first_burst: count(self.first_burst, b.first_burst),
        }
    }
}

impl Machine {
    /// How long every part was at work up to now.
    pub fn load(&self) -> Load {
        let mut gauges = Gauges { node: "".into(), list: Vec::new(), host: None };
        for node in self.nodes() {
            gauges.node = Arc::clone(&node.name);
            node.stands.gauges(&mut gauges);
        }
        if let Some((upkeep, done)) = &*self.tended.borrow() {
            gauges.node = "array".into();
            upkeep.gauge(done, &mut gauges);
        }
        let at = self.runtime.now().since(Instant::START);
        Load { at, gauges: gauges.list, host: gauges.host, passages: self.passages.get() }
    }
}

impl Load {
    /// The work since an earlier look.
    #[must_use]
    pub fn since(&self, earlier: &Load) -> Load {
        // Sums are rounded to the nanosecond at each look.
        self.with(earlier, Duration::saturating_sub, |a, b| a - b)
    }

    /// The work of two times together, of machines alike.
    #[must_use]
    pub fn plus(&self, other: &Load) -> Load {
        self.with(other, |a, b| a + b, |a, b| a + b)
    }

    fn with(&self, other: &Load, time: fn(Duration, Duration) -> Duration, count: fn(u64, u64) -> u64) -> Load {
        assert_eq!(self.gauges.len(), other.gauges.len(), "loads are of machines alike");
        let gauges = self.gauges.iter().zip(&other.gauges).map(|(a, b)| {
            let reading = match (a.reading, b.reading) {
                (Reading::Busy(a), Reading::Busy(b)) => Reading::Busy(time(a, b)),
                (Reading::Present(a), Reading::Present(b)) => Reading::Present(time(a, b)),
                (Reading::Spare(a), Reading::Spare(b)) => Reading::Spare(time(a, b)),
                (Reading::Phase(a), Reading::Phase(b)) => Reading::Phase(time(a, b)),
                (Reading::Count(a), Reading::Count(b)) => Reading::Count(count(a, b)),
                (Reading::Most(a), Reading::Most(b)) => Reading::Most(a.max(b)),
                (a, b) => panic!("loads are of machines alike: {a:?} and {b:?}"),
            };
            Gauge { reading, ..a.clone() }
        });
        Load {
            at: time(self.at, other.at),
            gauges: gauges.collect(),
            host: self.host,
            passages: self.passages.with(&other.passages, time, count),
        }
    }

    /// What a gauge of a node stands at, if there is one.
    pub fn reading(&self, node: &str, what: &str) -> Option<Reading> {
        self.gauges.iter().find(|gauge| &*gauge.node == node && gauge.what == what).map(|gauge| gauge.reading)
    }

    /// A time that a node keeps. Zero if it keeps none of that name.
    pub fn time(&self, node: &str, what: &str) -> Duration {
        match self.reading(node, what) {
            Some(Reading::Busy(time) | Reading::Present(time) | Reading::Spare(time) | Reading::Phase(time)) => time,
            _ => Duration::ZERO,
        }
    }

    /// What all nodes together have counted under that name; of mosts, the greatest.
    pub fn count(&self, what: &str) -> u64 {
        let counted = self.gauges.iter().filter(|gauge| gauge.what == what);
        counted.fold(0, |sum, gauge| match gauge.reading {
            Reading::Count(count) => sum + count,
            Reading::Most(most) => sum.max(most),
            _ => sum,
        })
    }

    /// What share of the time the processors did not idle: by their idle loops where they keep one, otherwise by what
    /// they did. Nothing where there is no processor.
    pub fn host_utilization(&self) -> Option<Ratio> {
        self.use_of(&self.gauges[self.host?])
    }

    /// For what share of the time a part was at work. Zero for a part that keeps no such time.
    pub fn utilization(&self, node: &str) -> Ratio {
        let gauge = self.gauges.iter().find(|gauge| &*gauge.node == node && gauge.what.is_empty());
        gauge.and_then(|gauge| self.use_of(gauge)).unwrap_or(Ratio::ZERO)
    }

    /// How much of the time each node was at work, by the busiest thing in it; nodes that do not say are left out.
    pub fn at_work(&self) -> Vec<(&str, Ratio)> {
        let mut nodes: Vec<(&str, Ratio)> = Vec::new();
        for gauge in self.gauges.iter().filter(|gauge| matches!(gauge.reading, Reading::Busy(_))) {
            let Some(used) = self.use_of(gauge) else { continue };
            match nodes.last_mut().filter(|(node, _)| **node == *gauge.node) {
                Some((_, most)) => *most = if used > *most { used } else { *most },
                None => nodes.push((&gauge.node, used)),
            }
        }
        nodes
    }

    /// The utilization of every part, by name.
    pub fn utilizations(&self) -> Vec<(String, Ratio)> {
        let used = self.gauges.iter().filter_map(|gauge| Some((gauge.label(), self.use_of(gauge)?)));
        used.collect()
    }

    /// What was at work most of the time. Where commands merely were present, nothing need have been at work.
    pub fn busiest(&self) -> Option<(String, Ratio)> {
        let worked = self.gauges.iter().filter(|gauge| !matches!(gauge.reading, Reading::Present(_)));
        let used = worked.filter_map(|gauge| Some((gauge.label(), self.use_of(gauge)?)));
        used.reduce(|a, b| if b.1 > a.1 { b } else { a })
    }

    fn use_of(&self, gauge: &Gauge) -> Option<Ratio> {
        let share = |time: Duration| time.as_seconds() / self.at.as_seconds();
        match gauge.reading {
            // A tenure's fixed steps are booked when a string decides on them, a few microseconds before they are over.
            Reading::Busy(time) | Reading::Present(time) => Some(Ratio::new(share(time).clamp(0.0, 1.0))),
            Reading::Spare(time) => Some(Ratio::new((1.0 - share(time)).clamp(0.0, 1.0))),
            Reading::Phase(_) | Reading::Count(_) | Reading::Most(_) => None,
        }
    }
}

impl Gauge {
    /// As people read it.
    pub fn label(&self) -> String {
        if self.what.is_empty() { self.node.to_string() } else { format!("{} {}", self.node, self.what) }
    }
}
