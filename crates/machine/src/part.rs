//! The file format of parts: TOML in which every value names its source.
//!
//! ```toml
//! kind = "disk"
//! name = "Seagate ST32171W"
//! status = "measured"
//! source = "barracuda.model"                    # of everything below that names no other
//!
//! [rotation]
//! speed = { value = "7200 rpm", source = "barracuda.model line 176" }
//!
//! [[zone]]
//! source = "barracuda.model lines 11 to 31"     # of everything in this zone
//! sectors = 186
//! slips = [112508, 113430]
//! ```
//!
//! A value's source is its own, written as `{ value, source }`, or that of the innermost table around it which has a
//! `source`. A value without any is refused: a number that nobody vouches for has no place in a model. `kind`, `name`,
//! `status`, `note` and `source` at the top describe the part and need none.
//!
//! A part is first a tree of values with their sources and places ([`Table`]), whatever it was read from: this TOML or
//! a foreign drive file that an importer has turned into the same tree. Each kind of part reads its parameters out of
//! the tree through one [`Reader`], so that a message always points to the line that a person can change, in the file
//! that it came from.

mod read;
mod toml;
mod tree;
mod write;

pub use read::PartError;
pub use read::{FromValue, Problem, Reader};
pub use tree::{Node, Part, Place, Row, Table, Value};
