//! The completions of which deltas are made.
//!
//! Which requests count for a rate is decided by when they were meant to start, as how long one takes must not decide
//! about it. A delta is the time to the next completion, whichever request that is of, and the study merges all that
//! its processes log. So a pass is looked at from its first completion that counts up to the first of a request that
//! was meant to start after the measuring. Taken from counted requests alone, the deltas at its end would reach over
//! completions of the others: the last counted request of a device that is starved may end seconds after the measuring.

use record::{Operation, Phase, Row};

use super::Finish;

/// Completions of all phases, as they come.
#[derive(Debug)]
pub struct Merged {
    stamps: Vec<(Finish, Phase)>,
    most: usize,
    seen: u64,
}

impl Merged {
    /// Takes so many completions at most, and leaves the others out.
    pub const fn at_most(most: usize) -> Merged {
        Merged { stamps: Vec::new(), most, seen: 0 }
    }

    /// Takes rows, in any order. Those of requests that failed are no completions, and flushes move nothing over what
    /// devices share.
    pub fn add(&mut self, rows: &[Row]) {
        let done = || rows.iter().filter(|row| row.errno == 0 && row.operation != Operation::Flush);
        self.seen += done().count() as u64;
        let stamp = |row: &Row| (Finish { at: row.completed, device: row.device, pass: row.pass }, row.phase);
        self.stamps.extend(done().map(stamp).take(self.most - self.stamps.len()));
    }

    /// How many completions were left out.
    pub fn left_out(&self) -> u64 {
        self.seen - self.stamps.len() as u64
    }

    /// What there is to look at, in order of time within each pass.
    ///
    /// Threads hand their rows over in the order in which they saw completions, which differs from that of the stamps
    /// by microseconds.
    pub fn finish(mut self) -> Vec<Finish> {
        self.stamps.sort_by_key(|(finish, _)| (finish.pass, finish.at));
        let passes = self.stamps.chunk_by(|(a, _), (b, _)| a.pass == b.pass);
        let measured = passes.flat_map(|pass| {
            let from_first = pass.iter().skip_while(|(_, phase)| *phase != Phase::Measure);
            from_first.take_while(|(_, phase)| *phase != Phase::CoolDown)
        });
        measured.map(|(finish, _)| *finish).collect()
    }
}

#[cfg(test)]
mod tests {
    use units::Instant;

    use super::*;

    fn row(phase: Phase, pass: u16, device: u16, completed: u64) -> Row {
        let completed = Instant::from_nanos(completed);
        Row { completed, device, pass, ..Row::new(Operation::Read, phase) }
    }

    fn instants(finishes: &[Finish]) -> Vec<(u16, u64)> {
        finishes.iter().map(|finish| (finish.pass, finish.at.as_nanos())).collect()
    }

    #[test]
    fn a_starved_device_leaves_no_gap_at_the_end_and_the_start_up_none_at_the_beginning() {
        use Phase::{CoolDown, Measure, StartUp};
        let mut merged = Merged::at_most(100);
        // Device 1 is starved: its only counted request ends long after the measuring, its last one of the start-up
        // after the first counted one.
        let rows = [(StartUp, 0, 10), (Measure, 0, 20), (StartUp, 1, 25), (Measure, 0, 30), (CoolDown, 0, 40)];
        merged.add(&rows.map(|(phase, device, at)| row(phase, 0, device, at)));
        merged.add(&[row(CoolDown, 0, 0, 50), row(Measure, 0, 1, 90), row(Measure, 1, 0, 7), row(StartUp, 1, 0, 5)]);
        assert_eq!(merged.left_out(), 0);
        assert_eq!(instants(&merged.finish()), [(0, 20), (0, 25), (0, 30), (1, 7)]);
    }

    #[test]
    fn a_request_that_failed_is_no_completion() {
        let mut merged = Merged::at_most(2);
        let failed = Row { errno: 5, ..row(Phase::Measure, 0, 1, 15) };
        merged.add(&[row(Phase::Measure, 0, 0, 10), failed, row(Phase::Measure, 0, 0, 20)]);
        assert_eq!(merged.left_out(), 0);
        assert_eq!(instants(&merged.finish()), [(0, 10), (0, 20)]);
    }

    #[test]
    fn a_pass_that_counts_anything_has_a_completion() {
        let mut merged = Merged::at_most(2);
        merged.add(&[row(Phase::CoolDown, 0, 0, 10), row(Phase::Measure, 0, 1, 20), row(Phase::Measure, 0, 1, 30)]);
        assert_eq!(merged.left_out(), 1);
        assert_eq!(instants(&merged.finish()), [(0, 20)]);
    }
}
