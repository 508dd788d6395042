//! The ledger of a run while it goes on: by it what a killed run wrote can be verified.
//!
//! ```text
//! ledger.log   "arraylab ledger log 1\n"
//!              a line of JSON: [{device, name, run, unit}, ...], of the devices that are written
//!              32 bytes for each write that has ended: device, first unit, number of units, version; 64 bits each, the lowest byte first
//! ```
//! Once a second each load thread hands over what has ended since, and a thread of the journal writes it down, so that
//! no load waits for a disk. A version of 0 says that the write failed, and that nobody knows what is there. After a
//! kill the last entry may be cut off; it is left out.
//!
//! The run holds a lock on the file as long as it lives: a run that goes on is not taken for one that was killed. When
//! it has ended, `ledger.bin` says the same in less, and this file goes. An entry for each write is about half of what
//! the record keeps of it, so no longer run is made impossible by it.
//!
//! Rejected: the whole ledger every second (a load thread would stop to walk it), and a flush of each entry before its
//! write is answered (the load would be the log's). What a power cut takes is what the kernel had not written by
//! itself.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};
use units::Bytes;
use workload::{Extent, Ledger, Version, Written};

use crate::verification::LedgerError;

const FIRST: &[u8] = b"arraylab ledger log 1\n";
/// Bytes of an entry.
const ENTRY: usize = 32;

/// The log of the writes of a run.
#[derive(Debug)]
pub(crate) struct Journal {
    sender: Sender<(u16, Vec<Extent>)>,
    writer: JoinHandle<io::Result<()>>,
}

/// A device that is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    device: u16,
    name: String,
    run: u64,
    unit: u64,
}

impl Journal {
    /// Begins the log of devices with these names and ledgers; `None` if none of them is written.
    pub fn create(path: &Path, devices: &[(String, Ledger)]) -> io::Result<Option<Journal>> {
        let written = devices.iter().filter(|(_, ledger)| !ledger.is_blind());
        let head = |(name, ledger): &(String, Ledger)| Head {
            device: ledger.device(),
            name: name.clone(),
            run: ledger.run(),
            unit: ledger.unit().get(),
        };
        let heads: Vec<Head> = written.map(head).collect();
        if heads.is_empty() {
            return Ok(None);
        }
        let mut file = File::create(path)?;
        file.lock()?;
        let mut first = FIRST.to_vec();
        first.extend(serde_json::to_vec(&heads).expect("plain data becomes JSON"));
        first.push(b'\n');
        file.write_all(&first)?;
        let (sender, receiver) = channel();
        let writer = std::thread::Builder::new().name("journal".into()).spawn(move || write(file, &receiver))?;
        Ok(Some(Journal { sender, writer }))
    }

    /// Writes of a device have ended.
    pub fn note(&self, device: u16, ended: Vec<Extent>) {
        if !ended.is_empty() {
            // A writer whose disk refuses has gone, and says so in the end.
            let _ = self.sender.send((device, ended));
        }
    }

