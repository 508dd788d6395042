//! Who is to blame: the exit codes.

use std::process::ExitCode;

/// A command that did not come to its end.
#[derive(Debug)]
pub enum Failure {
    /// The user can mend it: exit code 2.
    BadInput(anyhow::Error),
    /// Nobody asked for it: exit code 3.
    World(anyhow::Error),
}

impl Failure {
    /// The exit code of the contract.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::BadInput(_) => 2,
            Failure::World(_) => 3,
        })
    }

    pub fn input(error: impl Into<anyhow::Error>) -> Failure {
        Failure::BadInput(error.into())
    }

    pub fn world(error: impl Into<anyhow::Error>) -> Failure {
        Failure::World(error.into())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let (Failure::BadInput(error) | Failure::World(error)) = self;
        let mut text = error.to_string();
        for cause in error.chain().skip(1).map(ToString::to_string) {
            // Many messages name their cause in the middle of the sentence, before the next step.
            if !text.contains(&cause) {
                text.push_str(&format!(": {cause}"));
            }
        }
        // Errors that show their place in a file have a heading of their own.
        if text.starts_with("error") { f.write_str(&text) } else { write!(f, "error: {text}") }
    }
}
