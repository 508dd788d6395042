//! Move mode: control elements in delivery pipes, data from adapter to adapter.
//!
//! A request's message becomes an element in the pipe from the network adapter to the host. The host is interrupted if
//! that pipe was empty; otherwise it is at work there already, and finds the element. It tells the disks' adapter by
//! one element for each frame of the request what to do, and has no more to do with it. Frames and disk commands go
//! side by side: while one piece is on the network, the disk works on the next. An element leaves its pipe when its
//! piece is done.

use std::rc::Rc;

use units::Bytes;

use super::{Files, count};
use crate::lines::Lines;
use crate::network::Direction;
use crate::os::command;
use crate::trace::Ledger;

impl Files {
    pub(super) async fn peer(self: &Rc<Files>, write: bool, at: (usize, Bytes), bytes: Bytes, ledger: &mut Ledger) {
        let (server, network) = (&self.server, &self.clients.network);
        let (pipe, element) = server.parameters.pipe.expect("the protocol's parameters have pipes");
        network.send(self.clients.message, Direction::In, ledger).await;
        network.adapter.think(ledger).await;
        network.adapter.transfer(element, true, Lines::Flushed, ledger).await;
        let pieces: Vec<Bytes> = network.packets(bytes).collect();
        let empty = self.taken.get() == 0;
        let room = element.get() * pieces.len() as u64;
        self.take_room(room, pipe.get(), ledger).await;
        if empty {
            self.interrupt(ledger).await;
        }
        let parameters = &server.parameters;
        let elements = parameters.element * pieces.len() as u64;
        server.os.work(parameters.receive + parameters.file_system + elements, ledger, "file-system").await;
        if let [piece] = pieces[..] {
            self.piece(write, at, piece, ledger).await;
        } else {
            let mut place = at.1;
            let mut under_way = Vec::new();
            for piece in pieces {
                let (files, here) = (Rc::clone(self), (at.0, place));
                under_way.push(self.runtime.spawn(async move {
                    let mut ledger = files.trace.aside(files.runtime.now());
                    files.piece(write, here, piece, &mut ledger).await;
                    ledger.close(files.runtime.now());
                }));
                place += piece;
            }
            for piece in under_way {
                piece.await;
            }
            self.note(ledger, "pieces");
        }
        self.give_room(room);
        if write {
            network.adapter.think(ledger).await;
            network.send(self.clients.message, Direction::Out, ledger).await;
        }
    }

    /// One frame of a request, between disk and network.
    async fn piece(&self, write: bool, at: (usize, Bytes), bytes: Bytes, ledger: &mut Ledger) {
        let (network, disk) = (&self.clients.network, &self.disks[at.0]);
        if write {
            network.send(bytes, Direction::In, ledger).await;
            network.adapter.think(ledger).await;
            network.adapter.exchange(bytes, true, ledger).await;
        }
        let turn = disk.turn.acquire(0).await;
        self.note(ledger, "driver-queue");
        count(&self.server.counts.commands);
        disk.endpoint.execute(command(write, at.1, bytes), Lines::Elsewhere, ledger).await;
        drop(turn);
        if !write {
            network.adapter.exchange(bytes, false, ledger).await;
            network.adapter.think(ledger).await;
            network.send(bytes, Direction::Out, ledger).await;
        }
    }
}
