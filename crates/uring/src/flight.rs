//! A request or a call on its way through a ring, seen from the task that waits for it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use device::{Reply, Request};

use crate::call::Call;
use crate::ring::Ring;

/// A file or socket registered with a ring.
pub(crate) struct RingFile {
    ring: Ring,
    index: u32,
}

impl RingFile {
    pub fn new(ring: Ring, index: u32) -> RingFile {
        RingFile { ring, index }
    }

    /// The ring.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Whether nothing is under way, what was left to the ring included.
    pub fn is_idle(&self) -> bool {
        self.ring.is_idle(self.index)
    }

    /// Carries a request out on this file. It must fit the file: the caller has checked it.
    ///
    /// Dropping the future leaves the request to the ring, which keeps its memory until the kernel is done.
    pub async fn carry_out(&self, request: Request) -> Reply {
        let slot = self.ring.start(request, self.index);
        Flight { ring: &self.ring, slot, landed: false }.await
    }

    /// Makes a call on this socket; returns it with the kernel's result, a number or a negative errno.
    ///
    /// Dropping the future cancels the call. Its memory stays with the ring until the kernel has let go.
    pub async fn call(&self, call: Call) -> (Call, i32) {
        let place = self.ring.start_call(call, self.index);
        Conversation { ring: &self.ring, place, over: false }.await
    }
}

impl Drop for RingFile {
    fn drop(&mut self) {
        self.ring.close(self.index);
    }
}

/// Waits for the request in a slot.
struct Flight<'a> {
    ring: &'a Ring,
    slot: u32,
    landed: bool,
}

impl Future for Flight<'_> {
    type Output = Reply;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Reply> {
        assert!(!self.landed, "a reply is taken once");
        let reply = self.ring.poll(self.slot, context.waker());
        self.landed = reply.is_ready();
        reply
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if !self.landed {
            self.ring.abandon(self.slot);
        }
    }
}

/// Waits for a call.
struct Conversation<'a> {
    ring: &'a Ring,
    place: u32,
    over: bool,
}

impl Future for Conversation<'_> {
    type Output = (Call, i32);
    fn poll(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<(Call, i32)> {
        assert!(!self.over, "an outcome is taken once");
        let outcome = self.ring.poll_call(self.place, context.waker());
        self.over = outcome.is_ready();
        outcome
    }
}

impl Drop for Conversation<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.ring.abandon_call(self.place);
        }
    }
}
