//! Verdicts on machines whose limits are known because we made them up, with the noise of real ones.

use std::collections::HashMap;

use analysis::survey::{
    Access, Curve, Findings, Kind, KnownLimit, Part, Point, Processors, Question, Sample, Survey, Tier, Verdict,
    VerdictKind,
};
use rand_distr::{Distribution, Normal};
use runtime::Random;
use units::{Bytes, Frequency, Rate, Ratio};

/// A machine that delivers what its parts allow.
struct Machine {
    tree: Part,
    /// By the names of parts: MB/s. Parts without one are no limit.
    capacity: HashMap<&'static str, f64>,
    /// Standard deviation of a measurement, as a share of it.
    noise: f64,
    generator: f64,
    processors: f64,
    /// Of that, ours.
    own: f64,
    /// What the operating system leaves of the bandwidth.
    os: f64,
    /// What a process that waits for each request reaches of what several under way do.
    process: f64,
    /// What each device takes of the processors, if not `processors` of all together.
    each: Option<f64>,
}

const KIB4: f64 = 4096.0;

fn node(tier: Tier, name: &'static str, below: Vec<Part>) -> Part {
    // Round-robin is the business of whoever makes the tree; for these verdicts any order will do.
    let order = below.iter().flat_map(|part| part.order.clone()).collect();
    Part { tier, name: name.into(), on: vec![], below, order, limits: vec![], modelled: false }
}

fn disks(from: usize, n: usize) -> Vec<Part> {
    (from..from + n).map(|index| Part::device(index, "/dev/disk")).collect()
}

