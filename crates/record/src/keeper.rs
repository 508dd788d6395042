//! The recorder and its keeper: the thread that has memory ready and takes full chunks away.
//!
//! Memory for the expected rows is allocated and touched before the run. Beyond that the keeper touches chunks ahead,
//! two per log, in the background. The alternative, at pass boundaries, was rejected: a pass without a limit on its
//! requests may need any amount. A chunk costs the keeper less than 1 ms on a processor of its own choosing; on the
//! thread of the generator the same page faults would stand in the latencies of the requests around them.
//!
//! Many threads share the memory that there is: where it holds too few chunks for all of them, chunks are smaller.
//! Refusing a run of a hundred jobs for want of a gibibyte was what came of one size for all; smaller chunks for
//! everybody would cost fast runs a lock more often.
//!
//! When the memory granted is used up, full chunks are appended to the raw file, oldest first, and their memory,
//! already touched, serves again. If the disk refuses (full, gone), spilling stops; memory that is left is filled; then
//! rows are lost and counted. The run goes on, or ends if the generator so decides by [`Recorder::trouble`].

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use units::Bytes;

use crate::log::{CHUNK_ROWS, Log};
use crate::raw::RawWriter;
use crate::recording::{Loss, Part, Recording};
use crate::{Meta, RawError, Row};

pub(crate) type Chunk = Vec<Row>;

/// Memory of a row.
const ROW_BYTES: Bytes = Bytes::new(size_of::<Row>() as u64);

/// Chunks are not smaller than this.
const LEAST_ROWS: usize = 16;

/// Where chunks become smaller, so many times what may be partly filled or kept ahead fits into the memory granted.
const ROOM: u64 = 4;

/// Chunks that the keeper has ready per log: one being asked for, one in reserve.
const AHEAD_PER_LOG: usize = 2;

/// How rows are kept.
#[derive(Debug, Clone)]
pub struct Keeping {
    /// Rows that the run is expected to make in all; memory for them, as far as granted, is touched before the run. 0
    /// if unknown.
    pub expected_rows: u64,
    /// Memory granted for rows.
    pub memory: Bytes,
    /// What happens with full chunks.
    pub spill: Spill,
    /// What happens when rows come faster than the disk takes them and the memory is used up.
    pub when_behind: WhenBehind,
}

/// What happens with full chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spill {
    /// They stay in memory; what exceeds it is lost.
    Never,
    /// They stay in memory until that is used up, and then go to this raw file. The run's own disk is not disturbed
    /// while memory lasts.
    WhenFull(PathBuf),
    /// They go to this raw file at once, so that little is lost if the process is killed.
    AsYouGo(PathBuf),
}

/// What a log does when no memory is left and the disk has not yet taken the full chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenBehind {
    /// Loses rows and counts them: a live run is not stalled by its own recording.
    Lose,
    /// Waits for the disk: right under the virtual clock, where waiting takes no time.
    Wait,
}

/// Why recording cannot start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum RecordError {
    /// The memory granted is not enough for chunks in flight.
    #[error("{granted:#} of memory are too little to record with {logs} threads; grant at least {needed:#}")]
    TooLittleMemory { granted: Bytes, needed: Bytes, logs: usize },
    /// The raw file cannot be made.
    #[error(transparent)]
    Raw(#[from] RawError),
    /// No thread.
    #[error(
        "no thread could be started to keep the records: {0}; lower the load of the machine or raise its limit (ulimit -u)"
    )]
    Thread(io::Error),
}

/// Owns the memory of all logs of a run.
#[derive(Debug)]
pub struct Recorder {
    pool: Arc<Pool>,
    keeper: Option<JoinHandle<Option<RawWriter>>>,
}

/// What logs and keeper share.
#[derive(Debug)]
pub(crate) struct Pool {
    state: Mutex<State>,
    /// A chunk was filled or taken, or the run is over.
    work: Condvar,
    /// A fresh chunk is there, or none will come.
    fresh: Condvar,
    /// Rows of a chunk.
    rows: usize,
    limit: usize,
    ahead: usize,
    spill: Spill,
    when_behind: WhenBehind,
}

