//! Any text as a job file of fio: jobs, or one line that names file and line; never a panic, and never without end.

#![no_main]

use fio::{Rigour, Surroundings};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // A file that includes itself is the worst that a file to include can be.
    let surroundings = Surroundings {
        variable: &|name| Some(format!("{name}=1")),
        keyword: &|_| Some(2),
        include: &|name, _| Ok((text.to_owned(), name.to_owned())),
    };
    match fio::read("job.fio", text, &surroundings, Rigour::Usual) {
        Ok(file) => {
            assert!(!file.jobs.is_empty());
            for job in &file.jobs {
                assert!(job.depth > 0 && job.copies > 0 && job.sizes.iter().all(|sizes| !sizes.is_empty()));
                assert!(job.sizes.iter().flatten().all(|(size, _)| !size.is_zero()));
            }
            // What is read the same twice has no memory of its own.
            assert_eq!(fio::read("job.fio", text, &surroundings, Rigour::Usual).as_ref(), Ok(&file));
        }
        Err(error) => {
            let said = error.to_string();
            // The line is of this file or of one that it includes; only that there is no job at all is of none.
            let is_place =
                |part: &str| part.rsplit_once(':').is_some_and(|(_, line)| matches!(line.parse(), Ok(1usize..)));
            assert!(said.split(": ").any(is_place) || matches!(error, fio::JobError::NoJob { .. }), "{said}");
        }
    }
});
