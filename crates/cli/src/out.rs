//! Standard output, which may be a pipe that nobody reads any more, or a file on a disk that is full.

use std::io::{ErrorKind, Write};

use serde_json::Value;

use crate::fail::Failure;

/// Prints a result. A reader that went away (`| head`) has what it wanted.
pub fn text(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::world(anyhow::anyhow!("the result cannot be printed: standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a result as one JSON document.
pub fn json(document: &Value) -> Result<(), Failure> {
    text(&format!("{document:#}\n"))
}
