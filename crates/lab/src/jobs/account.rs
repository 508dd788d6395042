//! What became of jobs, as fio reports it: one entry a job, or one for all of a group that asks for it
//! (`group_reporting`).
//!
//! What a thread took from the machine (processor time, switches, page faults) is known by thread. Jobs that wait in
//! system calls have one each, and what it took is theirs; where one thread serves several jobs it is divided evenly
//! among them, as one system call serves the requests of several.

use analysis::by_job::{Booking, Counting, JobTally, Lasting};
use fio::{Check, Direction, Engine, Job, Unified};
use report::{Directions, FioJob, Shown, Used};
use workload::Stream;

use crate::document::Point;
use crate::experiment::StreamPlan;
use crate::jobs::{Part, Phase};
use crate::runner::Conclusion;

/// ENOSPC.
const NO_SPACE: u16 = 28;

/// EILSEQ, which is fio's word for what verification finds.
const MISMATCH: u16 = 84;

impl Phase {
    /// What is to be counted of each of its streams.
    pub fn countings(&self, jobs: &[Job]) -> Vec<Counting> {
        let streams = self.experiment.streams.iter().map(|plan| &plan.stream);
        self.parts.iter().zip(streams).map(|(part, stream)| jobs[part.job].counting(stream)).collect()
    }

    /// Its jobs in the order of the file, `jobs`, with what each of its streams came to, and what the run's threads
    /// took.
    ///
    /// # Panics
    /// If there is not one tally for each stream.
    pub fn account(&self, jobs: &[Job], tallies: Vec<JobTally>, conclusion: &Conclusion) -> Vec<FioJob> {
        assert_eq!(tallies.len(), self.parts.len(), "each stream has its tally");
        // Of a trace each device is a stream, and all of them are one job.
        let begins = |index: usize| index == 0 || self.parts[index - 1] != self.parts[index];
        let used = used(&self.experiment.streams, conclusion);
        let mut entries: Vec<FioJob> = Vec::new();
        for ((index, Part { job, group, .. }), mut tally) in self.parts.iter().copied().enumerate().zip(tallies) {
            let job = &jobs[job];
            // As in fio, a job that is held back lasts until it is over.
            let over = conclusion.over.iter().filter(|(of, _)| *of == index).map(|(_, over)| *over).max();
            over.into_iter().for_each(|over| tally.lasts_until(over));
            if job.fills && tally.error == NO_SPACE {
                tally.error = 0;
            }
            // What ended it need not be a request that failed.
            if let (0, Some(failed)) = (tally.error, conclusion.failures.iter().find(|failed| failed.stream == index)) {
                tally.error = failed.error.errno() as u16;
            }
            let plan = &self.experiment.streams[index];
            let wrong = |device: &usize| plan.on.as_ref().is_none_or(|on| on.contains(device));
            if tally.error == 0 && plan.stream.verify.is_some() && conclusion.mismatched.iter().any(wrong) {
                tally.error = MISMATCH;
            }
            let entry = FioJob {
                name: job.name.clone(),
                group,
                options: job.options[0].clone(),
                fsyncs: job.fsyncs(&tally),
                tally,
                jobs: 1,
                used: used[index],
                depth: conclusion
                    .searched
                    .iter()
                    .find(|(of, _)| *of == index)
                    .map_or(job.depth, |(_, found)| found.depth),
                search: job.rules.search.map(|search| report::Search {
                    target: search.target,
                    window: search.window,
                    percent: search.percent,
                }),
                shown: job.shown(),
            };
            match entries.last_mut() {
                Some(same) if !begins(index) => {
                    same.tally.merge(&entry.tally);
                    same.fsyncs += entry.fsyncs;
                    same.used = same.used.plus(&entry.used);
                }
                Some(first) if job.group_reporting && first.group == group => first.add(&entry),
                _ => entries.push(entry),
            }
        }
        entries
    }
}

