//! What a survey's measurements mean.
//!
//! # Efficiency
//! A part's efficiency is what its devices deliver together, M, divided by what its children deliver each alone, E =
//! sum of their M. A part that is no limit has efficiency 1. It is called a limit when M is below [`SCALES`] of E, and
//! the *confidence* in that is the probability of it by Student's distribution, from the spread of the repeats of both
//! (standard error of a difference, Welch; degrees of freedom taken as those of the smaller sample, which errs on the
//! side of doubt). Neither a limit nor its absence is asserted below [`SURE`].
//!
//! # The bend
//! Where the curve bends, and whether it then stays level, falls or only slows, is read off by [`crate::bend`].
//!
//! # Whose limit
//! If a limit that is known from elsewhere (a throttle, a link's signalling) lies at the measured value, it is that. If
//! a thread of the generator had no time left, the measurement is the generator's. If the processors had none, it is
//! theirs, or, where other programs took much of them, nobody can say. Otherwise it is the part that the devices share.
//!
//! The processors can be the limit before they are busy all the time: threads that hand work to each other leave gaps.
//! So the demand is asked, too (Denning and Buzen's utilization law). If each child alone takes b_i of the processors,
//! their sum E takes sum(b_i), and the processors, less what other programs take, allow no more than E (1 - others) /
//! sum(b_i). Where that bound lies below E and the processors were busier than [`LABOURING`], they are the limit; where
//! they were less busy, two limits fit, and the verdict says so.
//!
//! # Like with like
//! The operating system is judged by measurements that differ in the page cache alone: direct and buffered, with
//! equally many requests under way. What a single process that waits for each request delivers less is queue depth, and
//! is called so.
//!
//! # The ladder
//! For each tier, what all its parts deliver together if each is loaded alone: sum of M over the tier. It can only rise
//! from the host down to the disks, and each rung is what the machine would deliver if the tiers above were no limit:
//! the hierarchy of bottlenecks of RAID-I's section 5.

use units::{Frequency, Rate, Ratio};

use super::result::{CurvePoint, Expected, Level, Measured, Rung, Survey, Verdict, VerdictKind};
use super::spread::{Spread, mean};
use super::{Access, Findings, Kind, Part, Point, Processors, Question, Sample, Tier, text};
use crate::bend;

/// Efficiency from which a part is no limit. Repeats differ by some percent on a quiet machine.
const SCALES: f64 = 0.9;
/// Confidence from which something is asserted.
const SURE: f64 = 0.9;
/// A thread busier than this has no time left: the rest is the clock's and the kernel's granularity.
const SATURATED: f64 = 0.93;
/// Processors busier than this are the limit of devices that together would need more of them than there is.
const LABOURING: f64 = 0.8;
/// Share of the processors from which other programs are to be blamed for their being busy.
const MUCH: f64 = 0.2;
/// How near to a known limit a measured value must be to be its work.
const AT_LIMIT: f64 = 0.9;
/// Above a known limit by more than this, it cannot be the limit.
const OVER_LIMIT: f64 = 1.1;

impl Survey {
    /// What `findings` say of the machine under `root`. Panics if they are not of it.
    ///
    /// Of a survey that was cut short, the parts that were measured at least once are given, each with as many devices
    /// as were reached; verdicts and ladder are empty unless everything was measured twice.
    pub fn of(root: &Part, findings: &Findings) -> Survey {
        let parts = root.all();
        assert_eq!(parts.len(), findings.curves.len(), "there is a curve for each part");
        let book = Book { root, findings };
        let levels = parts.iter().filter_map(|(path, part)| book.level(path, part)).collect();
        let mut verdicts = Vec::new();
        if !book.is_whole() {
            return Survey { request: findings.request, levels, verdicts, ladder: Vec::new() };
        }
        for question in [Question::Bandwidth, Question::Requests] {
            for (path, part) in parts.iter().rev() {
                verdicts.extend(book.judge(path, part, question));
            }
            verdicts.extend(book.operating_system(question));
            verdicts.extend(book.depth(question));
        }
        Survey { request: findings.request, levels, verdicts, ladder: book.ladder() }
    }
}

/// The findings, to be looked things up in.
struct Book<'a> {
    root: &'a Part,
    findings: &'a Findings,
}

const fn raw(question: Question) -> Kind {
    Kind { access: Access::Raw, question, writes: false }
}