impl Machine {
    fn new(tree: Part, capacity: &[(&'static str, f64)]) -> Machine {
        let capacity = capacity.iter().copied().collect();
        Machine {
            tree,
            capacity,
            noise: 0.02,
            generator: 0.3,
            processors: 0.2,
            own: 0.2,
            os: 1.0,
            process: 0.3,
            each: None,
        }
    }

    fn delivers(&self, part: &Part, active: &[usize]) -> f64 {
        let sum: f64 = if part.below.is_empty() {
            if active.contains(&part.order[0]) { 1.0 } else { 0.0 }
        } else {
            part.below.iter().map(|below| self.delivers(below, active)).sum()
        };
        let name = if part.below.is_empty() { "disk" } else { part.name.as_str() };
        match self.capacity.get(name) {
            Some(capacity) if part.below.is_empty() => sum * capacity,
            Some(capacity) => sum.min(*capacity),
            None => sum,
        }
    }

    fn survey(&self, seed: u64, repeats: usize) -> Survey {
        Survey::of(&self.tree, &self.findings(seed, repeats))
    }

    fn findings(&self, seed: u64, repeats: usize) -> Findings {
        let mut random = Random::new(seed);
        let noise = Normal::new(1.0, self.noise).unwrap();
        let kinds: Vec<Kind> = [Access::Raw, Access::Os, Access::Process]
            .into_iter()
            .flat_map(|access| {
                [Question::Bandwidth, Question::Requests].map(|question| Kind { access, question, writes: false })
            })
            .collect();
        let mut samples: HashMap<Vec<usize>, HashMap<Kind, Vec<Sample>>> = HashMap::new();
        let curves = self.tree.all().into_iter().map(|(path, part)| {
            let points = (1..=part.order.len()).map(|n| {
                let devices = part.order[..n].to_vec();
                let measured = samples.entry(devices.clone()).or_insert_with(|| {
                    let mut measure = |kind: &Kind| {
                        let os = match kind.access {
                            Access::Raw => 1.0,
                            Access::Os => self.os,
                            Access::Process => self.os * self.process,
                        };
                        let taken =
                            |whole| self.each.map_or(whole, |each: f64| (each * devices.len() as f64).min(whole));
                        let value: f64 = self.delivers(&self.tree, &devices) * os * noise.sample(&mut random) * 1e6;
                        Sample {
                            bandwidth: Rate::bytes_per_second(value.max(0.0)),
                            requests: Frequency::per_second(value.max(0.0) / KIB4),
                            processors: Some(Processors {
                                system: Ratio::new(taken(self.processors)),
                                own: Ratio::new(taken(self.own)),
                                ..Default::default()
                            }),
                            generator: Ratio::new(self.generator),
                        }
                    };
                    kinds.iter().map(|kind| (*kind, (0..repeats).map(|_| measure(kind)).collect())).collect()
                });
                Point { devices, samples: measured.clone() }
            });
            Curve { path, points: points.collect() }
        });
        Findings { request: Bytes::mib(1), tried: vec![], curves: curves.collect() }
    }

    /// How many of `trials` surveys have a verdict on bandwidth of this tier that is as it should be.
    fn agreement(&self, tier: Tier, trials: u64, right: impl Fn(&Verdict) -> bool) -> f64 {
        let good = (0..trials).filter(|seed| {
            let survey = self.survey(*seed, 3);
            let of_tier = |verdict: &&Verdict| {
                verdict.level == tier
                    && verdict.question == Question::Bandwidth
                    && !matches!(verdict.kind, VerdictKind::OperatingSystem | VerdictKind::Depth)
            };
            survey.verdicts.iter().find(of_tier).is_some_and(&right)
        });
        good.count() as f64 / trials as f64
    }
}

fn four_files_on_one_disk() -> Machine {
    let files = (0..4).map(|index| Part::device(index, format!("file-{index}"))).collect();
    Machine::new(node(Tier::Store, "vda", files), &[("disk", 1000.0), ("vda", 1030.0)])
}

#[test]
fn files_that_share_a_disk_are_found_out() {
    let machine = four_files_on_one_disk();
    let right = machine.agreement(Tier::Store, 1000, |v| v.kind == VerdictKind::Shared && v.limit == "vda");
    assert!(right > 0.99, "right in {right}");
    let survey = machine.survey(1, 3);
    let evidence = &survey.verdicts[0].evidence;
    assert!(evidence.starts_with("4 files on vda deliver 1.0"), "{evidence}");
    assert!(evidence.ends_with("they share vda") && evidence.contains("x one alone"), "{evidence}");
}

#[test]
fn independent_disks_are_not_accused() {
    let machine = Machine::new(node(Tier::Host, "the host", disks(0, 4)), &[("disk", 200.0)]);
    let right = machine.agreement(Tier::Host, 1000, |v| v.kind == VerdictKind::Scales);
    assert!(right > 0.99, "right in {right}");
    let accused = machine.agreement(Tier::Host, 1000, |v| v.kind == VerdictKind::Shared);
    assert!(accused < 0.01, "accused in {accused}");
}

/// Two links of four disks each on one adapter: each link carries three disks' worth, the adapter less than both links.
fn two_links() -> Machine {
    let links = vec![node(Tier::Link, "link a", disks(0, 4)), node(Tier::Link, "link b", disks(4, 4))];
    let tree = node(Tier::Adapter, "adapter", links);
    Machine::new(tree, &[("disk", 200.0), ("link a", 600.0), ("link b", 600.0), ("adapter", 900.0)])
}

#[test]
fn each_level_is_judged_by_the_parts_below_it() {
    let machine = two_links();
    assert!(machine.agreement(Tier::Adapter, 300, |v| v.kind == VerdictKind::Shared && v.limit == "adapter") > 0.99);
    assert!(machine.agreement(Tier::Link, 300, |v| v.kind == VerdictKind::Shared) > 0.99);
    let survey = machine.survey(3, 3);
    let link = survey.verdicts.iter().find(|v| v.limit == "link a").unwrap();
    assert!(link.evidence.contains("from 3 on, more bring nothing"), "{}", link.evidence);
}

#[test]
fn the_ladder_rises_from_what_limits_first() {
    let mut machine = two_links();
    machine.os = 0.5;
    let survey = machine.survey(5, 3);
    let names: Vec<&str> = survey.ladder.iter().map(|rung| rung.part.as_str()).collect();
    assert_eq!(names, ["the operating system", "adapter", "2 links", "8 disks"]);
    let heights: Vec<f64> = survey.ladder.iter().map(|rung| rung.bandwidth.as_mb_per_second()).collect();
    for (height, made_up) in heights.iter().zip([450.0, 900.0, 1200.0, 1600.0]) {
        assert!((height / made_up - 1.0).abs() < 0.1, "{heights:?}");
    }
    assert!(survey.verdicts.iter().any(|v| v.kind == VerdictKind::OperatingSystem));
}

#[test]
fn a_generator_without_time_left_is_blamed_itself() {
    let mut machine = four_files_on_one_disk();
    machine.generator = 0.98;
    assert!(machine.agreement(Tier::Store, 300, |v| v.kind == VerdictKind::Generator) > 0.99);
    let survey = machine.survey(1, 3);
    assert!(survey.verdicts[0].evidence.contains("generator-bound"), "{}", survey.verdicts[0].evidence);
}

#[test]
fn a_device_that_takes_all_of_its_thread_is_said_to() {
    let mut machine = Machine::new(Part::device(0, "/dev/zram1"), &[("disk", 1500.0)]);
    let device = |v: &Verdict| v.kind == VerdictKind::Device && v.limit == "/dev/zram1";
    assert!(machine.agreement(Tier::Disk, 300, device) > 0.99, "with time to spare, it is the device");
    (machine.processors, machine.own) = (0.97, 0.3);
    let others = |v: &Verdict| v.limit == "other programs" && v.confidence == Ratio::ONE;
    assert!(machine.agreement(Tier::Disk, 300, others) > 0.99);
    machine.generator = 0.99;
    assert!(machine.agreement(Tier::Disk, 300, |v| v.kind == VerdictKind::Generator) > 0.99);
}

/// One link of two disks under the host: the link is the limit, and the host does not blame the disks for it.
#[test]
fn a_host_with_one_link_leaves_the_verdict_to_the_link() {
    let link = node(Tier::Link, "the link", disks(0, 2));
    let machine = Machine::new(node(Tier::Host, "the host", vec![link]), &[("disk", 200.0), ("the link", 220.0)]);
    assert!(machine.agreement(Tier::Link, 300, |v| v.kind == VerdictKind::Shared && v.limit == "the link") > 0.99);
    let survey = machine.survey(1, 3);
    assert!(survey.verdicts.iter().all(|verdict| verdict.kind != VerdictKind::Device), "{:?}", survey.verdicts);
}

#[test]
fn processors_without_time_left_are_blamed() {
    let mut machine = four_files_on_one_disk();
    (machine.processors, machine.own) = (0.97, 0.9);
    assert!(machine.agreement(Tier::Store, 300, |v| v.kind == VerdictKind::Processors) > 0.99);
}

/// Two loop devices on tmpfs: each takes 68 % of two processors alone, and both together gain 8 %.
#[test]
fn processors_that_the_devices_need_more_of_than_there_are_are_blamed_before_the_store() {
    let files = (0..2).map(|index| Part::device(index, format!("/dev/loop{index}"))).collect();
    let mut machine = Machine::new(node(Tier::Store, "tmpfs", files), &[("disk", 1000.0), ("tmpfs", 1080.0)]);
    (machine.each, machine.processors, machine.own) = (Some(0.68), 0.88, 0.88);
    assert!(machine.agreement(Tier::Store, 300, |v| v.kind == VerdictKind::Processors) > 0.99);
    let survey = machine.survey(1, 3);
    assert!(survey.verdicts[0].evidence.contains("need 136 % of them"), "{}", survey.verdicts[0].evidence);
    // Half idle they may still be: the threads may wait for each other. Nobody is accused then.
    (machine.processors, machine.own) = (0.7, 0.7);
    assert!(machine.agreement(Tier::Store, 300, |v| v.kind == VerdictKind::Undecided && v.limit.is_empty()) > 0.99);
    // Where there are processors for all of them, it is the store.
    (machine.each, machine.processors, machine.own) = (Some(0.3), 0.4, 0.4);
    assert!(machine.agreement(Tier::Store, 300, |v| v.kind == VerdictKind::Shared && v.limit == "tmpfs") > 0.99);
}

#[test]
fn queue_depth_is_not_taken_for_the_operating_system() {
    let mut machine = four_files_on_one_disk();
    let kinds = |machine: &Machine| -> Vec<VerdictKind> {
        let verdicts = machine.survey(1, 3).verdicts;
        let of_bandwidth = verdicts.iter().filter(|verdict| verdict.question == Question::Bandwidth);
        of_bandwidth.map(|verdict| verdict.kind).collect()
    };
    assert_eq!(kinds(&machine), [VerdictKind::Shared, VerdictKind::Depth], "the page cache costs nothing here");
    machine.process = 1.0;
    assert_eq!(kinds(&machine), [VerdictKind::Shared], "neither does waiting for each request");
    machine.os = 0.5;
    assert_eq!(kinds(&machine), [VerdictKind::Shared, VerdictKind::OperatingSystem]);
}

#[test]
fn other_programs_are_not_taken_for_a_limit_of_the_storage() {
    let mut machine = four_files_on_one_disk();
    (machine.processors, machine.own) = (0.97, 0.3);
    assert!(
        machine.agreement(Tier::Store, 300, |v| v.kind == VerdictKind::Noise && v.limit == "other programs") > 0.99
    );
}

#[test]
fn a_throttle_that_somebody_set_is_named() {
    let mut machine = Machine::new(Part::device(0, "/dev/loop7"), &[("disk", 101.0)]);
    let what = "a cgroup throttle".to_owned();
    let bandwidth = Some(Rate::bytes_per_second(100e6));
    machine.tree.limits.push(KnownLimit { what, bandwidth, requests: None, piece: None });
    assert!(
        machine.agreement(Tier::Disk, 300, |v| v.kind == VerdictKind::Known && v.limit == "a cgroup throttle") > 0.99
    );
    machine.capacity.insert("disk", 40.0);
    let throttle = machine.agreement(Tier::Disk, 300, |v| v.kind == VerdictKind::Known);
    assert_eq!(throttle, 0.0, "far below the throttle it is not to blame");
}

#[test]
fn a_throttle_of_requests_counts_the_pieces_of_large_ones() {
    let mut machine = Machine::new(Part::device(0, "/dev/loop7"), &[("disk", 100.0)]);
    let request = machine.findings(1, 1).request;
    let limit = |requests: f64, piece: Option<Bytes>| KnownLimit {
        what: "a cgroup throttle".to_owned(),
        bandwidth: None,
        requests: Some(Frequency::per_second(requests)),
        piece,
    };
    // Samples of this machine count requests of 4 KiB, whatever is asked.
    let per_second = 100e6 / KIB4;
    let known = |machine: &Machine| {
        let of_bandwidth = |v: &Verdict| v.kind == VerdictKind::Known && v.question == Question::Bandwidth;
        let verdicts = machine.survey(1, 3).verdicts;
        verdicts.into_iter().find(of_bandwidth).map(|verdict| verdict.evidence)
    };
    machine.tree.limits = vec![limit(per_second * 8.0, Some(request / 8))];
    assert!(known(&machine).unwrap().ends_with("and each of these is split into 8"));
    machine.tree.limits = vec![limit(per_second * 8.0, None)];
    assert_eq!(known(&machine), None, "whole requests are far from that");
    machine.tree.limits = vec![limit(per_second, None)];
    assert!(known(&machine).is_some(), "large requests may be held back by their number");
}

/// A survey that was cut short says what it has and no more.
#[test]
fn findings_that_are_not_whole_give_levels_without_verdicts() {
    let machine = two_links();
    let whole = machine.findings(1, 3);
    let levels = |findings: &Findings| Survey::of(&machine.tree, findings).levels;
    // Each measured once: every level, but no verdict.
    let mut once = whole.clone();
    once.curves.iter_mut().flat_map(|curve| &mut curve.points).for_each(|point| {
        point.samples.values_mut().for_each(|samples| samples.truncate(1));
    });
    let survey = Survey::of(&machine.tree, &once);
    assert_eq!((survey.levels.len(), survey.verdicts.len(), survey.ladder.len()), (11, 0, 0));
    // The adapter was reached with five of its devices, the second link not beyond one kind of measurement.
    let mut half = once;
    for (path, points) in [(&[][..], 5), (&[1][..], 0)] {
        let curve = half.curves.iter_mut().find(|curve| curve.path == path).unwrap();
        curve.points[points..]
            .iter_mut()
            .for_each(|point| point.samples.retain(|kind, _| points == 0 && kind.access == Access::Raw));
    }
    let named = |name: &str| levels(&half).into_iter().find(|level| level.name == name);
    let adapter = named("adapter").unwrap();
    assert_eq!((adapter.devices, adapter.curve.len(), adapter.expected), (5, 5, None));
    assert_eq!(named("link a").unwrap().devices, 4);
    assert_eq!(named("link b"), None);
    // Nothing at all.
    half.curves.iter_mut().flat_map(|curve| &mut curve.points).for_each(|point| point.samples.clear());
    assert_eq!(levels(&half), []);
}

/// Repeats that differ by half do not prove a tenth.
#[test]
fn noise_is_called_noise() {
    let mut machine = Machine::new(node(Tier::Host, "the host", disks(0, 2)), &[("disk", 200.0), ("the host", 360.0)]);
    machine.noise = 0.5;
    let asserted = machine.agreement(Tier::Host, 1000, |v| v.kind != VerdictKind::Noise);
    assert!(asserted < 0.35, "asserted something in {asserted}");
}
