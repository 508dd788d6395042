//! Faults of requests, by rule: what a drive, a cable or a firmware does wrong once in a while.
//!
//! A [`Rule`] says which requests (operation, range, how many to pass over, how often, with what chance) and what
//! becomes of them. Rules are looked at in order; the first that applies decides. Chance is drawn from the seed, so a
//! run repeats exactly. The verbs are those of ZFS's `zinject` and of the storage-fault literature (lost, misdirected
//! and shorn writes). Damage that sits on sectors is the [`Medium`](super::Medium)'s.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use rand::RngExt;
use runtime::{Random, Runtime, Signal};
use units::{Bytes, Duration, Ratio};

use crate::{Device, DeviceError, Operation, Payload, Reply, Request, Shape, Stamps};

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// It fails, and nothing has happened.
    Fail(DeviceError),
    /// It is not answered before [`Faulty::resume`]; then it is carried out. A time-out for the caller to notice.
    Hang,
    /// It is carried out this much later.
    Stall(Duration),
    /// The device is gone, now and for every later request.
    Vanish,
    /// A write is answered with success and not done. Other operations are not affected.
    Lose,
    /// A write is answered with success and lands this much further on, where that is still on the device; otherwise it
    /// is lost.
    Misdirect(Bytes),
    /// A write stores a random part of its 512-byte sectors, then fails.
    Tear,
    /// A write stores a random part of its 512-byte sectors and is answered with success.
    Shear,
}

/// Which requests are affected, and how.
#[derive(Debug, Clone)]
pub struct Rule {
    effect: Effect,
    operation: Option<Operation>,
    range: Range<Bytes>,
    skip: u64,
    times: u64,
    chance: Ratio,
}

impl Rule {
    /// Affects every request.
    pub fn new(effect: Effect) -> Rule {
        let range = Bytes::ZERO..Bytes::new(u64::MAX);
        Rule { effect, operation: None, range, skip: 0, times: u64::MAX, chance: Ratio::ONE }
    }
    /// Only requests of this kind.
    pub fn on(mut self, operation: Operation) -> Rule {
        self.operation = Some(operation);
        self
    }
    /// Only requests that touch this range of the device.
    pub fn within(mut self, range: Range<Bytes>) -> Rule {
        self.range = range;
        self
    }
    /// Passes over the first `requests` of those that fit.
    pub fn after(mut self, requests: u64) -> Rule {
        self.skip = requests;
        self
    }
    /// Affects no more than this many requests.
    pub fn times(mut self, times: u64) -> Rule {
        self.times = times;
        self
    }
    /// Affects only this share of the requests that fit, drawn from the seed.
    pub fn with_chance(mut self, chance: Ratio) -> Rule {
        self.chance = chance;
        self
    }

    fn applies(&mut self, request: &Request, random: &mut Random) -> bool {
        let touches = request.operation == Operation::Flush
            || (request.offset < self.range.end && self.range.start < request.offset + request.length);
        let lossy = matches!(self.effect, Effect::Lose | Effect::Misdirect(_) | Effect::Tear | Effect::Shear);
        if self.times == 0
            || self.operation.is_some_and(|operation| operation != request.operation)
            || !touches
            || (lossy && request.operation != Operation::Write)
            || (self.chance.get() < 1.0 && !random.random_bool(self.chance.get()))
        {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.times -= 1;
        true
    }
}

/// A device whose requests suffer faults.
pub struct Faulty<D> {
    inner: D,
    runtime: Runtime,
    rules: RefCell<Vec<Rule>>,
    random: RefCell<Random>,
    gone: Cell<bool>,
    hangs: Cell<bool>,
    changed: Signal,
    suffered: Cell<u64>,
}

impl<D: Device> Faulty<D> {
    /// A sound device. Rules are added later; their chances are drawn from `seed`.
    pub fn new(runtime: &Runtime, inner: D, seed: u64) -> Faulty<D> {
        let random = RefCell::new(Random::named(seed, &inner.shape().name));
        Faulty {
            inner,
            runtime: runtime.clone(),
            rules: RefCell::default(),
            random,
            gone: Cell::new(false),
            hangs: Cell::new(false),
            changed: Signal::default(),
            suffered: Cell::new(0),
        }
    }

