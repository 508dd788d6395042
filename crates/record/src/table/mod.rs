//! Tables in Parquet, the one place that knows the format.
//!
//! Parquet because every tool of data analysis reads it (DuckDB, pandas, Polars, Spark), a column at a time. Whole
//! numbers are delta-encoded (`DELTA_BINARY_PACKED`): time stamps in order of completion shrink to the bits of their
//! jitter, and a column that hardly changes to almost nothing, without a dictionary's hashing and without a
//! compressor's second pass. Text (operations, phases, parts) has a dictionary. Numbers are signed even where they
//! cannot be negative: in SQL, the difference of two unsigned stamps overflows.
//!
//! A table is cut into row groups of some 260 thousand, which threads encode at the same time, each into memory; one
//! thread puts them into the file in order. The `arrow` feature of the crate would do this too, for four times the
//! build time.

mod read;
mod write;

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use parquet::basic::Type as PhysicalType;
use parquet::errors::ParquetError;

use crate::Labels;

pub use read::TableReader;
pub use write::TableWriter;

/// The version of all tables, in their metadata. A change that an older reader would misread raises it.
const SCHEMA: u32 = 1;

const KEY_TABLE: &str = "arraylab.table";
const KEY_SCHEMA: &str = "arraylab.schema";
const KEY_META: &str = "arraylab.meta";

/// A kind of row that tables are made of.
pub trait Tabular: Copy + Send + Sync + 'static {
    /// What the table is called in its metadata and in messages.
    const TABLE: &'static str;
    /// Columns that came later: a file without them is an older one, and they stay blank.
    #[doc(hidden)]
    const LATER: &'static [&'static str] = &[];
    /// Its columns, in order.
    #[doc(hidden)]
    fn columns() -> Vec<Column<Self>>;
    /// A row to be filled in.
    #[doc(hidden)]
    fn blank() -> Self;
    /// False for a row that no run with these labels can have made.
    #[doc(hidden)]
    fn fits(&self, _: &Labels) -> bool {
        true
    }
}

/// One column: its name, and how its cells come out of rows and into rows.
#[doc(hidden)]
pub struct Column<T> {
    pub name: &'static str,
    pub cells: Cells<T>,
}

/// `gather` appends the cells of rows; `scatter` puts cells into as many rows, and says false if one does not fit.
#[doc(hidden)]
pub enum Cells<T> {
    Long {
        gather: fn(&[T], &mut Vec<i64>),
        scatter: fn(&[i64], &mut [T]) -> bool,
    },
    Short {
        gather: fn(&[T], &mut Vec<i32>),
        scatter: fn(&[i32], &mut [T]) -> bool,
    },
    /// Indices into `names`. A table of `open` names takes any text and collects it.
    Text {
        names: Vec<Cow<'static, str>>,
        open: bool,
        gather: fn(&[T], &mut Vec<u16>),
        scatter: fn(&[u16], &mut [T]),
    },
}

/// Why a table cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum TableError {
    /// The kernel refuses.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The disk refuses, mostly because it is full.
    #[error("{} cannot be written: {source}; if the disk is full, give the run another folder, as rows that were only in memory are lost", path.display())]
    Write { path: PathBuf, source: ParquetError },
    /// The file is not in the format, or cut off.
    #[error("{} cannot be read as Parquet: {source}; it is damaged or cut off: take it from a copy, or make the run again", path.display())]
    Format { path: PathBuf, source: ParquetError },
    /// Parquet, but none of ours.
    #[error("{} is a Parquet file but not arraylab's table of {table}: it lacks the metadata '{key}'", path.display())]
    Foreign { path: PathBuf, table: &'static str, key: &'static str },
    /// Written by a later version.
    #[error("{} is a table of schema {schema}; this program reads up to {SCHEMA}: use the arraylab that wrote it, or a newer one", path.display())]
    Newer { path: PathBuf, schema: String },
    /// The columns are not those of the schema.
    #[error("{} is damaged: column '{column}' {what}", path.display())]
    Damaged { path: PathBuf, column: &'static str, what: &'static str },
}

impl<T> Cells<T> {
    /// How the format stores them.
    fn physical(&self) -> PhysicalType {
        match self {
            Cells::Long { .. } => PhysicalType::INT64,
            Cells::Short { .. } => PhysicalType::INT32,
            Cells::Text { .. } => PhysicalType::BYTE_ARRAY,
        }
    }
}

/// A column of 64-bit numbers, in a field; `$to` gives the field's number as `u64`, `$from` the field of a number, if
/// there is one.
macro_rules! long {
    ($name:literal, $field:ident, $to:expr, $from:expr) => {
        $crate::table::Column {
            name: $name,
            cells: $crate::table::Cells::Long {
                gather: |rows, cells| cells.extend(rows.iter().map(|row| $to(row.$field) as i64)),
                scatter: |cells, rows| {
                    rows.iter_mut()
                        .zip(cells)
                        .all(|(row, cell)| $from(*cell as u64).map(|cell| row.$field = cell).is_some())
                },
            },
        }
    };
}

/// A column of 16-bit numbers, in a field.
macro_rules! short {
    ($name:literal, $field:ident) => {
        $crate::table::Column {
            name: $name,
            cells: $crate::table::Cells::Short {
                gather: |rows, cells| cells.extend(rows.iter().map(|row| i32::from(row.$field))),
                scatter: |cells, rows| {
                    rows.iter_mut()
                        .zip(cells)
                        .all(|(row, cell)| u16::try_from(*cell).map(|cell| row.$field = cell).is_ok())
                },
            },
        }
    };
}

pub(crate) use {long, short};
