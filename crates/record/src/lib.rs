//! What happened.
//!
//! One row per request, the same whether the request was real or modelled: `analysis` cannot tell them apart except by
//! a label. Rows are plain numbers of fixed size, so that keeping one costs a few stores, and files are written after
//! the run.
//!
//! # The way of a row
//! The load generator of each thread pushes it into its [`Log`]; full chunks of rows pass to the [`Recorder`], which
//! keeps them in memory or, when that is used up, in the raw file. [`Recorder::finish`] gives the [`Recording`], which
//! hands the rows of all logs out again in order of completion; [`RunFolder::write_records`] makes it the Parquet file
//! that others read.
//!
//! # Rejected
//! - A line of text per request (fio's logs): milliseconds instead of nanoseconds, 200 MB for a few minutes, and 0.45
//!   us of CPU per request (measured against fio 3.33 on its null engine), more than the request itself costs.
//! - Only histograms: cheap, but convoys, stragglers and start-up trends cannot be found in them afterwards.
//! - A ring that overwrites the oldest rows: what is lost then depends on the speed of the run.

mod files;
mod folder;
mod histogram;
mod import;
mod index;
mod keeper;
mod log;
mod meta;
mod raw;
mod recording;
mod row;
mod rows;
mod span;
mod table;
mod whole;

pub use device::Operation;
pub use folder::{FolderError, LEDGER_LOG, Records, RunFile, RunFolder, RunInfo, RunState, SCHEMA};
pub use histogram::{FIO_PERCENTILES, Histogram};
pub use import::{Asked, Asking, ImportError, Imported, TraceFormat, TraceText, Wanted, asked, import};
pub use index::{IndexFolder, IndexKind};
pub use keeper::{Keeping, RecordError, Recorder, Spill, WhenBehind};
pub use log::{CHUNK_ROWS, Log};
pub use meta::{Clock, Labels, Meta, rfc3339};
pub use raw::{RawError, RawFile};
pub use recording::{Loss, Recording};
pub use row::{Phase, Row};
pub use rows::{RowReader, RowWriter};
pub use span::live as live_phases;
pub use span::{PartName, PhaseName, Span, SpanError, SpanLog, SpanNames, SpanReader, Spans};
pub use table::{TableError, TableReader, TableWriter, Tabular};