    /// The device behind.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Adds a rule behind those there are.
    pub fn add(&self, rule: Rule) {
        self.rules.borrow_mut().push(rule);
    }

    /// Removes all rules; what is gone stays gone, what hangs still hangs.
    pub fn clear_rules(&self) {
        self.rules.borrow_mut().clear();
    }

    /// Lets hanging requests go on, and a vanished device come back with the contents it had.
    pub fn resume(&self) {
        self.gone.set(false);
        self.hangs.set(false);
        self.changed.notify();
    }

    /// How many requests have suffered a fault.
    pub fn suffered(&self) -> u64 {
        self.suffered.get()
    }

    fn effect(&self, request: &Request) -> Option<Effect> {
        let random = &mut *self.random.borrow_mut();
        let mut rules = self.rules.borrow_mut();
        let effect = rules.iter_mut().find_map(|rule| rule.applies(request, random).then(|| rule.effect.clone()));
        self.suffered.set(self.suffered.get() + u64::from(effect.is_some()));
        effect
    }

    /// Stores each sector of a write with chance one half.
    async fn store_part(&self, request: &Request) -> Result<(), DeviceError> {
        let Payload::From(data) = &request.payload else { panic!("a write carries data") };
        let step = self.shape().logical_block;
        for block in 0..request.length / step {
            if self.random.borrow_mut().random_bool(0.5) {
                let part = Request::write(request.offset + step * block, data.slice(step * block, step));
                self.inner.submit(part).await.result?;
            }
        }
        Ok(())
    }

    async fn suffer(&self, mut request: Request, effect: Effect) -> Reply {
        let submitted = self.runtime.now();
        match effect {
            Effect::Fail(error) => return request.refuse(error, submitted),
            Effect::Vanish => {
                self.gone.set(true);
                self.changed.notify();
                return request.refuse(DeviceError::Gone, submitted);
            }
            Effect::Lose => return request.answer(Ok(()), Stamps { submitted, completed: submitted }),
            Effect::Hang => {
                self.hangs.set(true);
                self.changed.wait_until(|| !self.hangs.get()).await;
            }
            Effect::Stall(time) => self.runtime.sleep(time).await,
            Effect::Misdirect(by) => {
                let place = request.offset.checked_add(by).unwrap_or(self.shape().size);
                request.offset = place;
                if self.shape().check(&request).is_err() {
                    return request.answer(Ok(()), Stamps { submitted, completed: submitted });
                }
            }
            Effect::Tear | Effect::Shear => {
                let (offset, length) = (request.offset, request.length);
                let result = self.store_part(&request).await;
                let torn = Err(DeviceError::Medium { offset, length });
                let result = if effect == Effect::Tear { result.and(torn) } else { result };
                return request.answer(result, Stamps { submitted, completed: self.runtime.now() });
            }
        }
        if self.gone.get() {
            return request.refuse(DeviceError::Gone, self.runtime.now());
        }
        self.inner.submit(request).await
    }
}

impl<D: Device> Device for Faulty<D> {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    async fn submit(&self, request: Request) -> Reply {
        let submitted = self.runtime.now();
        if let Err(error) = self.shape().check(&request) {
            return request.refuse(error, submitted);
        }
        if self.gone.get() {
            return request.refuse(DeviceError::Gone, submitted);
        }
        // A device that hangs answers nothing else meanwhile.
        let effect = if self.hangs.get() { Some(Effect::Hang) } else { self.effect(&request) };
        let mut reply = match effect {
            Some(effect) => self.suffer(request, effect).await,
            None => self.inner.submit(request).await,
        };
        reply.stamps = Stamps { submitted, completed: self.runtime.now() };
        reply
    }
}
