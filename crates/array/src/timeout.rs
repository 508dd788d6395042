//! Time-outs: no member is waited for longer than its limit.
//!
//! Whoever waits gives up a request that is late; the member may still carry it out, which is why it is used no more.
//!
//! Nearly no request is late, and a timer that is made for each, and taken back, shows in what a small write costs
//! (`benchsuite array`). So one that was not needed stays where it is among the timers, and waits for a later request:
//! it is due too early for that one, which then has it wait for the rest, as [`both_within`] does. One that nobody
//! needs any more wakes somebody once, for nothing.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Poll, ready};

use device::{Buffer, Device, DeviceError, Operation, Payload, Reply, Request, Stamps};
use futures_util::future::{Either, select};
use runtime::{Runtime, Sleep};
use units::{Bytes, Duration};

/// How long a member may take for a request before it counts as failed: what Linux gives a SCSI command.
pub(crate) const TIME_LIMIT: Duration = Duration::seconds(30);

/// Sends a request and waits no longer than the limit. What is late may still take effect; a read's buffer is then
/// another one.
pub(crate) async fn within<D: Device>(runtime: &Runtime, limit: Duration, device: &D, request: Request) -> Reply {
    let submitted = runtime.now();
    let (is_read, length) = (request.operation == Operation::Read, request.length);
    let phantom = matches!(&request.payload, Payload::Into(buffer) if buffer.bytes().is_none());
    match select(pin!(device.submit(request)), pin!(runtime.sleep_until(submitted + limit))).await {
        Either::Left((reply, _)) => reply,
        Either::Right(_) => late(limit, Stamps { submitted, completed: runtime.now() }, is_read, length, phantom),
    }
}

/// Whether a request was carried out, and a read's buffer.
pub(crate) type Outcome = (Result<(), DeviceError>, Option<Buffer>);

/// Waits for two requests that have just been made, for both no longer than the limit. The timer may be due earlier, as
/// it was made for what came before: then it is moved on. Of what is late there is no reply. Replies are put where the
/// caller looks at them, and without their stamps: words of 16 bytes that were just written in smaller parts are slow
/// to move behind a copy (`benchsuite array`).
pub(crate) fn both_within<'a, F: Future<Output = Reply>>(
    runtime: &'a Runtime,
    limit: Duration,
    timer: &'a mut Sleep,
    mut one: Pin<&'a mut F>,
    mut other: Pin<&'a mut F>,
    (of_one, of_other): (&'a mut Option<Outcome>, &'a mut Option<Outcome>),
) -> impl Future<Output = ()> + 'a {
    assert!(of_one.is_none() && of_other.is_none(), "nothing was replied to requests that were not sent");
    let deadline = runtime.now() + limit;
    poll_fn(move |context| {
        // Both go on before either reply is moved.
        let reply = if of_one.is_none() { one.as_mut().poll(context) } else { Poll::Pending };
        let other_reply = if of_other.is_none() { other.as_mut().poll(context) } else { Poll::Pending };
        if let Poll::Ready(reply) = reply {
            *of_one = Some((reply.result, reply.buffer));
        }
        if let Poll::Ready(reply) = other_reply {
            *of_other = Some((reply.result, reply.buffer));
        }
        if of_one.is_none() || of_other.is_none() {
            ready!(Pin::new(&mut *timer).poll(context));
            if runtime.now() < deadline {
                timer.wait_on(deadline);
                ready!(Pin::new(&mut *timer).poll(context));
            }
        }
        Poll::Ready(())
    })
}

#[cold]
fn late(limit: Duration, stamps: Stamps, is_read: bool, length: Bytes, phantom: bool) -> Reply {
    let buffer = if phantom { Buffer::phantom(length) } else { Buffer::zeroed(length) };
    Reply { result: Err(DeviceError::TimedOut(limit)), stamps, buffer: is_read.then_some(buffer) }
}

/// Timers of an array that no request has at the moment.
#[derive(Default)]
pub(crate) struct TimeOuts(RefCell<Vec<Sleep>>);

impl TimeOuts {
    /// A timer that is due after the limit, or before.
    #[inline]
    pub fn take(&self, runtime: &Runtime, limit: Duration) -> Sleep {
        let deadline = runtime.now() + limit;
        // One that was made when more time was given would be too late.
        let kept = self.0.borrow_mut().pop().filter(|kept| kept.deadline() <= deadline);
        kept.unwrap_or_else(|| runtime.sleep_until(deadline))
    }

    /// Keeps a timer for others.
    #[inline]
    pub fn give(&self, timer: Sleep) {
        self.0.borrow_mut().push(timer);
    }
}

#[test]
fn a_timer_is_never_due_after_the_limit() {
    let runtime = Runtime::simulated();
    let time_outs = TimeOuts::default();
    let due = |limit: u64| {
        let timer = time_outs.take(&runtime, Duration::seconds(limit));
        let due = timer.deadline().since(runtime.now()).as_seconds();
        time_outs.give(timer);
        due
    };
    assert_eq!(due(30), 30.0);
    runtime.block_on(runtime.sleep(Duration::seconds(10)));
    assert_eq!(due(30), 20.0, "the same one");
    assert_eq!(due(5), 5.0, "another, as the limit is less by now");
}
