//! Writing a table: groups of rows, encoded by several threads, put into the file in order.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition};
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnPath, SchemaDescriptor, Type, TypePtr};

use super::{Cells, Column, KEY_META, KEY_SCHEMA, KEY_TABLE, SCHEMA, TableError, Tabular};
use crate::Meta;
use crate::whole::WholeFile;

/// Rows that are encoded together: large enough for DuckDB, which works by 122,880, small enough to wait in memory.
const GROUP_ROWS: usize = 1 << 18;

/// A table being written.
pub struct TableWriter<T: Tabular> {
    path: PathBuf,
    whole: WholeFile,
    file: SerializedFileWriter<File>,
    encoders: Vec<Encoder<T>>,
    /// The group being filled.
    pending: Vec<T>,
    /// Groups given to encoders, and groups put into the file. Group n is encoded by encoder n modulo their number.
    given: usize,
    placed: usize,
}

/// A thread that encodes.
struct Encoder<T> {
    groups: SyncSender<Vec<T>>,
    encoded: Receiver<Encoded<T>>,
    thread: JoinHandle<()>,
}

/// An encoded group, and the memory of its rows for the next one.
type Encoded<T> = (Result<Vec<(Bytes, ColumnCloseResult)>, ParquetError>, Vec<T>);

impl<T: Tabular> TableWriter<T> {
    /// Starts a table that will be at `path`, in place of one that may be there, when it is finished.
    pub fn create(path: &Path, meta: &Meta) -> Result<TableWriter<T>, TableError> {
        TableWriter::with_columns(path, meta, T::columns())
    }

    pub(crate) fn with_columns(
        path: &Path,
        meta: &Meta,
        columns: Vec<Column<T>>,
    ) -> Result<TableWriter<T>, TableError> {
        let io = |source| TableError::Io { path: path.to_owned(), source };
        let (whole, file) = WholeFile::create(path).map_err(io)?;
        let schema = schema(&columns);
        let properties = properties(&columns, meta, T::TABLE);
        let descriptor = Arc::new(SchemaDescriptor::new(Arc::clone(&schema)));
        let file = SerializedFileWriter::new(file, schema, Arc::clone(&properties))
            .map_err(|source| TableError::Write { path: path.to_owned(), source })?;
        let columns = Arc::new(columns);
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        let encoder = |_| {
            let (groups, group) = sync_channel::<Vec<T>>(1);
            let (send, encoded) = sync_channel(2);
            let (columns, descriptor, properties) =
                (Arc::clone(&columns), Arc::clone(&descriptor), Arc::clone(&properties));
            let thread = std::thread::Builder::new().name("parquet".into()).spawn(move || {
                for mut rows in group {
                    let encoded = encode(&columns, &descriptor, &properties, &rows);
                    rows.clear();
                    if send.send((encoded, rows)).is_err() {
                        break; // the writer was dropped
                    }
                }
            })?;
            Ok(Encoder { groups, encoded, thread })
        };
        let encoders = (0..threads).map(encoder).collect::<io::Result<Vec<_>>>().map_err(io)?;
        let pending = Vec::with_capacity(GROUP_ROWS);
        Ok(TableWriter { path: path.to_owned(), whole, file, encoders, pending, given: 0, placed: 0 })
    }

    /// Adds rows.
    pub fn push(&mut self, mut rows: &[T]) -> Result<(), TableError> {
        while !rows.is_empty() {
            let taken = rows.len().min(GROUP_ROWS - self.pending.len());
            self.pending.extend_from_slice(&rows[..taken]);
            rows = &rows[taken..];
            if self.pending.len() == GROUP_ROWS {
                self.give()?;
            }
        }
        Ok(())
    }

    /// Puts the file, complete and flushed, in its place.
    pub fn finish(mut self) -> Result<(), TableError> {
        if !self.pending.is_empty() {
            self.give()?;
        }
        while self.placed < self.given {
            self.place()?;
        }
        let path = self.path;
        let format = |source| TableError::Write { path: path.clone(), source };
        let file = self.file.into_inner().map_err(format)?;
        self.whole.commit(&file).map_err(|source| TableError::Io { path, source })
    }

    /// Gives the pending group to its encoder, which may be busy with one and have another waiting.
    fn give(&mut self) -> Result<(), TableError> {
        let mut fresh = None;
        if self.given - self.placed == 2 * self.encoders.len() {
            fresh = Some(self.place()?);
        }
        let group = std::mem::replace(&mut self.pending, fresh.unwrap_or_else(|| Vec::with_capacity(GROUP_ROWS)));
        let encoder = self.given % self.encoders.len();
        if self.encoders[encoder].groups.send(group).is_err() {
            self.raise(encoder);
        }
        self.given += 1;
        Ok(())
    }

    /// Puts the next encoded group into the file; gives back the memory of its rows.
    fn place(&mut self) -> Result<Vec<T>, TableError> {
        let encoder = self.placed % self.encoders.len();
        let Ok((columns, rows)) = self.encoders[encoder].encoded.recv() else { self.raise(encoder) };
        let put = || {
            let mut group = self.file.next_row_group()?;
            for (bytes, column) in columns? {
                group.append_column(&bytes, column)?;
            }
            group.close().map(|_| ())
        };
        put().map_err(|source| TableError::Write { path: self.path.clone(), source })?;
        self.placed += 1;
        Ok(rows)
    }

