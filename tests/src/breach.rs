//! A place where a rule is broken, and how a test says so.

use std::fmt;

/// One place where a rule is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// Path from the root of the repository, or a crate's name.
    pub place: String,
    /// Counted from 1; 0 if the whole file or crate is meant.
    pub line: usize,
    /// What stands there.
    pub what: String,
}

impl Breach {
    /// A breach at a line of a file.
    pub fn new(place: impl Into<String>, line: usize, what: impl Into<String>) -> Breach {
        Breach { place: place.into(), line, what: what.into() }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.place, self.what),
            line => write!(f, "{}:{line}: {}", self.place, self.what),
        }
    }
}

/// Passes if there is no breach.
///
/// # Panics
/// With every breach and with `advice`, which says what to do instead.
#[track_caller]
pub fn hold(breaches: impl IntoIterator<Item = Breach>, advice: &str) {
    let lines: Vec<String> = breaches.into_iter().map(|breach| format!("  {breach}")).collect();
    assert!(lines.is_empty(), "{} places break this rule:\n{}\n{advice}", lines.len(), lines.join("\n"));
}

#[test]
#[should_panic(expected = "1 places break this rule:\n  a.rs:3: unsafe\nwrite it safely")]
fn a_breach_fails_with_its_place_and_the_advice() {
    hold([Breach::new("a.rs", 3, "unsafe")], "write it safely");
}
