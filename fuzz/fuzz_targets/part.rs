//! Any text as a part file: a part that reads back the same, or one line that names the place; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::disk::mechanism::Access;
use machine::disk::parameters::Parameters;
use machine::flash::{Flash, FlashParameters};
use machine::part::Part;
use units::{Bytes, Instant};

fuzz_target!(|text: &str| {
    match Part::parse("part", text) {
        Ok(part) => {
            let written = part.to_toml();
            let read = Part::parse("part", &written).expect("what is written can be read");
            assert_eq!(read.to_toml(), written);
            if let Err(error) = Parameters::read(&part) {
                assert!(!error.to_string().is_empty());
            }
            match FlashParameters::read(&part) {
                Ok(parameters) => {
                    let block = Bytes::SECTOR;
                    let last = parameters.capacity - block;
                    let mut flash = Flash::new(parameters);
                    let mut now = Instant::START;
                    for (access, offset) in [(Access::Write, last), (Access::Read, last), (Access::Read, Bytes::ZERO)] {
                        now = flash.serve(now, access, offset, block);
                    }
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
