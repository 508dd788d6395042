//! Making the measurements of a survey.

use std::collections::{HashMap, HashSet};

use analysis::survey::{Access, Curve, Findings, Kind, Part, Point, Question, Sample};
use units::{Bytes, Duration};

use super::{Bench, Conduct, Probe};

impl Conduct {
    /// The kinds of measurement that are made of each point.
    pub fn kinds(&self) -> Vec<Kind> {
        let directions: &[bool] = if self.writes { &[false, true] } else { &[false] };
        let mut kinds = Vec::new();
        for &writes in directions {
            // Of writes the question is what the devices take: a process that waits for each is not asked.
            let accesses = self.accesses.iter().copied().filter(|access| !writes || *access != Access::Process);
            for access in accesses {
                for question in [Question::Bandwidth, Question::Requests] {
                    kinds.push(Kind { access, question, writes });
                }
            }
        }
        kinds
    }
}

/// A measurement shorter than this says little: the start of all streams alone takes milliseconds.
const SHORTEST: Duration = Duration::millis(200);
/// Longer ones are better spent on more repeats.
const LONGEST: Duration = Duration::seconds(3);
/// The share of the best rate at which a smaller request is preferred to a larger one.
const GOOD_ENOUGH: f64 = 0.97;
/// How many times a size is tried: the first time may find cold caches.
const TRIES: usize = 2;

/// Makes all measurements, or those until the first that fails. `progress` is told what is about to be done, how many
/// measurements are behind and how many there are in all.
pub fn conduct<B: Bench>(
    bench: &mut B,
    root: &Part,
    conduct: &Conduct,
    progress: &mut dyn FnMut(&Probe, usize, usize),
) -> (Findings, Option<B::Error>) {
    let subsets = subsets(root);
    let kinds = conduct.kinds();
    let tries = if conduct.requests.len() > 1 { conduct.requests.len() * TRIES } else { 0 };
    let total = subsets.len() * kinds.len() * conduct.repeats as usize + tries;
    let time = (conduct.budget / total.max(1) as u64).max(SHORTEST).min(LONGEST);
    let mut done = 0;
    let mut measure = |probe: Probe| {
        progress(&probe, done, total);
        done += 1;
        bench.measure(&probe)
    };

    let first = Probe {
        devices: vec![subsets[0][0]],
        kind: Kind { access: Access::Raw, question: Question::Bandwidth, writes: false },
        request: conduct.requests[0],
        time,
    };
    let mut tried: Vec<(Bytes, Sample)> = Vec::new();
    let mut samples: HashMap<(&[usize], Kind), Vec<Sample>> = HashMap::new();
    let mut request = conduct.requests[0];
    let mut all = || -> Result<(), B::Error> {
        for _ in 0..tries / conduct.requests.len() {
            for &request in &conduct.requests {
                tried.push((request, measure(Probe { request, ..first.clone() })?));
            }
        }
        request = choose(&tried, time).unwrap_or(request);
        for _ in 0..conduct.repeats {
            for devices in &subsets {
                for &kind in &kinds {
                    let sample = measure(Probe { devices: devices.clone(), kind, request, time })?;
                    samples.entry((devices, kind)).or_default().push(sample);
                }
            }
        }
        Ok(())
    };
    let broken = all().err();
    let point = |devices: Vec<usize>| {
        let taken = kinds.iter().filter_map(|kind| Some((*kind, samples.get(&(&devices[..], *kind))?.clone())));
        Point { samples: taken.collect(), devices }
    };
    let curves = root
        .all()
        .into_iter()
        .map(|(path, part)| Curve { path, points: prefixes(part).into_iter().map(point).collect() })
        .collect();
    (Findings { request, tried, curves }, broken)
}

/// The smallest request that gives nearly the best rate; each size counts with its best try. Of a size of which so few
/// were done in `time` that one more or less is more than what is good enough, the rate is not known, and it is not
/// taken while there is another.
fn choose(tried: &[(Bytes, Sample)], time: Duration) -> Option<Bytes> {
    let known = |sample: &Sample| sample.requests.get() * time.as_seconds() * (1.0 - GOOD_ENOUGH) >= 1.0;
    let tried = || tried.iter().filter(|(_, sample)| known(sample));
    let best = tried().map(|(_, sample)| sample.bandwidth.get()).fold(0.0, f64::max);
    tried().filter(|(_, sample)| sample.bandwidth.get() >= GOOD_ENOUGH * best).map(|(size, _)| *size).min()
}

/// The points of a part's curve: its devices added one at a time, in order of activation.
fn prefixes(part: &Part) -> Vec<Vec<usize>> {
    (1..=part.order.len()).map(|n| part.order[..n].to_vec()).collect()
}

