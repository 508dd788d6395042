//! Any text as a trace of another program: rows whose stamps are in order, or an error with a sentence; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use record::{TraceFormat, TraceText, asked, import};

fuzz_target!(|text: &str| {
    use TraceFormat::{Blkparse, DiskSim, FioIolog, FioLog, Msr, Spc};
    for format in [None, Some(Blkparse), Some(FioLog), Some(FioIolog), Some(Msr), Some(Spc), Some(DiskSim)] {
        match asked(&[TraceText { name: "fuzz", text }], format) {
            Ok(asked) => {
                assert!(asked.requests.is_sorted_by_key(|wanted| wanted.at));
                assert!(asked.requests.iter().all(|wanted| usize::from(wanted.device) < asked.devices.len()));
                assert!(asked.requests.first().is_some_and(|wanted| wanted.at.is_zero()));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
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
