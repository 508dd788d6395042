//! Spans as a picture: `trace.json` in Chrome's Trace Event Format, which ui.perfetto.dev and chrome://tracing open.
//!
//! One group of lanes per part. A part that serves several requests at once has several lanes, as bars of one lane must
//! not overlap: each span takes the first lane that is free when it starts. Time is in microseconds with three
//! decimals, so no nanosecond is lost.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use units::Instant;

use super::{Span, SpanLog};
use crate::whole::WholeFile;

impl SpanLog {
    /// Writes `trace.json`.
    pub fn write_trace(&self, path: &Path) -> io::Result<()> {
        let (whole, file) = WholeFile::create(path)?;
        let mut out = BufWriter::new(file);
        self.trace(&mut out)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        whole.commit(&file)
    }

    /// The trace as text.
    pub fn trace(&self, out: &mut impl Write) -> io::Result<()> {
        let json = |text: &str| serde_json::to_string(text).expect("text is JSON");
        let mut sorted: Vec<&Span> = self.spans.iter().collect();
        sorted.sort_by_key(|span| (span.part, span.start, span.end));
        write!(out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        let mut separator = "\n";
        for (number, part) in self.names.parts.list.iter().enumerate() {
            write!(
                out,
                "{separator}{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{number},\"args\":{{\"name\":{}}}}}",
                json(part)
            )?;
            separator = ",\n";
        }
        let phases: Vec<String> = self.names.phases.list.iter().map(|phase| json(phase)).collect();
        for spans in sorted.chunk_by(|a, b| a.part == b.part) {
            // When each lane of the part is free again.
            let mut lanes: Vec<Instant> = Vec::new();
            for span in spans {
                let free = lanes.iter().position(|free| *free <= span.start);
                let lane = free.unwrap_or_else(|| {
                    lanes.push(Instant::START);
                    lanes.len() - 1
                });
                lanes[lane] = span.end;
                write!(
                    out,
                    "{separator}{{\"ph\":\"X\",\"name\":{},\"pid\":{},\"tid\":{lane},\"ts\":{},\"dur\":{},\"args\":{{\"request\":{}}}}}",
                    phases[usize::from(span.phase.0)],
                    span.part.0,
                    micros(span.start.as_nanos()),
                    micros(span.time().as_nanos()),
                    span.request
                )?;
                separator = ",\n";
            }
        }
        writeln!(out, "\n]}}")
    }
}

/// Nanoseconds as microseconds, exactly.
fn micros(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}
