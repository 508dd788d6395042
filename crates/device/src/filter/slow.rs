//! A device in slow motion: each request takes longer by a share of what it took, and no more are served at once.
//!
//! If all parts of a system but one work 1 + k times as slowly, the system is, on a clock that runs 1 + k times as
//! slowly, the one in which that part is 1 + k times as fast: what a faster part would bring is measured without having
//! it (Curtsinger and Berger, *Coz: finding code that counts with causal profiling*, SOSP 2015, hold up all other
//! threads for the same reason).
//!
//! A request is held for k times the time that it took, in the place at the device that it had. Where a device serves c
//! requests at a time and others queue, c is the number of places: then it passes c / (S (1 + k)) requests a second
//! instead of c / S. Without that bound a queue behind the device would hide the delay, and the device would pass as
//! much as before. Timers are late by some microseconds; what a request was held too long the next ones are spared.

use std::cell::Cell;

use runtime::{Resource, Runtime};
use units::{Duration, Ratio};

use crate::{Device, Extent, Reply, Request, Shape, Stamps};

/// By how much a device is slowed down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Each request takes longer by this share of what it took
    pub by: Ratio,
    /// beyond this: the time of whoever asks, which is no part of the device's.
    pub beyond: Duration,
    /// So many are at the device at a time, above zero; `None` for any number.
    pub at_once: Option<u32>,
}

/// Holds each request back by a share of its time.
pub struct Slow<D> {
    inner: D,
    runtime: Runtime,
    pace: Pace,
    places: Option<Resource>,
    /// Nanoseconds by which requests were held too long so far.
    ahead: Cell<u64>,
}

impl<D: Device> Slow<D> {
    /// Slows a device down. Panics if none of its requests may be at it at a time.
    pub fn new(runtime: &Runtime, inner: D, pace: Pace) -> Slow<D> {
        let places = pace.at_once.map(|places| Resource::new(runtime, places));
        Slow { inner, runtime: runtime.clone(), pace, places, ahead: Cell::new(0) }
    }

    /// The device behind.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Holds a request that took so long.
    async fn hold(&self, took: Duration) {
        let wanted = took.saturating_sub(self.pace.beyond).scale(self.pace.by.get()).as_nanos();
        let held = wanted.saturating_sub(self.ahead.get());
        self.ahead.set(self.ahead.get() - (wanted - held));
        if held > 0 {
            let from = self.runtime.now();
            self.runtime.sleep(Duration::nanos(held)).await;
            let over = self.runtime.now().since(from).as_nanos().saturating_sub(held);
            self.ahead.set(self.ahead.get() + over);
        }
    }
}

impl<D: Device> Device for Slow<D> {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    async fn submit(&self, request: Request) -> Reply {
        let submitted = self.runtime.now();
        if let Err(error) = self.shape().check(&request) {
            return request.refuse(error, submitted);
        }
        let place = match &self.places {
            Some(places) => Some(places.acquire(0).await),
            None => None,
        };
        let from = self.runtime.now();
        let mut reply = self.inner.submit(request).await;
        self.hold(self.runtime.now().since(from)).await;
        drop(place);
        reply.stamps = Stamps { submitted, completed: self.runtime.now() };
        reply
    }

    fn extent(&self, offset: units::Bytes, length: units::Bytes) -> Extent {
        self.inner.extent(offset, length)
    }
}
