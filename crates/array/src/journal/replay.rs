//! After a start: what the journal holds is written to the members again.

use std::collections::{BTreeMap, BTreeSet};

use device::{Data, Device, DeviceError};
use units::Bytes;

use crate::array::Array;
use crate::journal::{Journal, PAGE};
use crate::md::{JournalBlock, JournalPayload};
use crate::open::OpenError;
use crate::stripe::Band;

impl<D: Device> Array<D> {
    /// After the start: writes again what the log holds, and lets it begin anew. Data that have no parity in it are
    /// written the usual way, and stay in it until then: a power cut, or a member's error, must not meet them when they
    /// are on neither.
    pub(crate) async fn replay_journal(&self, journal: &Journal<D>) -> Result<(), OpenError> {
        let (rest, used) = self.replay_log(journal).await.map_err(OpenError::Replay)?;
        let columns: BTreeSet<Bytes> = rest.keys().map(|at| self.column(*at)).collect();
        *journal.rest.borrow_mut() = rest;
        if !columns.is_empty() && !journal.has_room_to_begin(used, self.members.len()) {
            let rest = PAGE * journal.rest.borrow().len() as u64;
            return Err(OpenError::JournalFull { rest, used, size: journal.size });
        }
        // Who could not make durable what it was given is called failed first: the log is the only one to have it.
        self.settle().await.map_err(OpenError::Replay)?;
        journal.begin_anew().await.map_err(OpenError::Replay)?;
        for column in columns {
            self.write_column(journal, column).await.map_err(OpenError::Replay)?;
        }
        Ok(())
    }

    /// Where a page of the array lies on its member.
    fn column(&self, address: Bytes) -> Bytes {
        self.geometry.place(address).offset
    }

    /// Writes what the log holds without parity of a page of all members, in one: a parity in the log stands for all
    /// data of its column that are before it.
    async fn write_column(&self, journal: &Journal<D>, column: Bytes) -> Result<(), DeviceError> {
        let row = column / self.geometry.chunk();
        let start = self.geometry.stripe_size() * row;
        let address = |index: usize| start + self.geometry.chunk() * index as u64 + column % self.geometry.chunk();
        let page = |index: usize| journal.rest.borrow().get(&address(index)).cloned();
        let stripe = self.geometry.stripe(row);
        let indices = || (0..stripe.data()).filter(|index| page(*index).is_some());
        let written = indices().min().expect("there is one")..indices().max().expect("there is one") + 1;
        if let Some(state) = &self.state
            && !self.may_write(state)
        {
            self.tell(state).await?;
        }
        let _lock = self.locks.lock(row).await;
        let mut pages = Vec::new();
        for index in written.clone() {
            pages.push(match page(index) {
                Some(page) => page,
                None => self.read_locked(address(index)..address(index) + PAGE, 0).await?.freeze(),
            });
        }
        let band = Band::of_pages(stripe, column..column + PAGE, written, &pages);
        self.write_steps(&band, false, 0).await?;
        journal.rest.borrow_mut().retain(|address, _| self.column(*address) != column);
        self.settle().await
    }

    /// Writes again what the log holds. Gives data that have no parity in it, by address, and how long it is.
    async fn replay_log(&self, journal: &Journal<D>) -> Result<(BTreeMap<Bytes, Data>, Bytes), DeviceError> {
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
        Ok((open, passed))
    }

    /// Replays one meta block, if all its pages are as they should be: one that is torn was not acknowledged, and
    /// nothing of it is on the members. Gives how long they are.
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
                    for address in in_row.into_iter().filter(|address| self.column(*address) == *at) {
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
                    open.retain(|address, _| !flushed.contains(&self.column(*address)));
                }
            }
        }
        Ok(length)
    }
}
