//! Identities for what is new: random bytes from the kernel, as `mdadm` takes them.

use std::fs::File;
use std::io::{self, Read};

/// Sixteen random bytes.
pub fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
