//! Any text as a part file: a part that reads back the same, or one line that names the place; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::disk::parameters::Parameters;
use machine::part::Part;

fuzz_target!(|text: &str| {
    match Part::parse("part", text) {
        Ok(part) => {
            let written = part.to_toml();
            let read = Part::parse("part", &written).expect("what is written can be read");
            assert_eq!(read.to_toml(), written);
            if let Err(error) = Parameters::read(&part) {
                assert!(!error.to_string().is_empty());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
