//! Patterns of updates: files of one size are written anew, whole, again and again, in a file system that is filled
//! to a utilization.
//!
//! # Theory
//! *Uniform*: each file is as likely as any other to be next. *Hot and cold*: a few files get most of the writes (10
//! and 90 percent, say), and within each of the two groups all are equally likely. (M. Rosenblum and J. K. Ousterhout,
//! 1991.)

use units::{Bytes, Ratio};

use super::{Cost, Log, LogError, Transfer};

/// Which file is written next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pattern {
    /// Any.
    Uniform,
    /// One of the hot ones with the probability `writes`.
    HotAndCold {
        /// The share of files that are hot.
        files: Ratio,
        /// The share of writes that go to hot files.
        writes: Ratio,
    },
}

impl Pattern {
    /// A tenth of the files gets nine tenths of the writes.
    pub fn hot_and_cold() -> Pattern {
        Pattern::HotAndCold { files: Ratio::percent(10.0), writes: Ratio::percent(90.0) }
    }
}

/// Updates of the files of a log.
#[derive(Debug, Clone)]
pub struct Updates {
    /// Which file is written next.
    pub pattern: Pattern,
    /// Dirty data that makes a flush.
    pub buffer: Bytes,
    blocks: u64,
    files: Vec<u64>,
}

impl Updates {
    /// Makes files of so many blocks, each, that they take a share of the disk, and flushes.
    ///
    /// # Errors
    /// Those of the log, above all [`LogError::Full`] if cleaning leaves no room for so much.
    pub fn fill(log: &mut Log, share: Ratio, blocks: u64, pattern: Pattern) -> Result<Updates, LogError> {
        let parameters = log.parameters();
        let count = (parameters.disk.get() as f64 * share.get() / (parameters.block * blocks).get() as f64) as u64;
        // One hot file and one cold, at least.
        let count = count.max(2);
        let buffer = parameters.segment * 4;
        let mut updates = Updates { pattern, buffer, blocks, files: Vec::new() };
        for number in 0..count {
            let file = log.create(&format!("file{number}"))?;
            updates.files.push(file);
            updates.update(log, file)?;
        }
        log.flush()?;
        Ok(updates)
    }

    /// Files that are updated.
    pub fn files(&self) -> &[u64] {
        &self.files
    }

    /// Updates one file, chosen by `random`, which gives a number below its argument. Gives the transfers of the flush,
    /// if there is one.
    ///
    /// # Errors
    /// Those of the log.
    pub fn step(&self, log: &mut Log, random: &mut impl FnMut(u64) -> u64) -> Result<Vec<Transfer>, LogError> {
        let all = self.files.len() as u64;
        let chosen = match self.pattern {
            Pattern::Uniform => random(all),
            Pattern::HotAndCold { files, writes } => {
                let hot = ((all as f64 * files.get()) as u64).clamp(1, all - 1);
                let is_hot = random(1 << 20) < (writes.get() * f64::from(1 << 20)) as u64;
                if is_hot { random(hot) } else { hot + random(all - hot) }
            }
        };
        self.update(log, self.files[chosen as usize])
    }

    /// Makes so many updates, and gives what they cost.
    ///
    /// # Errors
    /// Those of the log.
    pub fn run(&self, log: &mut Log, updates: u64, random: &mut impl FnMut(u64) -> u64) -> Result<Cost, LogError> {
        let before = *log.cost();
        for _ in 0..updates {
            self.step(log, random)?;
        }
        Ok(log.cost().since(&before))
    }

    fn update(&self, log: &mut Log, file: u64) -> Result<Vec<Transfer>, LogError> {
        for block in 0..self.blocks {
            log.write(file, block)?;
        }
        if log.pending() >= self.buffer { log.flush() } else { Ok(Vec::new()) }
    }
}