    /// Waits until everything is written down.
    pub fn close(self) -> io::Result<()> {
        drop(self.sender);
        self.writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// The life of the thread that writes.
fn write(mut file: File, batches: &Receiver<(u16, Vec<Extent>)>) -> io::Result<()> {
    for (device, ended) in batches {
        let mut bytes = Vec::with_capacity(ended.len() * ENTRY);
        for (first, units, version) in ended {
            for word in [u64::from(device), first, units, version.to_bits()] {
                bytes.extend(word.to_le_bytes());
            }
        }
        file.write_all(&bytes)?;
    }
    Ok(())
}

/// Names of devices and what was written to them, from the log of a run that was killed.
pub(crate) fn read(path: &Path) -> Result<Vec<(String, Written)>, LedgerError> {
    let unreadable = |source| LedgerError::Unreadable { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(unreadable)?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => return Err(LedgerError::GoesOn { path: path.to_owned() }),
        // A file system that knows no locks cannot tell.
        Err(TryLockError::Error(_)) | Ok(()) => {}
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    parse(&bytes).map_err(|at| LedgerError::Damaged { path: path.to_owned(), at })
}

/// The place of the first byte that is not what it should be, if there is one.
fn parse(bytes: &[u8]) -> Result<Vec<(String, Written)>, usize> {
    let rest = bytes.strip_prefix(FIRST).ok_or(0usize)?;
    let end = rest.iter().position(|byte| *byte == b'\n').ok_or(FIRST.len())?;
    let heads: Vec<Head> = serde_json::from_slice(&rest[..end]).map_err(|_| FIRST.len())?;
    let mut devices = Vec::new();
    for Head { name, run, device, unit } in heads {
        let unit = Bytes::new(unit);
        if unit.is_zero() || !unit.is_multiple_of(Bytes::SECTOR) {
            return Err(FIRST.len());
        }
        devices.push((name, Written { run, device, unit, extents: Vec::new(), cut: true }));
    }
    let mut at = FIRST.len() + end + 1;
    for entry in bytes[at..].as_chunks::<ENTRY>().0 {
        let [device, first, units, version] = *entry.as_chunks::<8>().0 else { unreachable!("four words") };
        let [device, first, units, version] = [device, first, units, version].map(u64::from_le_bytes);
        let of = devices.iter_mut().find(|(_, written)| u64::from(written.device) == device).ok_or(at)?;
        let fits = first.checked_add(units).and_then(|next| next.checked_mul(of.1.unit.get()));
        if units == 0 || fits.is_none_or(|end| end > i64::MAX as u64) {
            return Err(at);
        }
        of.1.extents.push((first, units, Version::from_bits(version).unwrap_or_default()));
        at += ENTRY;
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(folder: &Path) -> (std::path::PathBuf, Vec<Extent>) {
        let path = folder.join("ledger.log");
        let ledger = |device| Ledger::new(7, device, Bytes::kib(4));
        let devices = [("blind".to_owned(), Ledger::blind(0, Bytes::kib(4))), ("a \"b\"\n".to_owned(), ledger(1))];
        let journal = Journal::create(&path, &devices).unwrap().unwrap();
        let ended = vec![(3, 2, Version::new(0, 1)), (3, 1, Version::default()), (9, 1, Version::new(2, 5))];
        journal.note(1, ended[..2].to_vec());
        journal.note(1, Vec::new());
        journal.note(1, ended[2..].to_vec());
        assert!(matches!(read(&path), Err(LedgerError::GoesOn { .. })), "its run is alive");
        journal.close().unwrap();
        (path, ended)
    }

    #[test]
    fn a_log_says_what_had_ended_and_its_last_word_may_be_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let (path, ended) = log(folder.path());
        let [(name, written)] = &read(&path).unwrap()[..] else { panic!("one device is written") };
        assert_eq!((&**name, written.run, written.device, written.cut), ("a \"b\"\n", 7, 1, true));
        assert_eq!(written.extents, ended);
        let whole = std::fs::read(&path).unwrap();
        let head = whole.len() - 3 * ENTRY;
        for end in 0..whole.len() {
            let known = parse(&whole[..end]).map(|devices| devices[0].1.extents.len());
            assert_eq!(known.ok(), (end >= head).then(|| (end - head) / ENTRY), "{end} bytes");
        }
        // A device that it does not have, or a place that there is not, is damage.
        for word in [0, 1, 2] {
            let mut damaged = whole.clone();
            damaged[head + ENTRY + 8 * word..][..8].fill(0xff);
            assert_eq!(parse(&damaged), Err(head + ENTRY), "word {word}");
        }
    }

    /// What failed is known no longer, and later writes lie over earlier ones.
    #[test]
    fn a_ledger_is_made_of_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = log(folder.path());
        let known = Ledger::of(&read(&path).unwrap()[0].1).written();
        assert_eq!(known.extents, [(4, 1, Version::new(0, 1)), (9, 1, Version::new(2, 5))]);
    }

    #[test]
    fn devices_that_are_only_read_have_no_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.log");
        let devices = [("read".to_owned(), Ledger::blind(0, Bytes::kib(4)))];
        assert!(Journal::create(&path, &devices).unwrap().is_none() && !path.exists());
    }
}