    /// An encoder that is gone has panicked: so do we.
    fn raise(&mut self, encoder: usize) -> ! {
        let panic = self.encoders.swap_remove(encoder).thread.join().expect_err("an encoder ends only by a panic");
        std::panic::resume_unwind(panic)
    }
}

fn schema<T>(columns: &[Column<T>]) -> TypePtr {
    let field = |column: &Column<T>| {
        let logical = matches!(column.cells, Cells::Text { .. }).then_some(LogicalType::String);
        let field = Type::primitive_type_builder(column.name, column.cells.physical())
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(logical)
            .build();
        Arc::new(field.expect("a valid type"))
    };
    let fields = columns.iter().map(field).collect();
    Arc::new(Type::group_type_builder("arraylab").with_fields(fields).build().expect("a valid schema"))
}

fn properties<T>(columns: &[Column<T>], meta: &Meta, table: &str) -> WriterPropertiesPtr {
    let pair = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    let meta = serde_json::to_string(meta).expect("labels are text");
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("arraylab ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![
            pair(KEY_TABLE, table.to_owned()),
            pair(KEY_SCHEMA, SCHEMA.to_string()),
            pair(KEY_META, meta),
        ]))
        .set_compression(Compression::UNCOMPRESSED)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(Some(GROUP_ROWS));
    for column in columns {
        let path = ColumnPath::from(column.name);
        properties = match column.cells {
            Cells::Long { .. } | Cells::Short { .. } => {
                properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
            }
            // No tool skips a row group by the extremes of a column with three words in it.
            Cells::Text { .. } => properties
                .set_column_dictionary_enabled(path.clone(), true)
                .set_column_statistics_enabled(path, EnabledStatistics::None),
        };
    }
    Arc::new(properties.build())
}

/// Encodes a row group into memory.
///
/// All columns advance together, a piece of rows at a time: the rows are then read from memory once, not once per
/// column.
fn encode<T>(
    columns: &[Column<T>],
    schema: &SchemaDescriptor,
    properties: &WriterPropertiesPtr,
    rows: &[T],
) -> Result<Vec<(Bytes, ColumnCloseResult)>, ParquetError> {
    const PIECE: usize = 1024;
    let mut sinks: Vec<TrackedWrite<Vec<u8>>> = columns.iter().map(|_| TrackedWrite::new(Vec::new())).collect();
    let mut writers: Vec<ColumnWriter> = (0..)
        .zip(&mut sinks)
        .map(|(index, sink)| {
            get_column_writer(schema.column(index), Arc::clone(properties), Box::new(SerializedPageWriter::new(sink)))
        })
        .collect();
    let texts: Vec<Vec<ByteArray>> = columns.iter().map(|column| column.cells.texts()).collect();
    let mut cells =
        (Vec::with_capacity(PIECE), Vec::with_capacity(PIECE), Vec::with_capacity(PIECE), Vec::with_capacity(PIECE));
    let (longs, shorts, indices, bytes) = &mut cells;
    for rows in rows.chunks(PIECE) {
        for ((column, texts), writer) in columns.iter().zip(&texts).zip(&mut writers) {
            match (&column.cells, writer) {
                (Cells::Long { gather, .. }, ColumnWriter::Int64ColumnWriter(writer)) => {
                    longs.clear();
                    gather(rows, longs);
                    writer.write_batch(longs, None, None)?;
                }
                (Cells::Short { gather, .. }, ColumnWriter::Int32ColumnWriter(writer)) => {
                    shorts.clear();
                    gather(rows, shorts);
                    writer.write_batch(shorts, None, None)?;
                }
                (Cells::Text { gather, .. }, ColumnWriter::ByteArrayColumnWriter(writer)) => {
                    indices.clear();
                    gather(rows, indices);
                    bytes.clear();
                    bytes.extend(indices.iter().map(|index| texts[usize::from(*index)].clone()));
                    writer.write_batch(bytes, None, None)?;
                }
                _ => unreachable!("the schema was made from the columns"),
            }
        }
    }
    let closed: Vec<_> = writers.into_iter().map(ColumnWriter::close).collect::<Result<_, _>>()?;
    sinks.into_iter().zip(closed).map(|(sink, closed)| Ok((Bytes::from(sink.into_inner()?), closed))).collect()
}

impl<T> Cells<T> {
    /// The names of a text column as the format takes them. Clones of names that live for ever count no references.
    fn texts(&self) -> Vec<ByteArray> {
        let text = |name: &Cow<'static, str>| match name {
            Cow::Borrowed(name) => ByteArray::from(Bytes::from_static(name.as_bytes())),
            Cow::Owned(name) => ByteArray::from(name.as_str()),
        };
        match self {
            Cells::Text { names, .. } => names.iter().map(text).collect(),
            Cells::Long { .. } | Cells::Short { .. } => Vec::new(),
        }
    }
}
