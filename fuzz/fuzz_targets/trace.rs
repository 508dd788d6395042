//! Any text as a trace of another program: rows whose stamps are in order, or an error with a sentence; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use record::{TraceFormat, TraceText, import};

fuzz_target!(|text: &str| {
    for format in [None, Some(TraceFormat::Blkparse), Some(TraceFormat::FioLog)] {
        match import(&[TraceText { name: "fuzz", text }], format) {
            Ok(imported) => {
                let ordered = |row: &record::Row| row.intended <= row.submitted && row.submitted <= row.completed;
                assert!(imported.rows.iter().all(ordered));
                assert!(imported.rows.is_sorted_by_key(|row| row.completed));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
