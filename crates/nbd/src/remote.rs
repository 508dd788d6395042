//! What the export of another server holds, looked at before it is written.
//!
//! The guard of `host` decides over paths of this machine: who holds them, what they carry. Of an export only the
//! second can be known, from its contents; whether others use it only its server knows.

use std::io;

use device::{Buffer, Device, DeviceError, Request};
use host::signature::{Signature, recognise};
use units::{Bytes, Duration};
use uring::{Live, LiveOptions};

use crate::{Client, ClientError, Uri};

/// Why an export could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// It could not be reached.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It could not be read.
    #[error("{uri} cannot be read ({source}), so it is not known whether it carries data; it is not written")]
    Unreadable {
        /// The export.
        uri: String,
        /// What reading it gave.
        source: io::Error,
    },
}

/// Why an export is not written.
#[derive(Debug, thiserror::Error)]
pub enum NoLeave {
    /// Nobody has said that what is there may be lost.
    #[error("{uri}: writing would destroy what is there; add --destroy-data if that is meant")]
    NotAsked {
        /// The export.
        uri: String,
    },
    /// It carries data, and is not named twice.
    #[error(
        "{uri} is not written with --destroy-data alone: it carries {found}; name it a second time, spelled the same, if that may be lost, or wipe it first (wipefs)"
    )]
    Carries {
        /// The export.
        uri: String,
        /// What is recognised there.
        found: Signature,
    },
    /// It takes no writes.
    #[error("{uri} is read-only; have its server offer it for writing, or name another")]
    ReadOnly {
        /// The export.
        uri: String,
    },
    /// It could not be looked at.
    #[error(transparent)]
    Look(#[from] LookError),
}

impl NoLeave {
    /// True if the user can change it.
    pub fn is_input(&self) -> bool {
        !matches!(self, NoLeave::Look(_))
    }
}

/// Leave to write to an export, by the same words as to a path: what is there is lost, and data that are recognised are
/// named twice. The server may take no longer than that to offer it.
pub fn may_write(uri: &Uri, destroy_data: bool, times_named: usize, within: Duration) -> Result<(), NoLeave> {
    if !destroy_data {
        return Err(NoLeave::NotAsked { uri: uri.to_string() });
    }
    let live = Live::start(&LiveOptions::default());
    let client = connect(&live, uri, within)?;
    if !live.runtime().block_on(takes_writes(&client)) {
        return Err(NoLeave::ReadOnly { uri: uri.to_string() });
    }
    match recognised(&live, &client, uri)?.into_iter().next() {
        Some(found) if times_named < 2 => Err(NoLeave::Carries { uri: uri.to_string(), found }),
        _ => Ok(()),
    }
}

/// Whether an export takes writes. Its client knows from the handshake, and says so of a write of nothing, which is not
/// sent.
pub async fn takes_writes(device: &impl Device) -> bool {
    let nothing = Request::write_zeroes(Bytes::ZERO, Bytes::ZERO);
    device.submit(nothing).await.result != Err(DeviceError::ReadOnly)
}

/// What is recognised on an export, whose server may take no longer than that to offer it.
pub fn contents(uri: &Uri, within: Duration) -> Result<Vec<Signature>, LookError> {
    let live = Live::start(&LiveOptions::default());
    recognised(&live, &connect(&live, uri, within)?, uri)
}

fn connect(live: &Live, uri: &Uri, within: Duration) -> Result<Client, LookError> {
    Ok(live.runtime().block_on(Client::connect_within(live, uri, within))?)
}

fn recognised(live: &Live, client: &Client, uri: &Uri) -> Result<Vec<Signature>, LookError> {
    let block = client.shape().logical_block;
    let read = |at: Bytes, into: &mut [u8]| {
        // The last piece may end within a block.
        let length = Bytes::new(into.len() as u64);
        let reply = live.runtime().block_on(client.submit(Request::read(at, Buffer::zeroed(length.round_up(block)))));
        reply.result.map_err(io::Error::other)?;
        let found = reply.buffer.expect("a read's buffer comes back");
        into.copy_from_slice(&found.bytes().expect("what was read has bytes")[..into.len()]);
        Ok(())
    };
    recognise(client.shape().size, read).map_err(|source| LookError::Unreadable { uri: uri.to_string(), source })
}
