//! After a start: what the journal holds is written to the members again.

use std::collections::BTreeMap;

use device::{Data, Device, DeviceError};
use units::Bytes;

use crate::array::Array;
use crate::journal::{Journal, PAGE};
use crate::md::{JournalBlock, JournalPayload};

impl<D: Device> Array<D> {
    /// After the start: writes again what the log holds. Gives data that have no parity in the log, by address, for the usual way.
    pub(crate) async fn replay_journal(&self, journal: &Journal<D>) -> Result<BTreeMap<Bytes, Data>, DeviceError> {
        let mut open: BTreeMap<Bytes, Data> = BTreeMap::new();
        let mut at = Bytes::SECTOR * journal.superblock.borrow().recovery.min(1 << 50);
        if at >= journal.size || !at.is_multiple_of(PAGE) {
            at = Bytes::ZERO;
        }
        let mut expected = None;
        let begin = at;
        let mut passed = Bytes::ZERO;
        while passed < journal.size {
            let block = journal.read(at).await?;
            let Ok(block) = JournalBlock::parse(block.bytes().expect("it is real"), journal.array) else { break };
            if block.position != at || expected.is_some_and(|expected| expected != block.sequence) {
                break;
            }
            expected = Some(block.sequence + 1);
            let end = self.replay_block(journal, &block, &mut open).await?;
            passed += PAGE + end;
            at = journal.after(at, PAGE);
            at = journal.after(at, end);
        }
        self.flush_members(0).await?;
        // Far beyond what may lie torn in the log, as md does.
        journal.sequence.set(expected.map_or(1, |sequence| sequence + 10_000));
        journal.head.set(if passed < journal.size { at } else { begin });
        Ok(open)
    }

    /// Replays one meta block, if all its pages are as they should be: one that is torn was not acknowledged, and nothing of it is on the
    /// members. Gives how long they are.
    async fn replay_block(
        &self,
        journal: &Journal<D>,
        block: &JournalBlock,
        open: &mut BTreeMap<Bytes, Data>,
    ) -> Result<Bytes, DeviceError> {
        let mut next = journal.after(block.position, PAGE);
        let (mut length, mut pages, mut whole) = (Bytes::ZERO, Vec::new(), true);
        for payload in &block.payloads {
            let (JournalPayload::Data { checksums, .. } | JournalPayload::Parity { checksums, .. }) = payload else {
                continue;
            };
            for checksum in checksums {
                let page = journal.read(next).await?.freeze();
                whole &= JournalBlock::checksum(journal.array, page.bytes().expect("it is real")) == *checksum;
                pages.push(page);
                next = journal.after(next, PAGE);
                length += PAGE;
            }
        }
        if !whole {
            return Ok(length);
        }
        let chunk = self.geometry.chunk();
        let column = |address: Bytes| {
            let place = self.geometry.place(address);
            place.offset
        };
        let mut pages = pages.into_iter();
        for payload in &block.payloads {
            match payload {
                JournalPayload::Data { at, checksums } => {
                    for number in 0..checksums.len() as u64 {
                        let page = pages.next().expect("as many pages as checksums");
                        let address = *at + PAGE * number;
                        if address + PAGE <= self.geometry.size() {
                            open.insert(address, page);
                        }
                    }
                }
                JournalPayload::Parity { at, checksums } => {
                    let parities: Vec<Data> = pages.by_ref().take(checksums.len()).collect();
                    if *at + PAGE > self.geometry.used() {
                        continue;
                    }
                    let row = *at / chunk;
                    let stripe = self.geometry.stripe(row);
                    let (row_size, range) = (self.geometry.stripe_size(), *at..*at + PAGE);
                    let in_row: Vec<Bytes> =
                        open.range(row_size * row..row_size * (row + 1)).map(|(a, _)| *a).collect();
                    let mut writes: Vec<(usize, Data)> = Vec::new();
                    for address in in_row.into_iter().filter(|address| column(*address) == *at) {
                        let page = open.remove(&address).expect("it is among them");
                        writes.push((self.geometry.place(address).member, page));
                    }
                    writes.extend(stripe.parity_members().zip(parities));
                    for (member, page) in writes {
                        if self.members[member].takes_writes(&range) {
                            self.members[member].write(range.start, page, false, 0).await?;
                        }
                    }
                }
                JournalPayload::Flush { stripes } => {
                    let flushed: Vec<Bytes> = stripes.iter().map(|s| Bytes::SECTOR * (*s).min(1 << 50)).collect();
                    open.retain(|address, _| !flushed.contains(&column(*address)));
                }
            }
        }
        Ok(length)
    }
}