/// The kinds of which every level is made.
fn ways() -> impl Iterator<Item = Kind> {
    let both = [Question::Bandwidth, Question::Requests];
    both.into_iter().flat_map(|question| [raw(question), Kind { access: Access::Os, ..raw(question) }])
}

/// What a point delivers, raw.
fn mean_of(point: &Point, question: Question) -> f64 {
    mean(point.samples[&raw(question)].iter().map(|sample| sample.answer(question)))
}

impl Book<'_> {
    /// True if every point was measured in every way, and twice.
    fn is_whole(&self) -> bool {
        let mut points = self.findings.curves.iter().flat_map(|curve| &curve.points);
        points.all(|point| ways().all(|kind| point.samples.get(&kind).is_some_and(|samples| samples.len() > 1)))
    }

    fn points(&self, path: &[usize]) -> &[Point] {
        let curve =
            self.findings.curves.iter().find(|curve| curve.path == path).expect("there is a curve for each part");
        assert!(!curve.points.is_empty(), "a curve has points");
        &curve.points
    }

    fn full(&self, path: &[usize]) -> &Point {
        self.points(path).last().expect("a curve has points")
    }

    fn spread(&self, path: &[usize], kind: Kind) -> Spread {
        Spread::of(&self.full(path).samples[&kind], kind.question)
    }

    /// What the parts below deliver each alone, added up.
    fn sum_below(&self, path: &[usize], part: &Part, kind: Kind) -> Option<Spread> {
        let children = (0..part.below.len()).map(|index| self.spread(&[path, &[index]].concat(), kind));
        children.reduce(Spread::plus)
    }

    /// The part with the most devices that were measured in every way; nothing if none were.
    fn level(&self, path: &[usize], part: &Part) -> Option<Level> {
        let measured = |point: &&Point| ways().all(|kind| point.samples.contains_key(&kind));
        let points: Vec<&Point> = self.points(path).iter().take_while(measured).collect();
        // One device of several says nothing of what they share.
        let point = *points.last().filter(|point| point.devices.len() >= part.order.len().min(2))?;
        // What is below was measured before.
        let all = point.devices.len() == part.order.len() && part.below.len() > 1;
        let expected = all.then(|| {
            let alone = |index| mean_of(self.full(&[path, &[index]].concat()), Question::Bandwidth);
            let alone_random = |index| mean_of(self.full(&[path, &[index]].concat()), Question::Requests);
            Expected {
                bandwidth: Rate::bytes_per_second((0..part.below.len()).map(alone).sum()),
                requests: Frequency::per_second((0..part.below.len()).map(alone_random).sum()),
            }
        });
        let measured = |access, writes| Measured::of(point, access, writes);
        let written = measured(Access::Raw, true).zip(measured(Access::Os, true)).map(Box::new);
        let curve = points.iter().map(|point| CurvePoint {
            devices: point.devices.len(),
            bandwidth: Rate::bytes_per_second(mean_of(point, Question::Bandwidth)),
            requests: Frequency::per_second(mean_of(point, Question::Requests)),
        });
        Some(Level {
            level: part.tier,
            name: part.name.clone(),
            on: part.on.clone(),
            devices: point.devices.len(),
            expected,
            raw: measured(Access::Raw, false).expect("every point is measured raw"),
            os: measured(Access::Os, false).expect("every point is measured through the operating system"),
            process: measured(Access::Process, false),
            written,
            curve: curve.collect(),
        })
    }

    /// What is to be said of one part, raw.
    fn judge(&self, path: &[usize], part: &Part, question: Question) -> Option<Verdict> {
        let samples = &self.full(path).samples[&raw(question)];
        let measured = Spread::of(samples, question);
        let verdict = |kind, limit: &str, evidence, confidence: f64| Verdict {
            level: part.tier,
            part: part.name.clone(),
            question,
            kind,
            limit: limit.to_owned(),
            evidence,
            confidence: Ratio::new(confidence),
        };
        // Large requests may be held back by their number, and small ones by their bytes.
        let known = part.limits.iter().find_map(|limit| {
            let at = |value: f64, done: f64| (AT_LIMIT * value..=OVER_LIMIT * value).contains(&done);
            let pieces = match question {
                Question::Bandwidth => limit.pieces(self.findings.request),
                Question::Requests => 1,
            };
            let bytes = mean(samples.iter().map(|sample| sample.bandwidth.get()));
            let requests = mean(samples.iter().map(|sample| sample.requests.get())) * pieces as f64;
            let rate = limit.bandwidth.filter(|rate| at(rate.get(), bytes)).map(text::Bound::Rate);
            let number = limit.requests.filter(|number| at(number.get(), requests));
            let bound = rate.or(number.map(|number| text::Bound::Requests { number, pieces }))?;
            Some((limit, bound))
        });
        let generator = mean(samples.iter().map(|sample| sample.generator.get()));
        let processors = || samples.iter().filter_map(|sample| sample.processors);
        let busy = mean(processors().map(Processors::busy));
        let others = mean(processors().map(Processors::others));
        let sum = self.sum_below(path, part, raw(question)).filter(|_| part.below.len() > 1);
        let below = match sum {
            // Of a device alone only a limit from elsewhere can be told, and whether it was driven hard enough.
            None => {
                let sure = 1.0 - measured.doubt_of_mean();
                return if let Some((known, bound)) = known {
                    let evidence = text::known(part, known, bound, question, measured.mean);
                    Some(verdict(VerdictKind::Known, &known.what, evidence, sure))
                } else if generator >= SATURATED {
                    let evidence = text::driven(part, question, measured.mean, generator);
                    Some(verdict(VerdictKind::Generator, "the load generator", evidence, sure))
                } else if !path.is_empty() || part.order.len() > 1 {
                    // Where there are several devices, the question is what they share; a part with a single part below
                    // it leaves the answer to that one.
                    None
                } else if busy >= SATURATED && others > MUCH {
                    let evidence = text::disturbed(part, question, measured.mean, others);
                    // That the processors were taken is measured, however far the repeats lie apart.
                    Some(verdict(VerdictKind::Noise, "other programs", evidence, 1.0))
                } else {
                    let evidence = text::alone(part, question, measured.mean, (generator, busy));
                    Some(verdict(VerdictKind::Device, &part.name, evidence, sure))
                };
            }
            Some(sum) => measured.below(sum, SCALES),
        };
        let story = text::Story {
            part,
            question,
            measured: measured.mean,
            expected: sum.expect("checked above").mean,
            one: self.best_single(part, question),
            bend: self.bend(path, part, question),
        };
        if below < 1.0 - SURE {
            return Some(verdict(VerdictKind::Scales, "", story.scales(), 1.0 - below));
        }
        if below < SURE {
            return Some(verdict(VerdictKind::Noise, "", story.noise(measured.relative()), below.max(1.0 - below)));
        }
        Some(if let Some((known, bound)) = known {
            verdict(VerdictKind::Known, &known.what, text::known(part, known, bound, question, measured.mean), below)
        } else if generator >= SATURATED {
            verdict(VerdictKind::Generator, "the load generator", story.generator(generator), below)
        } else if busy >= SATURATED && others > MUCH {
            verdict(VerdictKind::Noise, "other programs", story.others(others), below)
        } else if busy >= SATURATED {
            verdict(VerdictKind::Processors, "the processors", story.processors(busy), below)
        } else if let Some(needed) =
            self.processors_needed(path, part, question).filter(|needed| *needed > 1.0 - others)
        {
            match busy >= LABOURING {
                true => verdict(VerdictKind::Processors, "the processors", story.demand(busy, needed), below),
                false => verdict(VerdictKind::Undecided, "", story.undecided(busy, needed), below),
            }
        } else {
            verdict(VerdictKind::Shared, &part.name, story.shared(), below)
        })
    }

    /// The share of all processors that what is below takes, each loaded alone, added up: above 1 they cannot all
    /// deliver that at once.
    fn processors_needed(&self, path: &[usize], part: &Part, question: Question) -> Option<f64> {
        let own = |index: usize| {
            let samples = &self.full(&[path, &[index]].concat()).samples[&raw(question)];
            let taken: Option<Vec<f64>> =
                samples.iter().map(|sample| sample.processors.map(|taken| taken.own.get())).collect();
            taken.map(|taken| mean(taken.into_iter()))
        };
        (0..part.below.len()).map(own).sum()
    }

    /// Whether the operating system costs something when all devices are active.
    fn operating_system(&self, question: Question) -> Option<Verdict> {
        let os = Kind { access: Access::Os, question, writes: false };
        let (through, direct) = (self.spread(&[], os), self.spread(&[], raw(question)));
        let confidence = through.below(direct, SCALES);
        if confidence < SURE {
            return None;
        }
        let samples = &self.full(&[]).samples[&os];
        let processors = samples.last().and_then(|sample| sample.processors);
        let evidence =
            text::operating_system(self.root, question, through.mean, direct.mean, processors.map(Processors::busy));
        Some(Verdict {
            level: Tier::Host,
            part: self.root.name.clone(),
            question,
            kind: VerdictKind::OperatingSystem,
            limit: "the operating system".into(),
            evidence,
            confidence: Ratio::new(confidence),
        })
    }

    /// Whether a process per device that waits for each request delivers less than several requests under way, all else
    /// alike.
    fn depth(&self, question: Question) -> Option<Verdict> {
        let whole = &self.full(&[]).samples;
        let process = Kind { access: Access::Process, question, writes: false };
        let one = Spread::of(whole.get(&process).filter(|samples| samples.len() > 1)?, question);
        let several = self.spread(&[], Kind { access: Access::Os, ..process });
        let confidence = one.below(several, SCALES);
        if confidence < SURE {
            return None;
        }
        Some(Verdict {
            level: Tier::Host,
            part: self.root.name.clone(),
            question,
            kind: VerdictKind::Depth,
            limit: "one request at a time".into(),
            evidence: text::depth(self.root, question, one.mean, several.mean),
            confidence: Ratio::new(confidence),
        })
    }

    /// The best that one of the part's devices delivers alone.
    fn best_single(&self, part: &Part, question: Question) -> f64 {
        let devices = self.root.all().into_iter().filter(|(_, leaf)| leaf.below.is_empty());
        let ours = devices.filter(|(_, leaf)| part.order.contains(&leaf.order[0]));
        ours.map(|(path, _)| self.spread(&path, raw(question)).mean).fold(0.0, f64::max)
    }

    /// The shape of the part's curve, raw, if it can be told.
    fn bend(&self, path: &[usize], part: &Part, question: Question) -> Option<bend::Verdict<Frequency>> {
        // Only counts and shares are taken from the verdict: bytes or requests per second, the shape is the same.
        let rates = |samples: &[Sample]| -> Vec<Frequency> {
            samples.iter().map(|sample| Frequency::per_second(sample.answer(question))).collect()
        };
        let leaves = self.root.all();
        let alone = part.order.iter().map(|device| {
            let leaf = leaves.iter().find(|(_, leaf)| leaf.below.is_empty() && leaf.order[0] == *device);
            let (path, _) = leaf.expect("each device is a leaf");
            rates(&self.full(path).samples[&raw(question)])
        });
        let together = self.points(path).iter().map(|point| rates(&point.samples[&raw(question)]));
        let curve = bend::Curve { alone: alone.collect(), together: together.collect(), generator: Vec::new() };
        let positive = |points: &[Vec<Frequency>]| points.iter().flatten().all(|rate| rate.get() > 0.0);
        if !positive(&curve.alone) || !positive(&curve.together) {
            return None;
        }
        bend::bend(&curve).map(|bend| bend.verdict)
    }

    fn ladder(&self) -> Vec<Rung> {
        let mut rungs = Vec::new();
        let os = |question| self.spread(&[], Kind { access: Access::Os, question, writes: false }).mean;
        rungs.push(rung("the operating system", os(Question::Bandwidth), os(Question::Requests)));
        let mut tiers: Vec<Tier> = self.root.all().iter().map(|(_, part)| part.tier).collect();
        tiers.sort_unstable();
        tiers.dedup();
        for tier in tiers.into_iter().rev() {
            let sum = |question| self.capacity(&mut Vec::new(), self.root, tier, question);
            rungs.push(rung(&text::tier(self.root, tier), sum(Question::Bandwidth), sum(Question::Requests)));
        }
        // Noise may turn two rungs of the same height around; the order of limits is by height.
        rungs.sort_by(|a, b| a.bandwidth.get().total_cmp(&b.bandwidth.get()));
        rungs
    }

    /// What the parts of a tier deliver, each loaded alone. A branch without that tier counts with the next below it.
    fn capacity(&self, path: &mut Vec<usize>, part: &Part, tier: Tier, question: Question) -> f64 {
        if part.tier <= tier || part.below.is_empty() {
            return self.spread(path, raw(question)).mean;
        }
        let mut sum = 0.0;
        for (index, below) in part.below.iter().enumerate() {
            path.push(index);
            sum += self.capacity(path, below, tier, question);
            path.pop();
        }
        sum
    }
}

fn rung(part: &str, bandwidth: f64, requests: f64) -> Rung {
    let (bandwidth, requests) = (Rate::bytes_per_second(bandwidth), Frequency::per_second(requests));
    Rung { part: part.to_owned(), bandwidth, requests }
}
