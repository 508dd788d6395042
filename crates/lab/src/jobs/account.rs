//! What became of jobs, as fio reports it: one entry a job, or one for all of a group that asks for it (`group_reporting`).
//!
//! The processor time of a process is divided evenly among the jobs that it ran at once: which job a system call was for is not known, as one call
//! serves the requests of several.

use analysis::by_job::JobTally;
use fio::Job;
use report::FioJob;
use units::Duration;

use crate::document::Point;
use crate::experiment::StreamPlan;
use crate::jobs::{Part, Phase};

impl Phase {
    /// Its jobs in the order of the file, `jobs`, with what each of its streams came to, and the user and system time that the process took for them.
    ///
    /// # Panics
    /// If there is not one tally for each stream.
    pub fn account(&self, jobs: &[Job], tallies: Vec<JobTally>, own_time: [Duration; 2]) -> Vec<FioJob> {
        assert_eq!(tallies.len(), self.parts.len(), "each stream has its tally");
        // Of a trace each device is a stream, and all of them are one job.
        let begins = |index: usize| index == 0 || self.parts[index - 1] != self.parts[index];
        let running = (0..self.parts.len()).filter(|index| begins(*index)).count();
        let mut entries: Vec<FioJob> = Vec::new();
        for ((index, Part { job, group, .. }), tally) in self.parts.iter().copied().enumerate().zip(tallies) {
            let job = &jobs[job];
            let entry = FioJob {
                name: job.name.clone(),
                group,
                options: job.options[0].clone(),
                tally,
                jobs: 1,
                processor: shared(own_time, running),
                depth: job.depth,
            };
            match entries.last_mut() {
                Some(same) if !begins(index) => same.tally.merge(&entry.tally),
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
    pub fn account(&self, group: u32, tallies: Vec<JobTally>, own_time: [Duration; 2]) -> Vec<FioJob> {
        let streams = &self.experiment.streams;
        assert_eq!(tallies.len(), streams.len(), "each stream has its tally");
        let entry = |(plan, tally): (&StreamPlan, JobTally)| FioJob {
            name: plan.stream.name.clone(),
            group,
            options: self.settings.iter().map(|set| (set.key.clone(), set.value.clone())).collect(),
            tally,
            jobs: 1,
            processor: shared(own_time, streams.len()),
            depth: plan.stream.lanes(),
        };
        streams.iter().zip(tallies).map(entry).collect()
    }
}

/// A job's share of the process's time.
fn shared(time: [Duration; 2], jobs: usize) -> [Duration; 2] {
    time.map(|time| time / jobs.max(1) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::plan;

    /// The phases of a job file, with as much of the process's time for each as there are jobs in it, in seconds.
    fn accounts(text: &str) -> Vec<Vec<FioJob>> {
        let surroundings =
            fio::Surroundings { variable: &|_| None, keyword: &|_| None, include: &|_, _| Err("none".into()) };
        let file = fio::read("test.fio", text, &surroundings, fio::Rigour::Strict).unwrap();
        let on = ["null:1MiB".parse().unwrap()];
        let of = |phase: &Phase| {
            let tallies = vec![JobTally::default(); phase.parts.len()];
            let time = Duration::seconds(phase.parts.len() as u64);
            phase.account(&file.jobs, tallies, [time, time * 2])
        };
        plan("test", &file, &on).unwrap().iter().map(of).collect()
    }

    #[test]
    fn jobs_are_reported_one_by_one_or_as_a_group_and_share_the_time() {
        let each = accounts("[a]\nsize=64k\nnumjobs=2\n[b]\nsize=64k\n");
        let seen: Vec<_> =
            each[0].iter().map(|job| (job.name.as_str(), job.group, job.jobs, job.processor[1])).collect();
        let two = Duration::seconds(2);
        assert_eq!(seen, [("a", 0, 1, two), ("a", 0, 1, two), ("b", 0, 1, two)]);

        let text = "[global]\nsize=64k\ngroup_reporting\n[a]\nnumjobs=2\n[b]\n[c]\nnew_group\n[d]\nstonewall\n";
        let grouped = accounts(text);
        let seen: Vec<Vec<_>> = grouped
            .iter()
            .map(|phase| phase.iter().map(|job| (job.name.as_str(), job.group, job.jobs, job.processor[0])).collect())
            .collect();
        let seconds = Duration::seconds;
        assert_eq!(seen, [vec![("a", 0, 3, seconds(3)), ("c", 1, 1, seconds(1))], vec![("d", 2, 1, seconds(1))]]);
    }
}
