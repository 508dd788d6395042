//! What the tests of the whole repository stand on: its files, its code as tokens, its manifests.
//!
//! `architecture.rs` beside this folder holds the invariants of ARCHITECTURE.md, `manners.rs` those of STYLE.md that a
//! program can decide. A rule that nobody executes is broken within a month, and found by the reader who trusted it.
//!
//! Code is read as tokens, not as text: a comment that speaks of `unsafe` or a message that quotes `todo!` is no
//! breach, and `use std::{fs, time::Instant}` is one. Types are not resolved: a crate renamed on import (`use std as
//! s`) would slip through. A compiler plug-in (dylint) would see that too, but wants a nightly compiler of one date.

mod breach;
mod circle;
mod code;
mod manifest;
mod repository;
mod values;

pub use breach::{Breach, hold};
pub use circle::circles;
pub use code::Code;
pub use manifest::{Dependency, Manifest};
pub use repository::{TextFile, files, metadata, root};
pub use values::without_source;
