//! The delta statistics algorithm itself, one delta at a time.

use units::{Duration, Ratio};

use super::Finish;
use super::service::Tables;
use crate::Moments;

/// Mean, deviation and extremes of deltas; nothing where there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deltas {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean: Option<Duration>,
    /// Their standard deviation, of the deltas themselves and not of what they may be a sample of, as there are
    /// hundreds.
    pub deviation: Option<Duration>,
    /// The shortest.
    pub least: Option<Duration>,
    /// The longest.
    pub greatest: Option<Duration>,
}

impl Deltas {
    /// Of moments in nanoseconds.
    pub(super) fn of(moments: &Moments) -> Deltas {
        let some = |nanos: f64| (moments.count > 0).then(|| Duration::nanos(nanos.max(0.0).round() as u64));
        Deltas {
            count: moments.count,
            mean: some(moments.mean()),
            deviation: some(moments.own_deviation()),
            least: some(moments.min()),
            greatest: some(moments.max()),
        }
    }
}

/// Where the algorithm stands.
pub(super) struct Counter {
    devices: usize,
    threshold: Duration,
    /// The devices whose completions began the last deltas: the present one last, never more than there are devices.
    recent: Vec<u16>,
    /// How many deltas this pass has had.
    begun: u64,
    /// By device: the number of the last delta that it began, counted from 1; 0 for none in this pass.
    last: Vec<u64>,
    /// Deltas from this number on were begun by different devices.
    distinct_from: u64,
    /// Small deltas since the last large one in this pass; `None` before the first.
    since_large: Option<u64>,
    pub good: u64,
    pub large: Moments,
    pub small: Moments,
    /// Each of the small deltas of two devices, in nanoseconds.
    smalls: Vec<u64>,
    /// The shortest small delta since the last large one, in nanoseconds.
    shortest: u64,
    /// That of each good round.
    closest: Vec<u64>,
    pub service: Tables,
}

/// Small deltas are alike if they are no further from their median than this share of it. A choice: what is made of a
/// run is held against what the same measure makes of chance, so another share would find more or fewer rounds, and no
/// more false ones.
const ALIKE: f64 = 0.125;

/// Completions closer than this share of the mean small delta were seen together. The tests of this crate
/// (`tests/rounds.rs`) say within what it may lie: with a twelfth to a thirty-second at most one of 600 runs on a
/// machine that is held up is a false alarm, with a sixty-fourth 86 are; with an eighth, rounds whose small deltas are
/// spread as those of 128 KB in the study's Table 4 are lost.
const TOGETHER: f64 = 1.0 / 16.0;

impl Counter {
    /// For devices with indices below `indices`, of which `active` ones complete requests.
    fn new(indices: usize, active: usize, threshold: Duration) -> Counter {
        assert!(active >= 2, "rounds are of two devices or more");
        Counter {
            devices: active,
            threshold,
            recent: Vec::with_capacity(active + 1),
            begun: 0,
            last: vec![0; indices],
            distinct_from: 1,
            since_large: None,
            good: 0,
            large: Moments::default(),
            small: Moments::default(),
            smalls: Vec::new(),
            shortest: u64::MAX,
            closest: Vec::new(),
            service: Tables::new(indices, active),
        }
    }

    /// What all passes come to.
    pub fn of<'f>(
        passes: impl IntoIterator<Item = &'f [Finish]>,
        indices: usize,
        active: usize,
        threshold: Duration,
    ) -> Counter {
        let mut counter = Counter::new(indices, active, threshold);
        passes.into_iter().for_each(|pass| counter.pass(pass));
        counter
    }

    /// Takes the completions of a pass.
    fn pass(&mut self, finishes: &[Finish]) {
        self.recent.clear();
        self.last.fill(0);
        (self.begun, self.distinct_from, self.since_large) = (0, 1, None);
        self.service.begin_pass();
        for finish in finishes {
            self.service.count(finish.device);
        }
        for pair in finishes.windows(2) {
            self.delta(pair[0].device, pair[1].at.since(pair[0].at));
        }
    }

    /// Takes the next delta, which a completion of `device` began.
    fn delta(&mut self, device: u16, delta: Duration) {
        self.begun += 1;
        if self.recent.len() == self.devices {
            self.recent.remove(0);
        }
        self.recent.push(device);
        let last = std::mem::replace(&mut self.last[usize::from(device)], self.begun);
        self.distinct_from = self.distinct_from.max(last + 1);
        if delta <= self.threshold {
            self.small.add(delta.as_nanos() as f64);
            if self.devices == 2 {
                self.smalls.push(delta.as_nanos());
            }
            self.since_large = self.since_large.map(|count| count + 1);
            self.shortest = self.shortest.min(delta.as_nanos());
            return;
        }
        let shortest = std::mem::replace(&mut self.shortest, u64::MAX);
        self.large.add(delta.as_nanos() as f64);
        let devices = self.devices as u64;
        let small_between = self.since_large.replace(0) == Some(devices - 1);
        let distinct = self.begun - self.distinct_from + 1 >= devices;
        if small_between && distinct {
            self.good += 1;
            self.closest.push(shortest);
            self.service.round(&self.recent);
        }
    }

    /// Deltas of both kinds divided by the number of devices.
    pub fn out_of(&self) -> u64 {
        self.deltas() / self.devices as u64
    }

    /// The share of requests that belong to good rounds.
    pub fn share(&self) -> Ratio {
        self.share_of(self.good)
    }

    /// Good rounds in which some completions were seen together, so that these cannot have waited for what the others
    /// transferred.
    pub fn together(&self) -> u64 {
        let least = self.small.mean() * TOGETHER;
        self.closest.iter().filter(|shortest| (**shortest as f64) < least).count() as u64
    }

    /// The share of requests that belong to so many rounds.
    pub fn share_of(&self, rounds: u64) -> Ratio {
        Ratio::new(((rounds * self.devices as u64) as f64 / self.deltas().max(1) as f64).min(1.0))
    }

    /// How plainly rounds stand out: their share, times the part of the deltas' variance that lies between large and
    /// small ones (Otsu's measure of separability). Large and small that run into each other are what chance makes.
    ///
    /// Two devices alternate by chance half of the time, and that says little. Of theirs it is also multiplied by the
    /// share of small deltas that are alike: in a round each is the transfer of what the other one had ready, by chance
    /// they are of all lengths.
    pub fn plainness(&mut self) -> f64 {
        let alike = if self.devices == 2 { self.alike().get() } else { 1.0 };
        let (large, small) = (&self.large, &self.small);
        let (above, below) = (large.count as f64, small.count as f64);
        let between = above * below / (above + below).max(1.0) * (large.mean() - small.mean()).powi(2);
        let total = between + large.squares() + small.squares();
        if total > 0.0 { self.share().get() * alike * between / total } else { 0.0 }
    }

    /// The share of small deltas that are about as long as their median.
    fn alike(&mut self) -> Ratio {
        if self.smalls.is_empty() {
            return Ratio::ZERO;
        }
        let middle = self.smalls.len() / 2;
        let median = *self.smalls.select_nth_unstable(middle).1 as f64;
        let near = self.smalls.iter().filter(|delta| (**delta as f64 - median).abs() <= ALIKE * median).count();
        Ratio::new(near as f64 / self.smalls.len() as f64)
    }

    fn deltas(&self) -> u64 {
        self.large.count + self.small.count
    }
}
