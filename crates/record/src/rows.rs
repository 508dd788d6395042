//! The row file: one column per field of a row.

use units::{Bytes, Instant};

use crate::table::{Cells, Column, TableReader, TableWriter, Tabular, long, short};
use crate::{Labels, Operation, Phase, Row};

/// Writes `records.parquet`.
pub type RowWriter = TableWriter<Row>;

/// Reads `records.parquet`.
pub type RowReader = TableReader<Row>;

impl Tabular for Row {
    const TABLE: &'static str = "rows";
    const LATER: &'static [&'static str] = &["request", "priority"];

    fn columns() -> Vec<Column<Row>> {
        vec![
            long!("intended_ns", intended, Instant::as_nanos, stamp),
            long!("submitted_ns", submitted, Instant::as_nanos, stamp),
            long!("completed_ns", completed, Instant::as_nanos, stamp),
            long!("offset_bytes", offset, Bytes::get, |cell| Some(Bytes::new(cell))),
            long!("length_bytes", length, u64::from, |cell| u32::try_from(cell).ok()),
            long!("request", request, u64::from, |cell| u32::try_from(cell).ok()),
            short!("stream", stream),
            short!("device", device),
            Column {
                name: "operation",
                cells: Cells::Text {
                    names: Operation::ALL.map(|operation| operation.name().into()).to_vec(),
                    open: false,
                    gather: |rows, cells| cells.extend(rows.iter().map(|row| row.operation as u16)),
                    scatter: |cells, rows| {
                        for (row, cell) in rows.iter_mut().zip(cells) {
                            row.operation = Operation::ALL[usize::from(*cell)];
                        }
                    },
                },
            },
            short!("depth", depth),
            short!("cpu", cpu),
            short!("errno", errno),
            short!("pass", pass),
            short!("priority", priority),
            Column {
                name: "phase",
                cells: Cells::Text {
                    names: Phase::ALL.map(|phase| phase.name().into()).to_vec(),
                    open: false,
                    gather: |rows, cells| cells.extend(rows.iter().map(|row| row.phase as u16)),
                    scatter: |cells, rows| {
                        for (row, cell) in rows.iter_mut().zip(cells) {
                            row.phase = Phase::ALL[usize::from(*cell)];
                        }
                    },
                },
            },
        ]
    }

    fn blank() -> Row {
        Row::new(Operation::Read, Phase::StartUp)
    }

    fn fits(&self, labels: &Labels) -> bool {
        labels.fit(self)
    }
}

fn stamp(nanos: u64) -> Option<Instant> {
    Some(Instant::from_nanos(nanos))
}
