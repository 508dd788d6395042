//! A wire in memory, for conversations under the virtual clock.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use device::Buffer;
use runtime::Signal;
use uring::Parcel;

use crate::wire::Wire;

/// Bytes that were sent and not received: more make the sender wait, as a socket's memory does.
const CAPACITY: usize = 64 * 1024;

/// One end of a connection in memory.
pub struct Pipe {
    inward: Rc<Way>,
    outward: Rc<Way>,
}

#[derive(Default)]
struct Way {
    bytes: RefCell<VecDeque<u8>>,
    /// How many there were.
    moved: Cell<u64>,
    ended: Cell<bool>,
    changed: Signal,
}

impl Way {
    async fn take_in(&self, parcels: &[Parcel]) -> io::Result<()> {
        for mut part in parcels.iter().flat_map(Parcel::parts) {
            while !part.is_empty() {
                self.changed.wait_until(|| self.bytes.borrow().len() < CAPACITY || self.ended.get()).await;
                if self.ended.get() {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                let count = part.len().min(CAPACITY - self.bytes.borrow().len());
                self.bytes.borrow_mut().extend(&part[..count]);
                self.moved.set(self.moved.get() + count as u64);
                self.changed.notify();
                part = &part[count..];
            }
        }
        Ok(())
    }

    fn give_out(&self, into: &mut Buffer) -> usize {
        let memory = into.bytes_mut().expect("what is received needs memory");
        let count = {
            let mut bytes = self.bytes.borrow_mut();
            let count = memory.len().min(bytes.len());
            memory.iter_mut().zip(bytes.drain(..count)).for_each(|(place, byte)| *place = byte);
            count
        };
        self.changed.notify();
        count
    }

    fn end(&self) {
        self.ended.set(true);
        self.changed.notify();
    }
}

impl Pipe {
    /// Both ends.
    pub fn pair() -> (Pipe, Pipe) {
        let ways = [Rc::new(Way::default()), Rc::new(Way::default())];
        let [there, back] = ways.clone();
        let [other_there, other_back] = ways;
        (Pipe { inward: back, outward: there }, Pipe { inward: other_there, outward: other_back })
    }
}

impl Wire for Pipe {
    async fn receive(&self, mut into: Buffer) -> (Buffer, io::Result<usize>) {
        let way = &self.inward;
        way.changed.wait_until(|| !way.bytes.borrow().is_empty() || way.ended.get()).await;
        let count = way.give_out(&mut into);
        (into, Ok(count))
    }

    fn receive_arrived(&self, into: &mut Buffer) -> Option<io::Result<usize>> {
        let nothing = self.inward.bytes.borrow().is_empty() && !self.inward.ended.get();
        (!nothing).then(|| Ok(self.inward.give_out(into)))
    }

    async fn send(&self, parcels: Vec<Parcel>) -> (Vec<Parcel>, io::Result<()>) {
        let sent = self.outward.take_in(&parcels).await;
        (parcels, sent)
    }

    fn stop_receiving(&self) {
        self.inward.end();
    }

    fn stop_sending(&self) {
        self.outward.end();
    }

    fn moved(&self) -> u64 {
        self.inward.moved.get() + self.outward.moved.get()
    }
}

impl Drop for Pipe {
    /// As with a socket, the other end finds this one gone.
    fn drop(&mut self) {
        self.inward.end();
        self.outward.end();
    }
}