#[derive(Debug, Default)]
struct State {
    fresh: Vec<Chunk>,
    /// Filled, in the order of filling.
    full: VecDeque<(u16, Chunk)>,
    /// Chunks in existence, wherever they are.
    chunks: usize,
    /// Chunks that a log had to make for itself because the keeper was late.
    late: u64,
    lost: u64,
    live_logs: usize,
    /// The raw file takes no more.
    refused: Option<io::Error>,
    over: bool,
}

impl Recorder {
    /// Makes `logs` logs and touches their memory; returns when everything is ready for the run.
    pub fn start(keeping: &Keeping, meta: &Meta, logs: usize) -> Result<(Recorder, Vec<Log>), RecordError> {
        let ahead = logs * AHEAD_PER_LOG;
        let needed = logs + ahead;
        let chunks = |rows: usize| (keeping.memory / (ROW_BYTES * rows as u64)) as usize;
        let rows = match chunks(CHUNK_ROWS) < needed {
            true => keeping.memory / ROW_BYTES / (ROOM * needed as u64),
            false => CHUNK_ROWS as u64,
        };
        let rows = usize::try_from(rows).unwrap_or(CHUNK_ROWS).clamp(LEAST_ROWS, CHUNK_ROWS);
        let limit = chunks(rows);
        if limit < needed || logs > usize::from(u16::MAX) {
            return Err(RecordError::TooLittleMemory {
                granted: keeping.memory,
                needed: ROW_BYTES * (LEAST_ROWS * needed) as u64,
                logs,
            });
        }
        let raw = match &keeping.spill {
            Spill::AsYouGo(path) => Some(RawWriter::create(path, meta)?),
            Spill::Never | Spill::WhenFull(_) => None,
        };
        // One chunk per log may stay partly filled, hence the `needed` on top of what the rows fill.
        let expected = usize::try_from(keeping.expected_rows).unwrap_or(usize::MAX).div_ceil(rows);
        let prepared = expected.saturating_add(needed).min(limit);
        let mut chunks: Vec<Chunk> = (0..prepared).map(|_| touched_chunk(rows)).collect();
        let open = chunks.split_off(prepared - logs);
        let state = State { fresh: chunks, chunks: prepared, live_logs: logs, ..State::default() };
        let pool = Arc::new(Pool {
            state: Mutex::new(state),
            work: Condvar::new(),
            fresh: Condvar::new(),
            rows,
            limit,
            ahead,
            spill: keeping.spill.clone(),
            when_behind: keeping.when_behind,
        });
        let logs = (0..).zip(open).map(|(number, open)| Log::new(number, open, Arc::clone(&pool))).collect();
        let keeper = {
            let (pool, meta) = (Arc::clone(&pool), meta.clone());
            std::thread::Builder::new().name("keeper".into()).spawn(move || pool.keep(raw, &meta))
        };
        Ok((Recorder { pool, keeper: Some(keeper.map_err(RecordError::Thread)?) }, logs))
    }

    /// Why the raw file takes no more rows, if so. Recording then goes on in the memory that is left.
    pub fn trouble(&self) -> Option<String> {
        self.pool.lock().refused.as_ref().map(io::Error::to_string)
    }

    /// Ends the recording. All logs must have been dropped before, as their rows would be missing.
    pub fn finish(mut self) -> Recording {
        let raw = self.close();
        let mut state = self.pool.lock();
        assert_eq!(state.live_logs, 0, "every log is dropped before its rows are collected");
        let raw = raw.map(RawWriter::into_file);
        let mut logs: Vec<Vec<Part>> = Vec::new();
        let mut add = |log: u16, part: Part| {
            logs.resize_with(logs.len().max(usize::from(log) + 1), Vec::new);
            logs[usize::from(log)].push(part);
        };
        // What is on disk is older than what is in memory.
        for (index, block) in raw.iter().flat_map(|raw| raw.blocks().iter().enumerate()) {
            add(block.log, Part::OnDisk(index));
        }
        for (log, chunk) in state.full.drain(..) {
            add(log, Part::InMemory(chunk));
        }
        let loss = Loss { rows: state.lost, reason: state.refused.take().map(|error| error.to_string()) };
        Recording::new(logs, raw, loss, state.late)
    }

