//! A delay: what a path of a given latency and unlimited width adds.
//!
//! Requests do not wait for one another here: any number are delayed at once, each by its own draw. Where one must wait
//! for the other, a [`Limited`](super::Limited) device or a modelled part is the right thing.

use std::cell::RefCell;

use rand::RngExt;
use rand_distr::{Distribution, Exp1};
use runtime::{Random, Runtime};
use units::Duration;

use crate::{Device, Reply, Request, Shape, Stamps};

/// How long a request is held up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Latency {
    /// Always the same.
    Fixed(Duration),
    /// Anything between the two, both included, equally likely.
    Uniform(Duration, Duration),
    /// Exponentially distributed around this mean: arrivals or failures without memory.
    Exponential(Duration),
}

impl Latency {
    fn draw(self, random: &mut Random) -> Duration {
        match self {
            Latency::Fixed(time) => time,
            Latency::Uniform(low, high) => Duration::nanos(random.random_range(low.as_nanos()..=high.as_nanos())),
            Latency::Exponential(mean) => mean.scale(Exp1.sample(random)),
        }
    }
}

/// Holds each request up before it goes on to the device behind.
pub struct Delay<D> {
    inner: D,
    runtime: Runtime,
    latency: Latency,
    random: RefCell<Random>,
}

impl<D: Device> Delay<D> {
    /// Puts a delay in front of `inner`. Panics if a uniform latency's lower bound is above its upper one.
    pub fn new(runtime: &Runtime, inner: D, latency: Latency, seed: u64) -> Delay<D> {
        if let Latency::Uniform(low, high) = latency {
            assert!(low <= high, "a latency between {low:#} and {high:#}");
        }
        let random = RefCell::new(Random::named(seed, &inner.shape().name));
        Delay { inner, runtime: runtime.clone(), latency, random }
    }

    /// The device behind.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

impl<D: Device> Device for Delay<D> {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    async fn submit(&self, request: Request) -> Reply {
        let submitted = self.runtime.now();
        if let Err(error) = self.shape().check(&request) {
            return request.refuse(error, submitted);
        }
        let time = self.latency.draw(&mut self.random.borrow_mut());
        self.runtime.sleep(time).await;
        let mut reply = self.inner.submit(request).await;
        reply.stamps = Stamps { submitted, completed: self.runtime.now() };
        reply
    }
}
