//! Virtual time at the pace of the clock: a model that answers the world when it says that it does.
//!
//! # Theory
//! A live and a simulated runtime share a thread. Simulated time follows real time and is never ahead of it, as nobody
//! knows what will be asked next. It is moved when something is asked, so that the model meets the request at the
//! instant at which it came, and when the model's next timer is due. An answer that the model completes at `t` is given
//! when the clock says `t`, and a little later: by what waking the thread takes, and by what simulating takes. That is
//! the *lateness*, and all of it is kept account of; a host that cannot keep up with its model shows there.
//!
//! Rejected: to run the model's tasks under the live clock. Each of the hundreds of timers behind one request would be
//! late by itself, and the next one would start from there.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;

use device::{Device, Reply, Request, Shape, Stamps};
use futures_util::future::select;
use runtime::{Runtime, Signal};
use units::{Duration, Instant, Ratio};

/// Later than this is told: a disk's user sees it, and what waking a thread takes is well below.
pub const NOTICEABLE: Duration = Duration::millis(1);

/// A machine keeps up with a model while what it adds to the answers is less than one part in so many of what they take
/// by the model: 5 percent, the finest band in which [`crate::reproduce`] judges a model. More would be seen as the
/// model's own error.
const KEPT_UP: u64 = 20;

/// A simulated runtime that follows the clock of a live one. Clones name the same one.
#[derive(Clone)]
pub struct Pace {
    inner: Rc<Inner>,
}

struct Inner {
    live: Runtime,
    simulated: Runtime,
    /// One instant on both clocks, the live one first.
    epoch: (Instant, Instant),
    /// Something has been asked of the model.
    asked: Signal,
    asks: Cell<u64>,
    lateness: Cell<Lateness>,
    /// Nobody waits for an answer any more whose lateness would be of interest.
    closed: Cell<bool>,
}

/// How late answers were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lateness {
    /// Answers given.
    pub answers: u64,
    /// Those that were later than [`NOTICEABLE`].
    pub noticeable: u64,
    /// All of it together.
    pub sum: Duration,
    /// What the model said that the answers take, all together.
    pub modelled: Duration,
    /// The worst.
    pub most: Duration,
    /// All of the lateness of what takes time by the model. The model's flush of an empty cache takes none, and any
    /// lateness would be infinitely more.
    relative: Duration,
}

impl Lateness {
    /// On the average.
    pub fn mean(&self) -> Duration {
        if self.answers == 0 { Duration::ZERO } else { self.sum / self.answers }
    }

    /// What an answer took by the model, on the average.
    pub fn modelled_mean(&self) -> Duration {
        if self.answers == 0 { Duration::ZERO } else { self.modelled / self.answers }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Lateness) -> Lateness {
        Lateness {
            answers: self.answers + other.answers,
            noticeable: self.noticeable + other.noticeable,
            sum: self.sum + other.sum,
            modelled: self.modelled + other.modelled,
            most: self.most.max(other.most),
            relative: self.relative + other.relative,
        }
    }

    /// By how much clients saw a slower machine than the model, if that is more than the model itself may be wrong by.
    pub fn fell_behind(&self) -> Option<Ratio> {
        let kept_up = self.relative * KEPT_UP <= self.modelled;
        (!kept_up).then(|| Ratio::new(self.relative.as_seconds() / self.modelled.as_seconds()))
    }

    fn add(&mut self, modelled: Duration, late: Duration) {
        self.answers += 1;
        self.modelled += modelled;
        self.noticeable += u64::from(late > NOTICEABLE);
        self.sum += late;
        self.most = self.most.max(late);
        if !modelled.is_zero() {
            self.relative += late;
        }
    }
}

impl Pace {
    /// From now on the simulation follows. It stands where it stands.
    pub fn start(live: &Runtime, simulated: &Runtime) -> Pace {
        let inner = Rc::new(Inner {
            live: live.clone(),
            simulated: simulated.clone(),
            epoch: (live.now(), simulated.now()),
            asked: Signal::default(),
            asks: Cell::default(),
            lateness: Cell::default(),
            closed: Cell::new(false),
        });
        live.spawn_detached(follow(Rc::clone(&inner)));
        Pace { inner }
    }

    /// A device of the simulation, to be asked from the live runtime.
    pub fn device<D: Device + 'static>(&self, device: D) -> Paced<D> {
        Paced { pace: self.clone(), shape: device.shape().clone(), device: Rc::new(device) }
    }

    /// Ends the account of how late answers are.
    pub fn close(&self) {
        self.inner.closed.set(true);
    }

    /// How late its devices' answers were so far.
    pub fn lateness(&self) -> Lateness {
        self.inner.lateness.get()
    }
}

