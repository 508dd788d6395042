//! What of a device is offered, and under which name: all of it, or parts that are exports of their own.
//!
//! A part is a [`Slice`], and the server knows no difference between it and a whole device.
//!
//! # Overlaps
//! Several connections to one export may be relied upon to see each other's writes ([`Export`] says why). Clients of
//! two exports have no reason to expect such a thing: each keeps a cache, a file system, a journal of its own and
//! believes to be alone. Two exports that share bytes are therefore refused, unless none of the two can be written:
//! what does not change cannot be seen differently. That one of them is read-only is not enough, as its clients may
//! keep what they have read for as long as they like.

use std::ops::Range;
use std::str::FromStr;

use device::filter::{Slice, SliceError};
use device::{AnyDevice, Device};
use runtime::Runtime;
use units::Bytes;

use crate::export::{Export, ExportError, Exports};

/// What is said behind a name to refuse writes.
const READ_ONLY: &str = ",read-only";

/// A name without commas, and what is offered under it: `NAME`, or `NAME=FROM..TO` for a part, where FROM or TO may be
/// left away; with `,read-only` behind it, no writes are taken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Portion {
    /// The export's name; empty for the default one.
    pub name: String,
    /// From where on; the beginning if not said.
    pub from: Option<Bytes>,
    /// Up to where, exclusively; the end if not said.
    pub to: Option<Bytes>,
    /// Writes are refused.
    pub read_only: bool,
}

/// A text that names no portion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is no export: {reason}; write NAME, or NAME=FROM..TO for a part such as home=0..100GiB or rest=100GiB.., and \
     {READ_ONLY} behind it to refuse writes"
)]
pub struct PortionError {
    text: String,
    reason: String,
}

impl FromStr for Portion {
    type Err = PortionError;
    fn from_str(text: &str) -> Result<Portion, PortionError> {
        // What a terminal would act on is written as what it is.
        let shown = |it: char| if it.is_control() { it.escape_default().to_string() } else { it.to_string() };
        let error = |reason: String| PortionError { text: text.chars().map(shown).collect(), reason };
        if text.contains(char::is_control) {
            return Err(error("a name has only characters that terminals show".into()));
        }
        let (rest, read_only) = match text.strip_suffix(READ_ONLY) {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        // What was misspelt would be part of a name, and take writes.
        if let Some((_, word)) = rest.rsplit_once(',') {
            return Err(error(format!("',{word}' is not known, and a name has no comma in it")));
        }
        let Some((name, range)) = rest.split_once('=') else {
            return Ok(Portion { name: rest.to_owned(), from: None, to: None, read_only });
        };
        let (from, to) = range.split_once("..").ok_or_else(|| error(format!("'{range}' has no .. in it")))?;
        let bound = |text: &str| match text.trim() {
            "" => Ok(None),
            // The one amount that is the same in all units.
            "0" => Ok(Some(Bytes::ZERO)),
            text => text.parse().map(Some).map_err(|wrong: units::ParseError| error(wrong.to_string())),
        };
        Ok(Portion { name: name.to_owned(), from: bound(from)?, to: bound(to)?, read_only })
    }
}

/// Why a device cannot be divided so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum DivideError {
    #[error("export '{name}': {source}")]
    Slice { name: String, source: SliceError },
    #[error(transparent)]
    Export(#[from] ExportError),
    #[error(
        "exports '{first}' and '{second}' share the bytes from {start:#} to {end:#}, and clients of one would not see what \
         those of the other write; end one where the other begins, or put {READ_ONLY} behind both"
    )]
    Overlap { first: String, second: String, start: Bytes, end: Bytes },
}

impl Portion {
    /// The bytes of a device of that size.
    pub fn of(&self, size: Bytes) -> Range<Bytes> {
        self.from.unwrap_or(Bytes::ZERO)..self.to.unwrap_or(size)
    }
}

/// Offers these portions of a device; all of it under no name if there are none. `read_only` holds for all.
pub fn divide(
    runtime: &Runtime,
    device: &AnyDevice,
    portions: &[Portion],
    read_only: bool,
) -> Result<Exports, DivideError> {
    let size = device.shape().size;
    let whole = [Portion::default()];
    let portions = if portions.is_empty() { &whole } else { portions };
    let mut exports = Vec::new();
    for portion in portions {
        let range = portion.of(size);
        let offered = match range == (Bytes::ZERO..size) {
            true => device.clone(),
            false => Slice::new(runtime, device.clone(), range)
                .map(AnyDevice::new)
                .map_err(|source| DivideError::Slice { name: portion.name.clone(), source })?,
        };
        exports.push(Export::new(&portion.name, offered, read_only || portion.read_only)?);
    }
    let exports = Exports::new(exports)?;
    for (index, one) in portions.iter().enumerate() {
        for other in &portions[..index] {
            let (range, before) = (one.of(size), other.of(size));
            let (start, end) = (range.start.max(before.start), range.end.min(before.end));
            if start < end && !(read_only || one.read_only && other.read_only) {
                let (first, second) = (other.name.clone(), one.name.clone());
                return Err(DivideError::Overlap { first, second, start, end });
            }
        }
    }
    Ok(exports)
}