impl Point {
    /// The streams of an experiment as jobs of fio; a point of a sweep is a group. As [`Phase::account`].
    ///
    /// # Panics
    /// If there is not one tally for each stream.
    pub fn account(&self, group: u32, tallies: Vec<JobTally>, conclusion: &Conclusion) -> Vec<FioJob> {
        let streams = &self.experiment.streams;
        assert_eq!(tallies.len(), streams.len(), "each stream has its tally");
        let used = used(streams, conclusion);
        let entry = |((plan, tally), used): ((&StreamPlan, JobTally), Used)| FioJob {
            name: plan.stream.name.clone(),
            group,
            options: self.settings.iter().map(|set| (set.key.clone(), set.value.clone())).collect(),
            fsyncs: tally.flushes.count,
            tally,
            jobs: 1,
            used,
            depth: plan.stream.lanes(),
            search: None,
            shown: Shown::default(),
        };
        streams.iter().zip(tallies).zip(used).map(entry).collect()
    }
}

/// To which of fio's times the parts of its responses go.
pub(super) fn booking(job: &Job, stream: &Stream) -> Booking {
    match job.engine {
        _ if !stream.one_at_a_time => Booking::AsStamped,
        Engine::Posix => Booking::AtCompletion,
        _ => Booking::AtSubmission,
    }
}

/// What of a job is counted and shown.
trait Account {
    fn counting(&self, stream: &Stream) -> Counting;
    fn shown(&self) -> Shown;
    /// How many of its flushes were of times and attributes, too.
    fn fsyncs(&self, tally: &JobTally) -> u64;
}

impl Account for Job {
    fn counting(&self, stream: &Stream) -> Counting {
        // As in fio, where shares of requests have a priority of their own.
        let by_priority = self.priorities.drawn.iter().any(|drawn| !drawn.is_empty());
        let booking = booking(self, stream);
        Counting {
            percentiles: self.reporting.percentiles,
            ends_with_flush: self.flush_at_end,
            by_priority,
            booking,
            lasting: match (self.verify, self.direction) {
                (None | Some(Check::Later), _) | (_, Direction::Read) => Lasting::Together,
                (Some(Check::AtEnd), Direction::Write) => Lasting::InTurn,
                (Some(_), _) => Lasting::Apart,
            },
        }
    }

    fn shown(&self) -> Shown {
        let Shown { percentiles: usual, .. } = Shown::default();
        let reporting = &self.reporting;
        let one_by_one = match self.engine {
            Engine::Sync | Engine::Mmap => true,
            Engine::Null => self.depth == 1,
            Engine::Queue | Engine::Aio | Engine::Posix => false,
        };
        let mut times: [(bool, bool); 3] =
            std::array::from_fn(|index| (reporting.times[index], reporting.percentiles[index]));
        // Who asks and waits in one call has no time of submission.
        times[0].0 &= !one_by_one;
        Shown {
            times,
            samples: reporting.samples,
            percentiles: if reporting.list.is_empty() { usual } else { reporting.list.clone() },
            directions: match reporting.unified {
                Unified::Apart => Directions::Apart,
                Unified::Mixed => Directions::Mixed,
                Unified::Both => Directions::Both,
            },
        }
    }

    fn fsyncs(&self, tally: &JobTally) -> u64 {
        let flushes = tally.flushes.count;
        let [full, data, range] = [self.fsync, self.fdatasync, self.writeback.0].map(u64::from);
        match (full, data + range) {
            (_, 0) => flushes,
            (0, _) => 0,
            // Where several are due, the whole one is made.
            _ => {
                let due = |every: u64| tally.sides[1].requests.checked_div(every).unwrap_or(0);
                let either = lcm(data, range);
                let others = due(data) + due(range) - due(either);
                let both = due(lcm(full, data)) + due(lcm(full, range)) - due(lcm(full, either));
                flushes.saturating_sub(others - both)
            }
        }
    }
}

