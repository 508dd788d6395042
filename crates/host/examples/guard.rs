//! Whether a path might be written, without writing: `cargo run -p host --example guard -- [--destroy-data] PATH
//! [PATH]`.

use std::path::PathBuf;
use std::process::ExitCode;

use host::Kernel;
use host::guard::{Consent, permit, times_named};

fn main() -> ExitCode {
    let (options, paths): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let destroy_data = options.iter().any(|option| option == "--destroy-data");
    let paths: Vec<PathBuf> = paths.into_iter().map(PathBuf::from).collect();
    let mut answer = ExitCode::SUCCESS;
    for (path, times_named) in times_named(&paths) {
        match permit(&Kernel::running(), &path, Consent { destroy_data, times_named }) {
            Ok(_) => println!("{} may be written", path.display()),
            Err(refusal) => {
                eprintln!("{refusal}");
                answer = ExitCode::from(1);
            }
        }
    }
    answer
}
