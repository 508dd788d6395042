//! The recording: all rows of a run, in order of completion, wherever they lie.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

use units::Instant;

use crate::keeper::Chunk;
use crate::log::CHUNK_ROWS;
use crate::raw::{RawError, RawFile};
use crate::{Meta, Phase, Row};

/// The rows of all logs of a run.
#[derive(Debug)]
pub struct Recording {
    /// Per log, oldest first.
    logs: Vec<Vec<Part>>,
    raw: Option<RawFile>,
    loss: Loss,
    late_chunks: u64,
    /// Rows of these streams count from these moments on.
    counts_from: Vec<(u16, Instant)>,
}

/// Rows that lie together.
#[derive(Debug)]
pub(crate) enum Part {
    /// A block of the raw file.
    OnDisk(usize),
    /// A chunk.
    InMemory(Chunk),
}

/// What was not recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Loss {
    /// How many requests have no row.
    pub rows: u64,
    /// Why the disk took no more, if it did not.
    pub reason: Option<String>,
}

impl Recording {
    pub(crate) fn new(logs: Vec<Vec<Part>>, raw: Option<RawFile>, loss: Loss, late_chunks: u64) -> Recording {
        Recording { logs, raw, loss, late_chunks, counts_from: Vec::new() }
    }

    /// What a run that did not end properly left in its raw file.
    pub fn from_raw(path: &Path) -> Result<(Recording, Meta), RawError> {
        let (raw, meta) = RawFile::open(path)?;
        let mut logs: Vec<Vec<Part>> = Vec::new();
        for (index, block) in raw.blocks().iter().enumerate() {
            logs.resize_with(logs.len().max(usize::from(block.log) + 1), Vec::new);
            logs[usize::from(block.log)].push(Part::OnDisk(index));
        }
        Ok((Recording::new(logs, Some(raw), Loss::default(), 0), meta))
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        let in_memory = |part: &Part| match part {
            Part::OnDisk(_) => 0,
            Part::InMemory(chunk) => chunk.len() as u64,
        };
        self.raw.as_ref().map_or(0, RawFile::rows) + self.logs.iter().flatten().map(in_memory).sum::<u64>()
    }

    /// What was not recorded.
    pub fn loss(&self) -> &Loss {
        &self.loss
    }

    /// Counts what others lost before they handed their rows to this recording.
    pub fn add_loss(&mut self, loss: &Loss) {
        self.loss.rows += loss.rows;
        self.loss.reason = self.loss.reason.take().or(loss.reason.clone());
    }

    /// From now on, what a stream meant to ask before `from` is given out as of the start-up: it proved not to count.
    pub fn count_from(&mut self, stream: u16, from: Instant) {
        self.counts_from.push((stream, from));
    }

    /// The rows as they count.
    fn counted<'r>(&self, rows: &'r [Row]) -> Cow<'r, [Row]> {
        if self.counts_from.is_empty() {
            return Cow::Borrowed(rows);
        }
        let early =
            |row: &Row| self.counts_from.iter().any(|(stream, from)| row.stream == *stream && row.intended < *from);
        let of = |row: &Row| Row { phase: if early(row) { Phase::StartUp } else { row.phase }, ..*row };
        Cow::Owned(rows.iter().map(of).collect())
    }

    /// Chunks whose memory was first touched within the run, because the keeper was late: each put about a thousand
    /// page faults there.
    pub fn late_chunks(&self) -> u64 {
        self.late_chunks
    }

    /// The raw file that holds a part of the rows, if one had to be made.
    pub fn raw(&self) -> Option<&RawFile> {
        self.raw.as_ref()
    }

    /// Gives all rows to `take`, some at a time, in order of completion (of equals, the lower log's first), provided
    /// that each log was filled in that order; rows of one log never change places.
    pub fn visit<E: From<RawError>>(&self, mut take: impl FnMut(&[Row]) -> Result<(), E>) -> Result<(), E> {
        let mut take = |rows: &[Row]| take(&self.counted(rows));
        let mut cursors = Vec::new();
        for parts in &self.logs {
            let mut cursor = Cursor { parts, raw: self.raw.as_ref(), block: None, loaded: Vec::new(), next: 0 };
            if cursor.settle()? {
                cursors.push(cursor);
            }
        }
        // By the row that comes next; there may be thousands of logs, one for each job.
        let mut heads: BinaryHeap<Reverse<(Instant, usize)>> =
            cursors.iter().enumerate().map(|(log, cursor)| Reverse((cursor.head(), log))).collect();
        let mut merged: Chunk = Vec::new();
        while let Some(Reverse((_, behind))) = heads.pop() {
            // The log that is behind gives its rows up to where the next one starts.
            let cursor = &mut cursors[behind];
            let limit = heads.peek().map(|Reverse(limit)| *limit);
            let Some(limit) = limit else {
                // The last one has no other to wait for.
                if !merged.is_empty() {
                    take(&merged)?;
                }
                while cursor.settle()? {
                    take(cursor.rows())?;
                    cursor.next += cursor.rows().len();
                }
                return Ok(());
            };
            let run = cursor.rows().iter().take_while(|row| (row.completed, behind) < limit).count();
            // A log that is not in order still moves on.
            let run = run.max(1).min(CHUNK_ROWS - merged.len());
            merged.extend_from_slice(&cursor.rows()[..run]);
            cursor.next += run;
            if merged.len() == CHUNK_ROWS {
                take(&merged)?;
                merged.clear();
            }
            if cursor.settle()? {
                heads.push(Reverse((cursor.head(), behind)));
            }
        }
        Ok(())
    }
}

/// A place in one log.
struct Cursor<'r> {
    /// What is left; the first part is being read.
    parts: &'r [Part],
    raw: Option<&'r RawFile>,
    /// The block that was read last, and its rows.
    block: Option<usize>,
    loaded: Chunk,
    /// The row of the first part that comes next.
    next: usize,
}

impl Cursor<'_> {
    /// Goes to the next part that has rows; false at the end.
    fn settle(&mut self) -> Result<bool, RawError> {
        loop {
            match self.parts.first() {
                None => return Ok(false),
                Some(Part::OnDisk(block)) if self.block != Some(*block) => {
                    let raw = self.raw.expect("parts on disk lie in the raw file");
                    raw.read(*block, &mut self.loaded)?;
                    self.block = Some(*block);
                }
                Some(_) => {}
            }
            if !self.rows().is_empty() {
                return Ok(true);
            }
            self.parts = &self.parts[1..];
            self.next = 0;
        }
    }

    fn rows(&self) -> &[Row] {
        match self.parts.first() {
            None => &[],
            Some(Part::OnDisk(_)) => &self.loaded[self.next..],
            Some(Part::InMemory(chunk)) => &chunk[self.next..],
        }
    }

    fn head(&self) -> Instant {
        self.rows()[0].completed
    }
}
