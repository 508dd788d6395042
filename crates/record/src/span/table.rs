//! Spans as a table: `spans.parquet`, with parts and phases by name, for the analyses that nobody has thought of yet.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use units::Instant;

use super::{Names, PartName, PhaseName, Span, SpanLog, SpanNames};
use crate::Meta;
use crate::table::{Cells, Column, TableError, TableReader, TableWriter, Tabular, long};

impl Tabular for Span {
    const TABLE: &'static str = "spans";

    fn columns() -> Vec<Column<Span>> {
        columns(&Names::default(), &Names::default())
    }

    fn blank() -> Span {
        Span { request: 0, start: Instant::START, end: Instant::START, part: PartName(0), phase: PhaseName(0) }
    }
}

fn columns(parts: &Names, phases: &Names) -> Vec<Column<Span>> {
    let names = |names: &Names| names.list.iter().map(|name| Cow::Owned(name.clone())).collect();
    vec![
        long!("request", request, |request| request, Some),
        Column {
            name: "part",
            cells: Cells::Text {
                names: names(parts),
                open: true,
                gather: |spans, cells| cells.extend(spans.iter().map(|span| span.part.0)),
                scatter: |cells, spans| {
                    for (span, cell) in spans.iter_mut().zip(cells) {
                        span.part = PartName(*cell);
                    }
                },
            },
        },
        Column {
            name: "phase",
            cells: Cells::Text {
                names: names(phases),
                open: true,
                gather: |spans, cells| cells.extend(spans.iter().map(|span| span.phase.0)),
                scatter: |cells, spans| {
                    for (span, cell) in spans.iter_mut().zip(cells) {
                        span.phase = PhaseName(*cell);
                    }
                },
            },
        },
        long!("start_ns", start, Instant::as_nanos, stamp),
        long!("end_ns", end, Instant::as_nanos, stamp),
    ]
}

fn stamp(nanos: u64) -> Option<Instant> {
    Some(Instant::from_nanos(nanos))
}

impl SpanLog {
    /// Writes `spans.parquet`.
    pub fn write(&self, path: &Path, meta: &Meta) -> Result<(), TableError> {
        let mut writer = TableWriter::with_columns(path, meta, columns(&self.names.parts, &self.names.phases))?;
        writer.push(&self.spans)?;
        writer.finish()
    }

    /// Reads `spans.parquet` as a whole. Parts and phases may have other numbers than when they were written, never
    /// other names.
    pub fn read(path: &Path) -> Result<(SpanLog, Meta), TableError> {
        let (mut reader, meta) = SpanReader::open(path)?;
        let mut log = SpanLog::default();
        reader.visit(|_, spans| log.spans.extend_from_slice(spans))?;
        log.names = reader.names;
        log.limit = log.spans.len();
        Ok((log, meta))
    }

    /// Reads the spans of some requests that lie within some time, at least in part. Row groups outside of it are
    /// skipped.
    pub fn read_some(
        path: &Path,
        requests: &BTreeSet<u64>,
        (from, until): (Instant, Instant),
    ) -> Result<SpanLog, TableError> {
        let (mut reader, _) = SpanReader::open(path)?;
        let mut log = SpanLog::default();
        let groups = (0..reader.reader.groups())
            .filter(|group| reader.reader.may_reach(*group, ("start_ns", until), ("end_ns", from)))
            .collect();
        let is_asked = |span: &&Span| span.start < until && span.end > from && requests.contains(&span.request);
        reader.visit_groups(groups, |_, spans| log.spans.extend(spans.iter().filter(is_asked)))?;
        log.names = reader.names;
        log.limit = log.spans.len();
        Ok(log)
    }
}

/// `spans.parquet`, read a row group at a time: the spans of ten million requests would take 1.6 GB.
pub struct SpanReader {
    reader: TableReader<Span>,
    names: SpanNames,
}

impl SpanReader {
    /// Opens it.
    pub fn open(path: &Path) -> Result<(SpanReader, Meta), TableError> {
        let (reader, meta) = TableReader::open(path)?;
        Ok((SpanReader { reader, names: SpanNames::default() }, meta))
    }

    /// What parts and phases are called, as far as was read.
    pub fn names(&self) -> &SpanNames {
        &self.names
    }

    /// Gives all spans to `take`, a row group at a time, with what their parts and phases are called.
    pub fn visit(&mut self, take: impl FnMut(&SpanNames, &[Span])) -> Result<(), TableError> {
        self.visit_groups((0..self.reader.groups()).collect(), take)
    }

    fn visit_groups(
        &mut self,
        groups: Vec<usize>,
        mut take: impl FnMut(&SpanNames, &[Span]),
    ) -> Result<(), TableError> {
        let mut spans = Vec::new();
        for group in groups {
            self.reader.read_group(group, &mut spans)?;
            // Names are numbered in the order in which they are found, so those that were known keep theirs.
            for (column, names) in [("part", &mut self.names.parts), ("phase", &mut self.names.phases)] {
                for name in self.reader.names(column).iter().skip(names.list.len()) {
                    names.number(name);
                }
            }
            take(&self.names, &spans);
        }
        Ok(())
    }
}
