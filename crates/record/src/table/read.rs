//! Reading a table, a row group at a time.

use std::borrow::Cow;
use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use units::Instant;

use super::{Cells, Column, KEY_META, KEY_SCHEMA, KEY_TABLE, SCHEMA, TableError, Tabular};
use crate::{Labels, Meta};

/// No row group has more: beyond this, the number itself must be wrong, and is not worth the memory. (DuckDB writes
/// 122,880, others a million.)
const MOST_ROWS: usize = 1 << 24;

/// So many cells are decoded at once: 128 KiB of texts.
const BATCH: usize = 1 << 12;

/// A table open for reading.
pub struct TableReader<T> {
    path: PathBuf,
    file: SerializedFileReader<File>,
    columns: Vec<Column<T>>,
    /// Which column of the file each of ours is, if it has it; others in the file are ignored.
    places: Vec<Option<usize>>,
    labels: Labels,
}

impl<T: Tabular> TableReader<T> {
    /// Opens a table and reads what it says about itself.
    pub fn open(path: &Path) -> Result<(TableReader<T>, Meta), TableError> {
        let format = |source| TableError::Format { path: path.to_owned(), source };
        let foreign = |key| TableError::Foreign { path: path.to_owned(), table: T::TABLE, key };
        let file = File::open(path).map_err(|source| TableError::Io { path: path.to_owned(), source })?;
        let file = SerializedFileReader::new(file).map_err(format)?;
        let metadata = file.metadata().file_metadata();
        let value = |key| {
            let mut pairs = metadata.key_value_metadata().into_iter().flatten();
            pairs.find(|pair| pair.key == key).and_then(|pair| pair.value.as_deref()).ok_or_else(|| foreign(key))
        };
        if value(KEY_TABLE)? != T::TABLE {
            return Err(foreign(KEY_TABLE));
        }
        let schema = value(KEY_SCHEMA)?;
        if schema.parse().map_or(true, |schema: u32| schema > SCHEMA) {
            return Err(TableError::Newer { path: path.to_owned(), schema: schema.to_owned() });
        }
        let meta: Meta = serde_json::from_str(value(KEY_META)?).map_err(|_| foreign(KEY_META))?;
        let columns = T::columns();
        let descriptor = metadata.schema_descr();
        let place = |column: &Column<T>| {
            let damaged = |what| TableError::Damaged { path: path.to_owned(), column: column.name, what };
            let mut all = descriptor.columns().iter().enumerate();
            let found = all.find(|(_, found)| found.name() == column.name);
            let Some((place, found)) = found else {
                return if T::LATER.contains(&column.name) { Ok(None) } else { Err(damaged("is missing")) };
            };
            if found.physical_type() != column.cells.physical() || found.max_def_level() > 0 {
                return Err(damaged("has another type than the schema's"));
            }
            Ok(Some(place))
        };
        let places = columns.iter().map(place).collect::<Result<_, _>>()?;
        let labels = meta.labels.clone();
        Ok((TableReader { path: path.to_owned(), file, columns, places, labels }, meta))
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        u64::try_from(self.file.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// How many row groups there are.
    pub(crate) fn groups(&self) -> usize {
        self.file.num_row_groups()
    }

    /// False if, by the extremes that the file tells of two columns of times, a row group has no row that begins before
    /// the one moment and ends after the other.
    pub(crate) fn may_reach(&self, group: usize, begin: (&str, Instant), end: (&str, Instant)) -> bool {
        let extremes = |name: &str| {
            let place = self.columns.iter().position(|column| column.name == name)?;
            match self.file.metadata().row_group(group).column(self.places[place]?).statistics()? {
                Statistics::Int64(numbers) => Some((*numbers.min_opt()?, *numbers.max_opt()?)),
                _ => None,
            }
        };
        let nanos = |at: Instant| i64::try_from(at.as_nanos()).unwrap_or(i64::MAX);
        extremes(begin.0).is_none_or(|(first, _)| first < nanos(begin.1))
            && extremes(end.0).is_none_or(|(_, last)| last > nanos(end.1))
    }

    /// Gives all rows to `take`, a row group at a time.
    pub fn visit<E: From<TableError>>(&mut self, mut take: impl FnMut(&[T]) -> Result<(), E>) -> Result<(), E> {
        let mut rows = Vec::new();
        for group in 0..self.groups() {
            self.read_group(group, &mut rows)?;
            take(&rows)?;
        }
        Ok(())
    }

    /// The names of a text column, those found so far if it takes any.
    pub(crate) fn names(&self, column: &str) -> &[Cow<'static, str>] {
        let mut columns = self.columns.iter();
        match columns.find(|candidate| candidate.name == column).map(|column| &column.cells) {
            Some(Cells::Text { names, .. }) => names,
            _ => unreachable!("'{column}' is a text column"),
        }
    }

    /// Reads a row group, in place of what `rows` held.
    pub(crate) fn read_group(&mut self, group: usize, rows: &mut Vec<T>) -> Result<(), TableError> {
        let path = &self.path;
        let format = |source| TableError::Format { path: path.clone(), source };
        let group = self.file.get_row_group(group).map_err(format)?;
        let count = usize::try_from(group.metadata().num_rows()).ok().filter(|count| *count <= MOST_ROWS);
        let Some(count) = count else {
            let (path, column) = (path.clone(), self.columns[0].name);
            return Err(TableError::Damaged { path, column, what: "has an impossible number of rows in a row group" });
        };
        rows.clear();
        rows.resize(count, T::blank());
        for (column, place) in self.columns.iter_mut().zip(&self.places) {
            let Some(place) = place else { continue };
            let name = column.name;
            let damaged = |what| TableError::Damaged { path: path.clone(), column: name, what };
            let reader = group.get_column_reader(*place).map_err(format)?;
            let fits = match (&mut column.cells, reader) {
                (Cells::Long { scatter, .. }, ColumnReader::Int64ColumnReader(reader)) => read(reader, rows, scatter),
                (Cells::Short { scatter, .. }, ColumnReader::Int32ColumnReader(reader)) => read(reader, rows, scatter),
                (Cells::Text { names, open, scatter, .. }, ColumnReader::ByteArrayColumnReader(reader)) => {
                    let mut indices = Vec::with_capacity(BATCH);
                    let mut known = true;
                    let result = read(reader, rows, |texts, rows| {
                        indices.clear();
                        indices.extend(texts.iter().map_while(|text| index(names, *open, text.data())));
                        known = indices.len() == texts.len();
                        scatter(&indices, rows);
                        known
                    });
                    if !known {
                        return Err(damaged("holds a name that is not of the schema"));
                    }
                    result
                }
                _ => unreachable!("types were compared when the file was opened"),
            }
            .map_err(format)?;
            if !fits {
                return Err(damaged("holds a number that is out of range"));
            }
        }
        if !rows.iter().all(|row| row.fits(&self.labels)) {
            let (path, column) = (path.clone(), self.columns[0].name);
            let what = "and those beside it hold a row that no run with the table's streams and devices can have made";
            return Err(TableError::Damaged { path, column, what });
        }
        Ok(())
    }
}

/// Gives a column to rows, as many cells at a time as the processor's cache holds; says false if one does not fit.
fn read<D: DataType, T>(
    mut reader: ColumnReaderImpl<D>,
    mut rows: &mut [T],
    mut scatter: impl FnMut(&[D::T], &mut [T]) -> bool,
) -> Result<bool, ParquetError> {
    let mut cells = Vec::with_capacity(BATCH);
    while !rows.is_empty() {
        cells.clear();
        let (read, ..) = reader.read_records(rows.len().min(BATCH), None, None, &mut cells)?;
        if read == 0 {
            return Err(ParquetError::EOF("a column is shorter than its row group".into()));
        }
        let (these, rest) = rows.split_at_mut(read);
        if !scatter(&cells, these) {
            return Ok(false);
        }
        rows = rest;
    }
    Ok(true)
}

/// Where a name stands in the list; in an open one, it is added if it is not there.
fn index(names: &mut Vec<Cow<'static, str>>, open: bool, name: &[u8]) -> Option<u16> {
    // Lists have a few names, and neighbours in a column are mostly equal to one of the first.
    if let Some(index) = names.iter().position(|known| known.as_bytes() == name) {
        return u16::try_from(index).ok();
    }
    if !open {
        return None;
    }
    let name = std::str::from_utf8(name).ok()?;
    names.push(Cow::Owned(name.to_owned()));
    u16::try_from(names.len() - 1).ok()
}
