//! What a run folder says of this machine, and what care a run can take here: `cargo run -p host --example
//! environment`.

use host::Kernel;
use host::environment::{Build, Environment, Naming};
use host::precaution::Precautions;

fn main() {
    let build = Build { version: env!("CARGO_PKG_VERSION").to_owned(), commit: None };
    let environment = Environment::read(&Kernel::running(), build, Naming::Hash);
    let precautions = Precautions { lock_memory: true, real_time: Some(10), cpus: vec![0] }.take();
    for json in [serde_json::to_string_pretty(&environment), serde_json::to_string_pretty(&precautions)] {
        println!("{}", json.expect("text, numbers and lists"));
    }
}
