//! Calls on sockets under way: accepting, receiving, sending.
//!
//! As with [`Slots`](crate::slot::Slots), what the kernel may touch stays here until it says that it is done. Two
//! things are different. A socket may wait for its peer for ever, so a call whose future is dropped is cancelled, not
//! left to end by itself. And a call is one round: how much was moved is for the caller, who knows what it is a part
//! of.

use std::os::fd::{FromRawFd, OwnedFd};
use std::rc::Rc;
use std::task::{Poll, Waker};

use device::{Buffer, Data};
use io_uring::types::Fixed;
use io_uring::{opcode, squeue};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// One call, with the memory that it moves.
pub(crate) enum Call {
    /// The next connection of a listening socket.
    Accept,
    /// At least one byte into the front of the buffer, unless the peer has ended; from this socket.
    Receive(Buffer, Rc<OwnedFd>),
    /// Bytes from several places, in order.
    Send(Sending),
}

/// A message in two parts: a head that was made for it, and a body that is sent from where it lies.
#[derive(Debug)]
pub struct Parcel {
    /// Sent first.
    pub head: Vec<u8>,
    /// Sent after it.
    pub body: Body,
}

/// The second part of a [`Parcel`].
#[derive(Debug)]
pub enum Body {
    /// There is none.
    None,
    /// Memory that comes back when it has been sent.
    Buffer(Buffer),
    /// Bytes that others may share.
    Data(Data),
}

impl Parcel {
    /// Only a head.
    pub fn head(head: Vec<u8>) -> Parcel {
        Parcel { head, body: Body::None }
    }

    /// The two parts, in the order in which they are sent.
    ///
    /// # Panics
    /// If the body is a phantom: what is sent has bytes.
    pub fn parts(&self) -> [&[u8]; 2] {
        let bytes = match &self.body {
            Body::None => Some(&[][..]),
            Body::Buffer(buffer) => buffer.bytes(),
            Body::Data(data) => data.bytes(),
        };
        [&self.head, bytes.expect("what is sent has bytes")]
    }

    /// How many bytes it is.
    pub fn length(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }
}

/// What is being sent.
pub(crate) struct Sending {
    parcels: Vec<Parcel>,
    /// Where the parts lie, for the kernel.
    parts: Vec<libc::iovec>,
    message: Box<libc::msghdr>,
}

/// The kernel takes no more parts at once (`UIO_MAXIOV`).
const MOST_PARTS: usize = 1024;

/// What is left of the parcels behind their first `sent` bytes, in as many parts as the kernel takes at once.
pub(crate) fn unsent(parcels: &[Parcel], sent: usize) -> impl Iterator<Item = &[u8]> {
    let parts = parcels.iter().flat_map(Parcel::parts);
    let rests = parts.scan(sent, |skip, part| {
        let skipped = part.len().min(*skip);
        *skip -= skipped;
        Some(&part[skipped..])
    });
    rests.filter(|rest| !rest.is_empty()).take(MOST_PARTS)
}

impl Sending {
    /// The parcels without their first `sent` bytes.
    pub fn new(parcels: Vec<Parcel>, sent: usize) -> Sending {
        let part = |part: &[u8]| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
        let mut parts: Vec<libc::iovec> = unsent(&parcels, sent).map(part).collect();
        // SAFETY: a message header is plain numbers and pointers, for which zero is valid: no address, no parts, no
        // control data.
        #[allow(unsafe_code)]
        let mut message: Box<libc::msghdr> = Box::new(unsafe { std::mem::zeroed() });
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = parts.len() as _;
        Sending { parcels, parts, message }
    }

    /// The parcels, back from the kernel.
    pub fn into_parcels(self) -> Vec<Parcel> {
        self.parcels
    }
}

/// The calls of one ring, in reused places.
#[derive(Default)]
pub(crate) struct Calls {
    places: Vec<Place>,
    free: Vec<u32>,
}

struct Place {
    /// Absent when the place is free.
    call: Option<Call>,
    state: State,
    abandoned: bool,
    /// Index of the registered file.
    file: u32,
    waker: Option<Waker>,
    result: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Queued,
    InKernel,
    Done,
}

impl Calls {
    /// Takes a call in; it is queued.
    pub fn insert(&mut self, call: Call, file: u32) -> u32 {
        let place = Place { call: Some(call), state: State::Queued, abandoned: false, file, waker: None, result: 0 };
        match self.free.pop() {
            Some(index) => {
                assert!(self.places[index as usize].call.is_none(), "a free place is empty");
                self.places[index as usize] = place;
                index
            }
            None => {
                self.places.push(place);
                (self.places.len() - 1) as u32
            }
        }
    }