/// Turns the simulation whenever something in it is due.
async fn follow(inner: Rc<Inner>) {
    loop {
        let seen = inner.asks.get();
        let next = inner.catch_up();
        let asked = pin!(inner.asked.wait_until(|| inner.asks.get() != seen));
        match next {
            Some(next) => _ = select(pin!(inner.live.sleep_until(next)), asked).await,
            None => asked.await,
        }
    }
}

impl Inner {
    /// Simulates up to now; gives when the next thing is due, on the live clock.
    fn catch_up(&self) -> Option<Instant> {
        let now = self.epoch.1 + self.live.now().since(self.epoch.0);
        let next = self.simulated.run_until(now);
        next.map(|next| self.on_live_clock(next))
    }

    fn on_live_clock(&self, simulated: Instant) -> Instant {
        self.epoch.0 + simulated.since(self.epoch.1)
    }
}

/// A simulated device in real time.
pub struct Paced<D> {
    pace: Pace,
    shape: Shape,
    device: Rc<D>,
}

impl<D: Device + 'static> Device for Paced<D> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn submit(&self, request: Request) -> Reply {
        let inner = &*self.pace.inner;
        inner.catch_up();
        let (answer, answered): (Rc<RefCell<Option<Reply>>>, _) = (Rc::default(), Signal::default());
        let (device, to, notify) = (Rc::clone(&self.device), Rc::clone(&answer), answered.clone());
        inner.simulated.spawn_detached(async move {
            let reply = device.submit(request).await;
            *to.borrow_mut() = Some(reply);
            notify.notify();
        });
        inner.asks.set(inner.asks.get() + 1);
        inner.asked.notify();
        answered.wait_until(|| answer.borrow().is_some()).await;
        let reply = answer.take().expect("it was waited for");
        let [submitted, completed] =
            [reply.stamps.submitted, reply.stamps.completed].map(|at| inner.on_live_clock(at.max(inner.epoch.1)));
        if !inner.closed.get() {
            let mut lateness = inner.lateness.get();
            lateness.add(completed.since(submitted), inner.live.now().saturating_since(completed));
            inner.lateness.set(lateness);
        }
        Reply { stamps: Stamps { submitted, completed }, ..reply }
    }
}

#[cfg(test)]
mod tests {
    use device::filter::{Delay, Latency};
    use device::{Buffer, MemoryDevice};
    use units::Bytes;

    use super::*;

    /// Several requests to a simulated device of 20 ms, asked in real time: none is answered early, and they overlap.
    #[test]
    fn lateness_adds_up_and_a_twentieth_of_the_models_time_is_not_kept_up() {
        let of = |late: u64| {
            let mut lateness = Lateness::default();
            lateness.add(Duration::millis(10), Duration::micros(late));
            lateness
        };
        let both = of(500).plus(of(1500));
        assert_eq!((both.answers, both.noticeable, both.mean()), (2, 1, Duration::millis(1)));
        assert_eq!((both.modelled_mean(), both.most), (Duration::millis(10), Duration::micros(1500)));
        assert!(of(500).fell_behind().is_none() && of(501).fell_behind().is_some());
        assert_eq!(both.fell_behind().map(Ratio::as_percent), Some(10.0));
        let mut at_once = Lateness::default();
        at_once.add(Duration::ZERO, Duration::millis(3));
        assert!(at_once.fell_behind().is_none() && at_once.noticeable == 1);
        assert!(Lateness::default().fell_behind().is_none() && Lateness::default().modelled_mean().is_zero());
    }

    #[test]
    fn answers_come_when_the_model_says_and_not_before() {
        let (live, simulated) = (Runtime::live_timers(), Runtime::simulated());
        simulated.block_on(simulated.sleep(Duration::seconds(5)));
        let latency = Duration::millis(20);
        let memory = MemoryDevice::new(&simulated, Shape::new("memory", Bytes::mib(1)));
        let pace = Pace::start(&live, &simulated);
        let device = pace.device(Delay::new(&simulated, memory, Latency::Fixed(latency), 1));
        let ask = || Request::read(Bytes::ZERO, Buffer::zeroed(Bytes::kib(4)));
        live.block_on(async {
            live.sleep(Duration::millis(30)).await;
            for _ in 0..3 {
                let asked = live.now();
                let replies = futures_util::future::join_all((0..4).map(|_| device.submit(ask()))).await;
                for reply in replies {
                    assert_eq!(reply.result, Ok(()));
                    // The model's own times are exact, on the live clock.
                    assert_eq!(reply.stamps.service(), latency);
                    assert!(reply.stamps.submitted >= asked, "{:?} before {asked:?}", reply.stamps);
                    assert!(live.now() >= reply.stamps.completed);
                }
            }
        });
        let lateness = pace.lateness();
        assert_eq!(lateness.answers, 12);
        assert!(lateness.most >= lateness.mean() && lateness.most > Duration::ZERO, "{lateness:?}");
    }
}
