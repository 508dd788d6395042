//! A server: listeners, the connections that come in, and a clean end.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::{Rc, Weak};

use device::{Device, DeviceError, Request};
use futures_util::future::{Either, join, join_all, select};
use runtime::{Runtime, Signal};
use units::{Bytes, Duration};
use uring::{Listener, Socket};

use crate::budget::{LOOK, Limits};
use crate::connection::{House, converse};
use crate::export::Exports;
use crate::notice::Tell;
use crate::tls::ServerTls;
use crate::totals::Totals;

/// How a server serves.
#[derive(Clone, Default)]
pub struct ServeOptions {
    /// Of each connection, and of all.
    pub limits: Limits,
    /// If given, all is encrypted, and clients need certificates.
    pub tls: Option<ServerTls>,
    /// Called when the clients have their last answers: what devices are asked from then on is the server's own flush.
    pub settled: Option<Rc<dyn Fn()>>,
    /// Told of clients that are sent away.
    pub tell: Option<Tell>,
    /// Where it is counted what is done.
    pub totals: Rc<Totals>,
}

/// What a server has done, when it has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Served {
    /// Connections accepted.
    pub connections: u64,
    /// Requests answered.
    pub requests: u64,
    /// What was read.
    pub read: Bytes,
    /// What was written.
    pub written: Bytes,
    /// Requests answered with an error.
    pub errors: u64,
    /// Connections that were still busy when the server had waited long enough for them.
    pub abandoned: u32,
    /// Exports whose last flush failed: what was written to them may be lost.
    pub unflushed: Vec<(String, DeviceError)>,
}

/// How long requests under way may take when the server ends, and clients to take the replies.
const PATIENCE: Duration = Duration::seconds(10);
/// How long a connection may take to its end then, when nothing more is sent to it.
const LAST: Duration = Duration::seconds(1);
/// Clients on their way to an export that may be there beside those that are being closed.
const NEWCOMERS: u32 = 2;
/// After a connection that could not be accepted (no descriptors left) the next is tried this much later.
const RETRY: Duration = Duration::millis(100);

/// Serves the exports to all who come until `stop` is done. Then no more is accepted or read, what is under way is
/// finished and answered, and every export that may have been written to is flushed.
pub async fn serve(
    runtime: &Runtime,
    exports: Exports,
    listeners: Vec<Listener>,
    options: ServeOptions,
    stop: impl Future<Output = ()>,
) -> Served {
    let mut house = House::new(runtime, exports, options.tls, options.limits).telling(options.tell);
    house.totals = options.totals;
    let house = Rc::new(house);
    let guests = Rc::new(Guests::default());
    let looking = async {
        loop {
            runtime.sleep(LOOK).await;
            house.commons.look();
            house.totals.held.set(house.commons.held().get());
        }
    };
    {
        let accepting = join_all(listeners.iter().map(|listener| accept(&house, listener, &guests)));
        let accepting = join(accepting, looking);
        let _: Either<_, _> = select(pin!(accepting), pin!(stop)).await;
    }
    // Their sockets are removed: nobody finds the way here any more.
    drop(listeners);
    for wire in guests.wires.borrow().iter().filter_map(Weak::upgrade) {
        wire.stop_receiving();
    }
    for patience in [PATIENCE, LAST] {
        let left = guests.left.wait_until(|| guests.present.get() == 0);
        let _: Either<_, _> = select(pin!(left), pin!(runtime.sleep(patience))).await;
        house.commons.close();
        // A client that takes no replies does not keep the devices in use: what it asked for was done.
        guests.wires.borrow().iter().filter_map(Weak::upgrade).for_each(|wire| wire.stop_sending());
    }
    if let Some(settled) = options.settled {
        settled();
    }
    let mut unflushed = Vec::new();
    for export in house.exports.all().iter().filter(|export| !export.is_read_only()) {
        if let Err(error) = export.device().submit(Request::flush()).await.result {
            unflushed.push((export.name().to_owned(), error));
        }
    }
    let totals = &house.totals;
    Served {
        connections: totals.connections.get(),
        requests: totals.requests.get(),
        read: Bytes::new(totals.read.get()),
        written: Bytes::new(totals.written.get()),
        errors: totals.errors.get(),
        abandoned: guests.present.get(),
        unflushed,
    }
}

/// The connections of a server.
#[derive(Default)]
struct Guests {
    present: Cell<u32>,
    wires: RefCell<Vec<Weak<Socket>>>,
    left: Signal,
}

/// Takes in whoever comes; never ends.
async fn accept(house: &Rc<House>, listener: &Listener, guests: &Rc<Guests>) {
    // Places of both kinds, and the hall.
    let most = house.limits.places.saturating_mul(2 + NEWCOMERS);
    loop {
        guests.left.wait_until(|| guests.present.get() < most).await;
        let Ok(socket) = listener.accept().await else {
            house.runtime.sleep(RETRY).await;
            continue;
        };
        let wire = Rc::new(socket);
        {
            let mut wires = guests.wires.borrow_mut();
            wires.retain(|wire| wire.strong_count() > 0);
            wires.push(Rc::downgrade(&wire));
        }
        guests.present.set(guests.present.get() + 1);
        let (house, guests) = (Rc::clone(house), Rc::clone(guests));
        house.runtime.clone().spawn_detached(async move {
            // What a client did wrong is its own affair; the totals count what was done for it.
            let _ = converse(house, wire).await;
            guests.present.set(guests.present.get() - 1);
            guests.left.notify();
        });
    }
}