    fn close(&mut self) -> Option<RawWriter> {
        self.pool.lock().over = true;
        self.pool.work.notify_all();
        let keeper = self.keeper.take()?;
        keeper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// A recorder that is dropped without [`Recorder::finish`] (the run failed) takes its thread with it.
impl Drop for Recorder {
    fn drop(&mut self) {
        self.close();
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }

    pub fn spills_as_it_goes(&self) -> bool {
        matches!(self.spill, Spill::AsYouGo(_))
    }

    /// Takes a full chunk (or a part of one, or one without capacity) and gives a fresh one; one without capacity if
    /// there is no memory.
    pub fn exchange(&self, log: u16, chunk: Chunk) -> Chunk {
        let mut state = self.lock();
        state.take_in(log, chunk);
        self.work.notify_one();
        loop {
            if let Some(fresh) = state.fresh.pop() {
                return fresh;
            }
            if state.chunks < self.limit {
                // The keeper is late. Its page faults fall into the run, but losing rows would be worse.
                state.chunks += 1;
                state.late += 1;
                return Vec::with_capacity(self.rows);
            }
            let hopeless = self.spill == Spill::Never || state.refused.is_some() || state.over;
            if hopeless || self.when_behind == WhenBehind::Lose {
                return Chunk::new();
            }
            state = self.fresh.wait(state).expect("no panic under this lock");
        }
    }

    /// A log's last word.
    pub fn retire(&self, log: u16, chunk: Chunk, lost: u64) {
        let mut state = self.lock();
        state.take_in(log, chunk);
        state.lost += lost;
        state.live_logs -= 1;
        self.work.notify_one();
    }

    /// The keeper's life. Nothing slow happens under the lock. Ends with the raw file, if one was made.
    fn keep(&self, mut raw: Option<RawWriter>, meta: &Meta) -> Option<RawWriter> {
        let mut state = self.lock();
        while !state.over {
            if state.fresh.len() < self.ahead && state.chunks < self.limit {
                state.chunks += 1;
                drop(state);
                let chunk = touched_chunk(self.rows);
                state = self.lock();
                state.fresh.push(chunk);
                self.fresh.notify_one();
            } else if let Some((log, mut chunk)) = self.to_spill(&mut state) {
                drop(state);
                let written = self.spill(&mut raw, meta, log, &chunk);
                state = self.lock();
                match written {
                    Ok(()) => {
                        chunk.clear();
                        state.fresh.push(chunk);
                    }
                    Err(error) => {
                        state.full.push_front((log, chunk));
                        state.refused = Some(error);
                    }
                }
                self.fresh.notify_all();
            } else {
                state = self.work.wait(state).expect("no panic under this lock");
            }
        }
        self.fresh.notify_all();
        raw
    }

    /// The chunk that must go to disk now, if any.
    fn to_spill(&self, state: &mut State) -> Option<(u16, Chunk)> {
        let wanted = match self.spill {
            Spill::Never => false,
            Spill::WhenFull(_) => state.fresh.len() < self.ahead,
            Spill::AsYouGo(_) => true,
        };
        if wanted && state.refused.is_none() { state.full.pop_front() } else { None }
    }

    fn spill(&self, raw: &mut Option<RawWriter>, meta: &Meta, log: u16, chunk: &Chunk) -> io::Result<()> {
        let (Spill::WhenFull(path) | Spill::AsYouGo(path)) = &self.spill else {
            unreachable!("nothing is spilled without a file for it")
        };
        if raw.is_none() {
            *raw = Some(RawWriter::create(path, meta).map_err(io::Error::other)?);
        }
        raw.as_mut().expect("made above").append(log, chunk)
    }
}

impl State {
    fn take_in(&mut self, log: u16, chunk: Chunk) {
        if !chunk.is_empty() {
            self.full.push_back((log, chunk));
        } else if chunk.capacity() > 0 {
            self.fresh.push(chunk);
        }
    }
}

/// An empty chunk whose pages are all present: every row of it was written once. The row is not zero, so that no
/// allocator can give zero pages that are not there.
fn touched_chunk(rows: usize) -> Chunk {
    let mut row = Row::new(device::Operation::Read, crate::Phase::StartUp);
    row.length = u32::MAX;
    let mut chunk = vec![row; rows];
    chunk.clear();
    std::hint::black_box(&mut chunk);
    chunk
}