    /// The call and the kernel's result (a number, or a negative errno) if it is done; otherwise `waker` will be woken
    /// for it.
    pub fn poll(&mut self, index: u32, waker: &Waker) -> Poll<(Call, i32)> {
        let place = &mut self.places[index as usize];
        if place.state != State::Done {
            match &mut place.waker {
                Some(old) => old.clone_from(waker),
                None => place.waker = Some(waker.clone()),
            }
            return Poll::Pending;
        }
        let call = place.call.take().expect("a place holds its call until it is taken");
        self.free.push(index);
        Poll::Ready((call, place.result))
    }

    /// The future is gone; true if the kernel must be asked to let go.
    #[must_use]
    pub fn abandon(&mut self, index: u32) -> bool {
        let place = &mut self.places[index as usize];
        place.abandoned = true;
        place.waker = None;
        if place.state == State::Done {
            self.release(index);
            return false;
        }
        place.state == State::InKernel
    }

    /// True if nobody wants this call any more.
    pub fn is_abandoned(&self, index: u32) -> bool {
        self.places[index as usize].abandoned
    }

    /// True if it waits for the next connection.
    pub fn is_accept(&self, index: u32) -> bool {
        matches!(self.places[index as usize].call, Some(Call::Accept))
    }

    /// The file of a call.
    pub fn file(&self, index: u32) -> u32 {
        self.places[index as usize].file
    }

    /// Frees a place and drops what it holds; returns the file it was for.
    pub fn release(&mut self, index: u32) -> u32 {
        let place = &mut self.places[index as usize];
        assert_ne!(place.state, State::InKernel, "memory is not taken away from under the kernel");
        if let (Some(Call::Accept), State::Done, fd @ 0..) = (&place.call, place.state, place.result) {
            drop(accepted(fd));
        }
        place.call = None;
        self.free.push(index);
        place.file
    }

    /// The submission entry of a queued call, which is in the kernel's hands from now on.
    ///
    /// The entry points into memory that the place owns and neither touches nor frees before
    /// [`complete`](Calls::complete).
    pub fn entry(&mut self, index: u32) -> squeue::Entry {
        let place = &mut self.places[index as usize];
        assert_eq!(place.state, State::Queued, "a call is submitted once");
        place.state = State::InKernel;
        let file = Fixed(place.file);
        match place.call.as_mut().expect("a queued place holds its call") {
            Call::Accept => {
                opcode::Accept::new(file, std::ptr::null_mut(), std::ptr::null_mut()).flags(libc::SOCK_CLOEXEC).build()
            }
            Call::Receive(buffer, _) => {
                let memory = buffer.bytes_mut().expect("what is received needs memory");
                opcode::Recv::new(file, memory.as_mut_ptr(), memory.len().min(1 << 30) as u32).build()
            }
            Call::Send(sending) => {
                let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
                match sending.parts[..] {
                    // The kernel need not fetch a message header for one part.
                    [part] if part.iov_len <= 1 << 30 => {
                        opcode::Send::new(file, part.iov_base.cast(), part.iov_len as u32).flags(flags).build()
                    }
                    _ => opcode::SendMsg::new(file, &raw const *sending.message).flags(flags as u32).build(),
                }
            }
        }
    }

    /// Carries out a queued receive by a system call of its own, which waits no longer than the socket is set to, or
    /// not at all; false if nothing came.
    pub fn receive_here(&mut self, index: u32, flags: RecvFlags) -> bool {
        let place = &mut self.places[index as usize];
        assert_eq!(place.state, State::Queued, "what the kernel has is not received twice");
        let Some(Call::Receive(buffer, socket)) = &mut place.call else { panic!("only a receive is carried out here") };
        let memory = buffer.bytes_mut().expect("what is received needs memory");
        let result = match recv(&**socket, memory, flags) {
            Ok((count, _)) => count as i32,
            Err(Errno::AGAIN | Errno::INTR) => return false,
            Err(error) => -error.raw_os_error(),
        };
        place.state = State::InKernel;
        self.complete(index, result);
        true
    }

    /// Takes note of a completion.
    pub fn complete(&mut self, index: u32, result: i32) {
        let place = &mut self.places[index as usize];
        assert_eq!(place.state, State::InKernel, "a completion belongs to a call under way");
        place.state = State::Done;
        place.result = result;
        if let Some(waker) = place.waker.take() {
            waker.wake();
        }
    }
}

/// The descriptor of a connection, which is ours from now on.
pub(crate) fn accepted(fd: i32) -> OwnedFd {
    // SAFETY: the kernel has just made it for this call, and nobody else knows it.
    #[allow(unsafe_code)]
    unsafe {
        OwnedFd::from_raw_fd(fd)
    }
}