/// Every set of devices that some curve needs, each once, singles first.
fn subsets(root: &Part) -> Vec<Vec<usize>> {
    let mut subsets: Vec<Vec<usize>> = root.all().into_iter().flat_map(|(_, part)| prefixes(part)).collect();
    subsets.sort_by_key(|devices| devices.len());
    let mut seen = HashSet::new();
    subsets.retain(|devices| seen.insert(devices.clone()));
    subsets
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::survey::Tier;
    use units::{Frequency, Rate, Ratio};

    fn part(tier: Tier, below: Vec<Part>) -> Part {
        let orders = below.iter().map(|part| part.order.clone()).collect();
        let order = host::level::round_robin(orders);
        Part { tier, name: tier.name().into(), on: vec![], order, below, limits: vec![], modelled: false }
    }

    /// Two links of `n` disks each.
    fn tree(n: usize) -> Part {
        let link = |first: usize| part(Tier::Link, (first..first + n).map(|i| Part::device(i, "d")).collect());
        part(Tier::Host, vec![link(0), link(n)])
    }

    /// Remembers what it was asked, and fails after some measurements.
    struct Counting(Vec<Probe>, usize);
    impl Bench for Counting {
        type Error = &'static str;
        fn measure(&mut self, probe: &Probe) -> Result<Sample, Self::Error> {
            if self.0.len() == self.1 {
                return Err("the device is gone");
            }
            self.0.push(probe.clone());
            // 1 MiB requests are as good as 4 MiB ones, smaller ones are not.
            let rate = 1e6 * probe.devices.len() as f64 * if probe.request >= Bytes::mib(1) { 1.0 } else { 0.5 };
            Ok(Sample {
                bandwidth: Rate::bytes_per_second(rate),
                requests: Frequency::per_second(rate / 4096.0),
                processors: None,
                generator: Ratio::ZERO,
            })
        }
    }

    #[test]
    fn devices_are_added_round_robin_over_the_links() {
        assert_eq!(tree(3).order, [0, 3, 1, 4, 2, 5]);
        assert_eq!(prefixes(&tree(2)), [vec![0], vec![0, 2], vec![0, 2, 1], vec![0, 2, 1, 3]]);
    }

    #[test]
    fn each_point_is_measured_as_often_as_asked_and_repeats_are_interleaved() {
        let mut bench = Counting(Vec::new(), usize::MAX);
        let conduct_how = Conduct::default();
        let mut told = Vec::new();
        let findings = conduct(&mut bench, &tree(2), &conduct_how, &mut |_, done, of| told.push((done, of)));
        let (findings, None) = findings else { panic!("nothing fails") };
        assert_eq!(findings.request, Bytes::mib(1), "the smallest size that reaches the best rate");
        // Singles 0..3, {0,1}, {2,3}, {0,2}, {0,2,1}, {0,2,1,3}: nine sets, six kinds, three repeats, and the tried
        // sizes.
        assert_eq!(bench.0.len(), 9 * 6 * 3 + 8);
        assert_eq!(told, (0..bench.0.len()).map(|n| (n, bench.0.len())).collect::<Vec<_>>());
        let singles: Vec<usize> = (0..bench.0.len())
            .filter(|n| bench.0[*n].devices == [3] && bench.0[*n].kind.access == Access::Os)
            .collect();
        assert!(singles.windows(2).any(|pair| pair[1] - pair[0] > 30), "repeats are apart: {singles:?}");
        let host = findings.curves.last().unwrap();
        assert_eq!((host.path.len(), host.points.len()), (0, 4));
        assert!(host.points.iter().all(|point| point.samples.values().all(|samples| samples.len() == 3)));
    }

    #[test]
    fn a_size_is_not_chosen_for_one_request_more() {
        let sample = |rate: f64, size: Bytes| Sample {
            bandwidth: Rate::bytes_per_second(rate),
            requests: Frequency::per_second(rate / size.get() as f64),
            processors: None,
            generator: Ratio::ZERO,
        };
        // Throttled to 8 MiB/s, of which 600 ms hold one or two of the largest requests.
        let tried = [(64, 8.4e6), (256, 8.4e6), (1024, 8.7e6), (4096, 14e6)];
        let tried = tried.map(|(kib, rate)| (Bytes::kib(kib), sample(rate, Bytes::kib(kib))));
        assert_eq!(choose(&tried, Duration::millis(600)), Some(Bytes::kib(64)));
        assert_eq!(choose(&tried, Duration::seconds(60)), Some(Bytes::mib(4)), "a hundred of them");
        assert_eq!(choose(&tried, Duration::millis(20)), None, "the first of the sizes is taken then");
    }

    #[test]
    fn what_was_measured_before_an_error_is_kept() {
        // The tried sizes, the first device whole, and one kind of the second.
        let mut bench = Counting(Vec::new(), 8 + 6 + 1);
        let (findings, broken) = conduct(&mut bench, &tree(2), &Conduct::default(), &mut |_, _, _| ());
        assert_eq!((broken, findings.tried.len()), (Some("the device is gone"), 8));
        let kinds = |curve: usize| findings.curves[curve].points[0].samples.len();
        assert_eq!((kinds(0), kinds(1)), (6, 1));
        assert_eq!(findings.curves.len(), 7, "a curve for each part, also for those that were not reached");
    }

    #[test]
    fn the_time_keeps_to_the_budget() {
        let mut bench = Counting(Vec::new(), usize::MAX);
        assert_eq!(conduct(&mut bench, &tree(2), &Conduct::default(), &mut |_, _, _| ()).1, None);
        let whole: Duration = bench.0.iter().map(|probe| probe.time).sum();
        assert!(whole <= Duration::seconds(60) && whole > Duration::seconds(50), "{whole}");
    }
}
