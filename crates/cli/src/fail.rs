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
        ExitCode::from(self.number())
    }

    /// The same as a number.
    pub fn number(&self) -> u8 {
        match self {
            Failure::BadInput(_) => 2,
            Failure::World(_) => 3,
        }
    }

    /// The failure with the place at which it came, if there is one.
    pub fn at(self, place: Option<String>) -> Failure {
        let put = |error: anyhow::Error| match &place {
            Some(place) => anyhow::anyhow!("{place}: {}", chain(&error)),
            None => error,
        };
        match self {
            Failure::BadInput(error) => Failure::BadInput(put(error)),
            Failure::World(error) => Failure::World(put(error)),
        }
    }

    /// What is said of it, without the heading.
    pub fn message(&self) -> String {
        let (Failure::BadInput(error) | Failure::World(error)) = self;
        chain(error)
    }

    /// What happened, whoever is to blame.
    pub fn error(self) -> anyhow::Error {
        let (Failure::BadInput(error) | Failure::World(error)) = self;
        error
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
        let text = self.message();
        // Errors that show their place in a file have a heading of their own.
        if text.starts_with("error") { f.write_str(&text) } else { write!(f, "error: {text}") }
    }
}

/// An error and its causes in one sentence.
fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // Many messages name their cause in the middle of the sentence, before the next step.
        if !text.contains(&cause) {
            text.push_str(&format!(": {cause}"));
        }
    }
    text
}
