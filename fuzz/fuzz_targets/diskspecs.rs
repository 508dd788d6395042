//! Any text as the three files of a DiskSim drive: a part that reads back and runs, or one line that names file and
//! line; never a panic.
//!
//! Lines of three dashes stand between the drive, its model and its seek curve.

#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::disk::diskspecs::{Role, Text, import};
use machine::disk::drive::{Drive, Request};
use machine::disk::mechanism::Access;
use machine::disk::parameters::Parameters;
use machine::part::Part;
use units::Instant;

fuzz_target!(|text: &str| {
    let mut files = text.split("\n---\n");
    let mut file = |name: &str| Text { name: name.into(), text: files.next().unwrap_or("").into() };
    let (specs, model, seek) = (file("drive"), file("model"), file("seek"));
    let imported = import(&specs, &mut |role, _| match role {
        Role::Model => Ok(model.clone()),
        Role::Seek => Ok(seek.clone()),
    });
    match imported {
        Ok(imported) => {
            let text = imported.part.to_toml();
            let read = Part::parse("part", &text).expect("what is written can be read");
            assert_eq!(read.to_toml(), text);
            let parameters = Parameters::read(&imported.part).expect("what is imported can be built");
            let blocks = parameters.mechanism.geometry.blocks();
            let mut drive = Drive::new(parameters);
            let mut now = Instant::START;
            for block in [0, blocks / 2, blocks - 1, 0] {
                for access in [Access::Read, Access::Write] {
                    now = drive.serve(now, Request::new(access, block, (blocks - block).min(100))).completes;
                }
            }
        }
        Err(error) => {
            let message = error.to_string();
            assert!(error.line > 0 && !message.is_empty(), "{message}");
        }
    }
});
