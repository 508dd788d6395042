//! What a server offers: devices under names.
//!
//! # Several connections
//! All connections to an export use one device, on one thread. By the contract of [`Device`] a write that was replied
//! to is seen by every later read and covered by every later flush, whoever sent it. That is what
//! `NBD_FLAG_CAN_MULTI_CONN` promises, so it is always true here.

use device::{AnyDevice, Device};
use runtime::Gate;
use units::Bytes;

use crate::protocol::{LARGEST_PAYLOAD, LONGEST_STRING, transmission};

/// A device under a name.
pub struct Export {
    name: String,
    description: String,
    device: AnyDevice,
    read_only: bool,
    gate: Gate,
}

/// Why a device cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum ExportError {
    #[error("'{name}' is no name for an export; it must have at most {LONGEST_STRING} bytes and no NUL")]
    Name { name: String },
    #[error("two exports are called '{name}'; give each a name of its own")]
    Twice { name: String },
    #[error("{device} has blocks of {block:#}, and NBD knows powers of two up to 64 KiB")]
    Block { device: String, block: Bytes },
}

impl Export {
    /// Offers a device. An empty name makes it the default, which clients get who name none.
    pub fn new(name: &str, device: AnyDevice, read_only: bool) -> Result<Export, ExportError> {
        let shape = device.shape();
        if name.len() > LONGEST_STRING || name.contains('\0') {
            return Err(ExportError::Name { name: name.to_owned() });
        }
        let block = shape.logical_block;
        if !block.get().is_power_of_two() || block > Bytes::kib(64) {
            return Err(ExportError::Block { device: shape.name.clone(), block });
        }
        let description = shape.name.chars().filter(|letter| *letter != '\0').take(256).collect();
        Ok(Export { name: name.to_owned(), description, device, read_only, gate: Gate::default() })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// What it is, for people.
    pub fn description(&self) -> &str {
        &self.description
    }
    /// The device.
    pub fn device(&self) -> &AnyDevice {
        &self.device
    }
    /// Through which writes go, of all connections.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }
    /// True if writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// What may be done with it, by a client with or without structured replies.
    pub fn flags(&self, structured: bool) -> u16 {
        use transmission::*;
        let kind = if self.read_only { READ_ONLY } else { SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES };
        // A read is always answered in one piece.
        let whole = if structured { SEND_DF } else { 0 };
        HAS_FLAGS | SEND_FLUSH | CAN_MULTI_CONN | kind | whole
    }

    /// The smallest, the preferred and the largest request. What does not fit the device's blocks is completed, so any
    /// is large enough.
    pub fn block_sizes(&self) -> [u32; 3] {
        let shape = self.device.shape();
        // Below a page nothing is gained, above some MiB nothing is a block.
        let preferred = shape.physical_block.max(shape.logical_block).get().clamp(4096, 8 << 20).next_power_of_two();
        [1, preferred as u32, LARGEST_PAYLOAD]
    }
}

/// All that a server offers, in the order in which it is listed.
pub struct Exports(Vec<Export>);

impl Exports {
    /// Exports with different names.
    pub fn new(exports: Vec<Export>) -> Result<Exports, ExportError> {
        for (index, export) in exports.iter().enumerate() {
            if exports[..index].iter().any(|other| other.name == export.name) {
                return Err(ExportError::Twice { name: export.name.clone() });
            }
        }
        Ok(Exports(exports))
    }

    /// All of them.
    pub fn all(&self) -> &[Export] {
        &self.0
    }

    /// The place of the export of that name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|export| export.name == name)
    }
}
