//! What the given paths stand on, and where they meet: `cargo run -p host --example levels -- /dev/sda /dev/sdb
//! /tmp/file`.

use std::path::Path;
use std::process::ExitCode;

use host::Kernel;
use host::level::{Group, group};
use host::throttle::{Throttle, throttles};
use host::topology::Target;

fn main() -> ExitCode {
    let kernel = Kernel::running();
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let found: Result<Vec<Target>, _> = paths.iter().map(|path| Target::find(&kernel, Path::new(path))).collect();
    match found {
        Ok(targets) if !targets.is_empty() => {
            let levels = group(&targets);
            draw(&levels, 0);
            println!("order: {:?}", levels.order());
            let holds = |throttle: &Throttle| targets.iter().any(|target| throttle.holds_for(target));
            throttles(&kernel).iter().filter(|throttle| holds(throttle)).for_each(|throttle| println!("{throttle}"));
            ExitCode::SUCCESS
        }
        Ok(_) => {
            eprintln!("name one or more block devices, files or directories");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn draw(group: &Group, depth: usize) {
    println!("{}{}: {group}", "  ".repeat(depth), group.part.kind);
    group.below.iter().for_each(|below| draw(below, depth + 1));
}
