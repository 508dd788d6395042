//! Locate mode: commands of the host, an interrupt for each, data through the host's memory.
//!
//! The host builds a control block, writes its address and the device's number to the adapter's registers
//! (`command-words` of the operating system), and the adapter does the rest, up to its interrupt. That is the way of
//! any driver's command ([`Os::kernel`](crate::os::Os::kernel)); the fetch of the control block is a part of what the
//! adapter's processor takes for a command. A frame to send is a command to the network adapter, which has one at a
//! time.

use std::rc::Rc;

use units::Bytes;

use super::{Files, count};
use crate::lines::Lines;
use crate::network::Direction;
use crate::os::command;
use crate::trace::Ledger;

/// Disks' queues in the drivers: reads go before what waits in the write buffer.
const READ: u32 = 0;
const WRITE: u32 = 1;

impl Files {
    pub(super) async fn locate_read(self: &Rc<Files>, at: (usize, Bytes), bytes: Bytes, ledger: &mut Ledger) {
        let server = &self.server;
        self.receive(self.clients.message, ledger).await;
        server.os.work(server.parameters.file_system, ledger, "file-system").await;
        let (first, whole) = self.blocks(at.1, bytes);
        let file = self.each * at.0 as u64 + first;
        let there = server.cache.borrow_mut().hits(file, whole);
        if there.unwrap_or_else(|share| self.draw(share)) {
            count(&server.counts.hits);
        } else {
            self.command(false, (at.0, first), whole, ledger).await;
        }
        server.cache.borrow_mut().keep(file, whole);
        server.os.move_data(bytes, ledger).await;
        for packet in self.clients.network.packets(bytes) {
            self.send(packet, ledger).await;
        }
    }

    pub(super) async fn locate_write(self: &Rc<Files>, at: (usize, Bytes), bytes: Bytes, ledger: &mut Ledger) {
        let (server, buffer) = (&self.server, self.server.parameters.write_buffer.get());
        for packet in self.clients.network.packets(bytes) {
            self.receive(packet, ledger).await;
        }
        server.os.work(server.parameters.file_system, ledger, "file-system").await;
        // What is larger than the buffer goes through it while it is written.
        let room = bytes.get().min(buffer);
        self.take_room(room, buffer, ledger).await;
        server.os.move_data(bytes, ledger).await;
        if self.draw(server.parameters.merged) {
            count(&server.counts.merged);
        } else {
            self.command(true, at, bytes, ledger).await;
        }
        server.cache.borrow_mut().keep(self.each * at.0 as u64 + at.1, bytes);
        self.give_room(room);
        self.send(self.clients.message, ledger).await;
    }

    /// What a read that misses loads: one of less than a block loads a block.
    fn blocks(&self, at: Bytes, bytes: Bytes) -> (Bytes, Bytes) {
        let block = self.server.parameters.block;
        if bytes >= block {
            return (at, bytes);
        }
        let first = at.round_down(block);
        (first, (at + bytes).round_up(block).min(self.each) - first)
    }

    /// A command of the disk's driver; others wait there.
    async fn command(&self, write: bool, at: (usize, Bytes), bytes: Bytes, ledger: &mut Ledger) {
        let disk = &self.disks[at.0];
        let _turn = disk.turn.acquire(if write { WRITE } else { READ }).await;
        self.note(ledger, "driver-queue");
        count(&self.server.counts.commands);
        count(&self.server.counts.interrupts);
        self.server.os.kernel(&*disk.endpoint, command(write, at.1, bytes), ledger).await;
    }

    /// A frame comes in, up to the server code.
    async fn receive(&self, bytes: Bytes, ledger: &mut Ledger) {
        let (network, adapter) = (&self.clients.network, &self.clients.network.adapter);
        network.send(bytes, Direction::In, ledger).await;
        adapter.think(ledger).await;
        adapter.transfer(bytes, true, Lines::Flushed, ledger).await;
        self.interrupt(ledger).await;
        self.server.os.work(self.server.parameters.receive, ledger, "receive").await;
    }

    /// A frame goes out: a command to the adapter, which is not free for the next before its interrupt.
    async fn send(&self, bytes: Bytes, ledger: &mut Ledger) {
        let (network, adapter) = (&self.clients.network, &self.clients.network.adapter);
        self.server.os.work(self.server.parameters.send, ledger, "send").await;
        let turn = self.sending.acquire(0).await;
        self.note(ledger, "adapter-busy");
        self.server.os.write_registers(adapter.register_word, ledger).await;
        adapter.transfer(bytes, false, Lines::Flushed, ledger).await;
        adapter.think(ledger).await;
        network.send(bytes, Direction::Out, ledger).await;
        drop(turn);
        // The client has the frame; the interrupt is of the host alone.
        count(&self.server.counts.interrupts);
        self.server.os.interrupt_aside();
    }
}