/// The least number that both divide; 0 if one of them is 0, or if there is none that can be written.
fn lcm(a: u64, b: u64) -> u64 {
    if a == 0 || b == 0 { 0 } else { (a / gcd(a, b)).checked_mul(b).unwrap_or(0) }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// By stream: its share of what the threads took that loaded its devices.
fn used(streams: &[StreamPlan], conclusion: &Conclusion) -> Vec<Used> {
    let mut of_device: Vec<Option<usize>> = vec![None; conclusion.sizes.len()];
    for (thread, (devices, _)) in conclusion.used.iter().enumerate() {
        for device in devices {
            if let Some(of) = of_device.get_mut(*device) {
                *of = Some(thread);
            }
        }
    }
    let threads = |plan: &StreamPlan| {
        let all: Vec<usize> = (0..of_device.len()).collect();
        let mut threads: Vec<usize> =
            plan.on.as_ref().unwrap_or(&all).iter().filter_map(|device| *of_device.get(*device)?).collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    };
    let of_stream: Vec<Vec<usize>> = streams.iter().map(threads).collect();
    let mut sharers = vec![0u64; conclusion.used.len()];
    of_stream.iter().flatten().for_each(|thread| sharers[*thread] += 1);
    let share = |threads: &Vec<usize>| {
        let parts = threads.iter().map(|thread| conclusion.used[*thread].1.shared(sharers[*thread]));
        parts.fold(Used::default(), |sum, part| sum.plus(&part))
    };
    of_stream.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;
    use crate::jobs::plan;

    /// The phases of a job file, run by one thread that took a second of user time and two of system time for each job.
    fn accounts(text: &str) -> Vec<Vec<FioJob>> {
        let surroundings =
            fio::Surroundings { variable: &|_| None, keyword: &|_| None, include: &|_, _| Err("none".into()) };
        let file = fio::read("test.fio", text, &surroundings, fio::Rigour::Strict).unwrap();
        let on = ["null:1MiB".parse().unwrap()];
        let of = |phase: &Phase| {
            let tallies = vec![JobTally::default(); phase.parts.len()];
            let time = Duration::seconds(phase.parts.len() as u64);
            let used = Used { user: time, system: time * 2, switches: 7, ..Used::default() };
            let sizes = vec![units::Bytes::ZERO];
            phase.account(
                &file.jobs,
                tallies,
                &Conclusion { sizes, used: vec![(vec![0], used)], ..Conclusion::default() },
            )
        };
        plan("test", &file, &on).unwrap().iter().map(of).collect()
    }

    #[test]
    fn jobs_are_reported_one_by_one_or_as_a_group_and_share_the_time() {
        let each = accounts("[a]\nsize=64k\nnumjobs=2\n[b]\nsize=64k\n");
        let seen: Vec<_> =
            each[0].iter().map(|job| (job.name.as_str(), job.group, job.jobs, job.used.system)).collect();
        let two = Duration::seconds(2);
        assert_eq!(seen, [("a", 0, 1, two), ("a", 0, 1, two), ("b", 0, 1, two)]);

        let text = "[global]\nsize=64k\ngroup_reporting\n[a]\nnumjobs=2\n[b]\n[c]\nnew_group\n[d]\nstonewall\n";
        let grouped = accounts(text);
        let seen: Vec<Vec<_>> = grouped
            .iter()
            .map(|phase| phase.iter().map(|job| (job.name.as_str(), job.group, job.jobs, job.used.user)).collect())
            .collect();
        let seconds = Duration::seconds;
        assert_eq!(seen, [vec![("a", 0, 3, seconds(3)), ("c", 1, 1, seconds(1))], vec![("d", 2, 1, seconds(1))]]);
    }

    #[test]
    fn jobs_with_a_thread_each_have_what_it_took() {
        let surroundings =
            fio::Surroundings { variable: &|_| None, keyword: &|_| None, include: &|_, _| Err("none".into()) };
        let file = fio::read("t.fio", "[a]\nioengine=null\nsize=64k\nnumjobs=3\n", &surroundings, fio::Rigour::Strict)
            .unwrap();
        let phase = plan("test", &file, &[]).unwrap().remove(0);
        let took = |seconds| Used { user: Duration::seconds(seconds), switches: seconds, ..Used::default() };
        let used = vec![(vec![0, 2], took(4)), (vec![1], took(9))];
        let conclusion = Conclusion { sizes: vec![units::Bytes::kib(64); 3], used, ..Conclusion::default() };
        let entries = phase.account(&file.jobs, vec![JobTally::default(); 3], &conclusion);
        assert_eq!(entries.iter().map(|job| job.used.switches).collect::<Vec<_>>(), [2, 9, 2]);
    }
}
