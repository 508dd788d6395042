//! Any text as a measured trace: requests that lie within the drive, or one line that names the line; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::disk::trace::parse;

/// Blocks of the drive.
const CAPACITY: u64 = 100_000;

fuzz_target!(|text: &str| {
    match parse("trace", text, CAPACITY) {
        Ok(requests) => {
            assert!(!requests.is_empty());
            assert!(requests.iter().all(|request| request.blocks > 0 && request.block + request.blocks <= CAPACITY));
        }
        Err(error) => assert!(error.line > 0 && !error.to_string().is_empty()),
    }
});
