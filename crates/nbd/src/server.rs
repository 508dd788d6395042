//! A server: listeners, the connections that come in, and a clean end.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::{Rc, Weak};

use device::{Device, DeviceError, Request};
use futures_util::future::{Either, join_all, select};
use runtime::{Runtime, Signal};
use units::{Bytes, Duration};
use uring::{Listener, Socket};

use crate::budget::Limits;
use crate::connection::{House, Totals, converse};
use crate::export::Exports;
use crate::tls::ServerTls;

/// How a server serves.
#[derive(Clone)]
pub struct ServeOptions {
    /// Of each connection.
    pub limits: Limits,
    /// Connections at a time; more wait.
    pub connections: u32,
    /// If given, all is encrypted, and clients need certificates.
    pub tls: Option<ServerTls>,
    /// Called when the clients have their last answers: what devices are asked from then on is the server's own flush.
    pub settled: Option<Rc<dyn Fn()>>,
}

impl Default for ServeOptions {
    /// 64 connections, in the clear.
    fn default() -> ServeOptions {
        ServeOptions { limits: Limits::default(), connections: 64, tls: None, settled: None }
    }
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

/// How long requests under way may take when the server ends.
const PATIENCE: Duration = Duration::seconds(10);
/// After a connection that could not be accepted (no descriptors left) the next is tried this much later.
const RETRY: Duration = Duration::millis(100);

/// Serves the exports to all who come until `stop` is done. Then no more is accepted or read, what is under way is finished and
/// answered, and every export that may have been written to is flushed.
pub async fn serve(
    runtime: &Runtime,
    exports: Exports,
    listeners: Vec<Listener>,
    options: ServeOptions,
    stop: impl Future<Output = ()>,
) -> Served {
    let house = Rc::new(House {
        runtime: runtime.clone(),
        exports,
        tls: options.tls,
        limits: options.limits,
        totals: Totals::default(),
    });
    let guests = Rc::new(Guests::default());
    {
        let accepting =
            join_all(listeners.iter().map(|listener| accept(&house, listener, &guests, options.connections)));
        let _: Either<_, _> = select(pin!(accepting), pin!(stop)).await;
    }
    // Their sockets are removed: nobody finds the way here any more.
    drop(listeners);
    for wire in guests.wires.borrow().iter().filter_map(Weak::upgrade) {
        wire.stop_receiving();
    }
    {
        let left = guests.left.wait_until(|| guests.present.get() == 0);
        let _: Either<_, _> = select(pin!(left), pin!(runtime.sleep(PATIENCE))).await;
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
async fn accept(house: &Rc<House>, listener: &Listener, guests: &Rc<Guests>, most: u32) {
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
