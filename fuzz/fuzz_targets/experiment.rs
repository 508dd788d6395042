//! Any text as an experiment's file: points to run, or an error that can be shown with its place; never a panic.
//!
//! Text after a line of three dashes is given as `--set`, one setting a line.

#![no_main]

use lab::{Setting, Source, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (file, settings) = text.split_once("\n---\n").unwrap_or((text, ""));
    let settings: Vec<Setting> = settings.lines().filter_map(|line| line.parse().ok()).collect();
    let source = Source { name: "fuzz.toml".into(), text: file.into() };
    match read(&source, &settings) {
        Ok(points) => assert!(!points.is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
