//! The keeper of an array that is being served: does what is to be done beside the requests, and says what happens.
//!
//! Four things go on at once, as tasks of one thread: clients' requests (`nbd::serve`, the caller's); the array's own
//! tending ([`Array::tend`]: the clean mark, the bitmap); the upkeep that is due (a resync after a power cut, a rebuild
//! that was ended); and orders that come in through the [control socket](crate::control). One upkeep runs at a time:
//! two would only share the members' arms.
//!
//! An array is stopped when the last request is answered and the upkeep has come to the end of its unit: what it did is
//! marked on the members, and the next start goes on from there. Until then all of it goes on: an upkeep that is
//! dropped where it is leaves no mark.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

use array::geometry::Level;
use array::{Array, MemberState, OpenOptions};
use device::{AnyDevice, Device, DeviceError};
use futures_util::future::{Either, join4, select};
use runtime::Resource;
use units::{Bytes, Duration, Rate};
use uring::{Listener, Live};

use crate::control;
use crate::event::{self, Event};
use crate::held::Held;
use crate::members::{Permits, now, rival};
use crate::service::{Offer, Served, Service, Upkeep};
use crate::upkeep::{self, Done};
use crate::{Place, RaidError};

/// How often members are looked at, and whoever follows an upkeep is told how far it is.
pub(crate) const LOOK: Duration = Duration::millis(200);
/// What a replacement is called among the upkeep.
const REPLACEMENT: &str = "replacement";
/// How much later an upkeep is tried again that failed.
const AGAIN: Duration = Duration::seconds(5);
/// How long an upkeep may take to the end of its unit: longer than a member that hangs takes to count as failed, if
/// nobody has set another time limit.
const PATIENCE: Duration = Duration::seconds(45);

/// How an array is kept.
pub struct Keeping {
    /// Open it though what is missing may be computed wrongly where a power cut met a write.
    pub force: bool,
    /// Write nothing to the members: what the array has to write is kept in memory, and there is no upkeep.
    pub read_only: bool,
    /// No upkeep goes faster, unless an order says so.
    pub rate: Option<Rate>,
    /// How long a member may take for a request before it counts as failed.
    pub time_limit: Duration,
    /// What is sent to each member is counted.
    pub counted: bool,
    /// Told of every event.
    pub tell: Rc<dyn Fn(&Event)>,
}

/// An array, open, with everything that belongs to it.
pub struct Keeper {
    pub(crate) live: Live,
    pub(crate) array: Rc<Array<AnyDevice>>,
    /// The devices, and what keeps others from them.
    pub(crate) held: RefCell<Vec<Held>>,
    pub(crate) rate: Option<Rate>,
    read_only: bool,
    /// How long a member, and who is to become one, may take to answer.
    pub(crate) time_limit: Duration,
    pub(crate) counted: bool,
    /// What the last scrub found, if there was one.
    pub(crate) mismatches: Cell<Option<u64>>,
    /// One upkeep at a time.
    turn: Resource,
    upkeep: Rc<RefCell<Option<Upkeep>>>,
    /// The upkeep under way is to end; all are.
    pub(crate) enough: Rc<Cell<bool>>,
    ending: Rc<Cell<bool>>,
    tell: Rc<dyn Fn(&Event)>,
    /// Members whose failure was told, and whether that was the end.
    known: RefCell<(Vec<bool>, bool, bool)>,
    /// What members were called that have failed since the start: the array lets go of them.
    pub(crate) lost: RefCell<Vec<String>>,
    offers: RefCell<Vec<Offer>>,
    /// Where clients come.
    pub(crate) listening: RefCell<Vec<nbd::Place>>,
    /// The member that the last upkeep did not fill, and why.
    unfilled: RefCell<Option<(usize, DeviceError)>>,
    /// It was said that another server has the members.
    rival_told: Cell<bool>,
    /// The replacement under way is being called off.
    called_off: Cell<bool>,
}

impl Keeper {
    /// Opens the array that these members are.
    pub fn open(
        live: &Live,
        members: &[Place],
        mut permits: Permits,
        keeping: Keeping,
    ) -> Result<Rc<Keeper>, RaidError> {
        let runtime = live.runtime();
        let mut all = Vec::new();
        let opened = async {
            let mut devices = Vec::new();
            for place in members {
                let permit = place.path().and_then(|path| permits.remove(path));
                let opened = match keeping.read_only {
                    true => Held::open_read_only(live, place, keeping.time_limit, keeping.counted).await,
                    false => Held::open(live, place, permit, keeping.time_limit, keeping.counted).await,
                };
                let (held, device) = opened?;
                all.push(held);
                devices.push(device);
            }
            let options = OpenOptions { force_dirty_degraded: keeping.force };
            let opened = Array::open(runtime, "array", devices, options).await;
            opened.map_err(|error| RaidError::of_open(members, error))
        };
        let array = runtime.block_on(opened)?;
        let failed = |member| array.state(member) == MemberState::Failed;
        let known = RefCell::new(((0..array.geometry().members()).map(failed).collect(), array.is_broken(), false));
        if !keeping.read_only && members.iter().any(|place| matches!(place, Place::Nbd(_))) {
            array.look_out(now());
        }
        array.set_time_limit(keeping.time_limit);
        array.limit(keeping.rate);
        let upkeep: Rc<RefCell<Option<Upkeep>>> = Rc::default();
        let (enough, ending) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
        array.watch({
            let (upkeep, enough, ending) = (Rc::clone(&upkeep), Rc::clone(&enough), Rc::clone(&ending));
            move |progress| {
                if let Some(upkeep) = &mut *upkeep.borrow_mut() {
                    (upkeep.done, upkeep.of) = (progress.done, progress.of);
                }
                !enough.get() && !ending.get()
            }
        });
        Ok(Rc::new(Keeper {
            live: live.clone(),
            array: Rc::new(array),
            held: RefCell::new(all),
            rate: keeping.rate,
            read_only: keeping.read_only,
            time_limit: keeping.time_limit,
            counted: keeping.counted,
            mismatches: Cell::new(None),
            turn: Resource::new(runtime, 1),
            upkeep,
            enough,
            ending,
            tell: keeping.tell,
            known,
            lost: RefCell::default(),
            offers: RefCell::default(),
            listening: RefCell::default(),
            unfilled: RefCell::default(),
            rival_told: Cell::new(false),
            called_off: Cell::new(false),
        }))
    }

    /// Its name as its members have it, or its identity if they say none.
    pub fn name(&self) -> String {
        let name = self.array.name().unwrap_or_default();
        let identity = || self.array.identity().map_or("-".into(), |identity| identity.to_string());
        if name.is_empty() { identity() } else { name }
    }

    /// Whether nothing is written to its members.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Its level and layout.
    pub fn level(&self) -> Level {
        self.array.geometry().level()
    }

    /// How much a client has to write, from a multiple of it on, for the array to read nothing.
    pub fn stripe(&self) -> Bytes {
        let shape = self.array.shape();
        if self.level().parities() == 0 { shape.logical_block } else { shape.physical_block }
    }

    /// The array, to be served.
    pub fn device(&self) -> AnyDevice {
        AnyDevice::new(Rc::clone(&self.array))
    }

    /// What is offered of the array, for those who ask how it is.
    pub fn offer(&self, offers: Vec<Offer>) {
        self.offers.replace(offers);
    }

    /// Where that is offered: none of these becomes part of the array.
    pub fn listens_at(&self, places: Vec<nbd::Place>) {
        self.listening.replace(places);
    }

    /// Keeps the array while `serving` is under way, and until the upkeep has come to the end of its unit then.
    pub async fn keep<T>(self: &Rc<Keeper>, control: &Listener, serving: impl Future<Output = T>) -> T {
        let beside = join4(self.array.tend(), self.notice(), self.attend(), control::attend(self, control));
        let served = async {
            let served = serving.await;
            self.end_upkeep().await;
            served
        };
        match select(pin!(served), pin!(beside)).await {
            Either::Left((served, _)) => served,
            Either::Right(_) => unreachable!("tending never ends"),
        }
    }

    /// Has the upkeep end, and waits until it has; not for ever, as a device may never answer.
    async fn end_upkeep(&self) {
        self.ending.set(true);
        let _: Either<_, _> = select(pin!(self.turn.acquire(0)), pin!(self.live.runtime().sleep(PATIENCE))).await;
    }

    /// An error if another server has the members: what is there is left to that one.
    pub fn unrivalled(&self) -> Result<(), RaidError> {
        // It may have been found since the last look.
        self.look();
        match rival(&self.array) {
            Some(opened) => Err(RaidError::Rival { opened }),
            None => Ok(()),
        }
    }

    /// Stops the array that is [kept](Keeper::keep) no more: its members say how it was left. Requests must have been
    /// answered.
    pub fn stop(&self) -> Result<Done, RaidError> {
        let left = Done::left(&self.live, &self.array);
        // Who failed since the last look, or while the array was stopped, is spoken of, too.
        self.look();
        left
    }

    /// Looks for members that have failed, again and again.
    async fn notice(&self) {
        loop {
            self.let_go();
            self.live.runtime().sleep(LOOK).await;
        }
    }

    /// Lets go of devices that the array uses no more: members that failed or were replaced, spares that did. Those
    /// that still have something to carry out are kept until they have.
    pub(crate) fn let_go(&self) {
        // What failed is spoken of while it has a name.
        self.look();
        self.array.let_go_of_failed();
        let (needed, unused) = self.held.take().into_iter().partition(Held::is_needed);
        self.held.replace(needed);
        let unused: Vec<Held> = unused;
        unused.into_iter().for_each(Held::let_go);
    }

    /// Says which members have failed since the last look, and which exports went away or are back.
    pub(crate) fn look(&self) {
        self.held.borrow().iter().flat_map(Held::news).for_each(|event| (self.tell)(&event));
        let (known, broken, journal) = &mut *self.known.borrow_mut();
        for (member, known) in known.iter_mut().enumerate() {
            let failed = self.array.state(member) == MemberState::Failed;
            if failed && !*known {
                let device = self.array.device(member).map_or("-".into(), |device| device.shape().name.clone());
                self.lost.borrow_mut().push(device.clone());
                let cause = self.array.failure(member).map(|error| error.to_string());
                let needed = upkeep::needed(&self.array);
                let (survives, broken) = (self.survives(), self.array.is_broken());
                (self.tell)(&Event::MemberFailed { member, device, cause, survives, needed, broken });
            }
            *known = failed;
        }
        if self.array.is_broken() && !*broken {
            (self.tell)(&Event::Broken);
        }
        *broken = self.array.is_broken();
        if let Some(opened) = rival(&self.array)
            && !self.rival_told.replace(true)
        {
            (self.tell)(&Event::Rival { opened });
        }
        if self.array.has_lost_journal() && !*journal {
            (self.tell)(&Event::JournalFailed);
            *journal = true;
        }
    }

    /// How many members more may be lost, whichever they are.
    pub fn survives(&self) -> usize {
        self.array.losses_left().unwrap_or(0)
    }

    /// Members whose loss the array does not survive, where it survives that of others.
    pub fn needed(&self) -> Vec<usize> {
        upkeep::needed(&self.array)
    }

    /// Devices that wait to take the place of a member that fails.
    pub fn spares(&self) -> Vec<String> {
        self.array.spares()
    }

    /// What the members' states mean for losses to come.
    pub fn outlook(&self) -> String {
        upkeep::outlook(self.survives(), &self.needed())
    }

    /// Whether more is lost than the level survives.
    pub fn is_broken(&self) -> bool {
        self.array.is_broken()
    }

    /// Members that are not whole, by number.
    pub fn not_whole(&self) -> Vec<usize> {
        upkeep::not_whole(&self.array)
    }

    /// Does the upkeep that is due, as soon as it is.
    async fn attend(&self) {
        let mut refused = false;
        loop {
            if self.read_only || self.array.rival().is_some() {
                // Nothing is written to the members; or they are left to the other server.
                self.live.runtime().sleep(AGAIN).await;
                continue;
            }
            let members = 0..self.array.geometry().members();
            let rebuilding = |member: &usize| matches!(self.array.state(*member), MemberState::Rebuilding(_));
            if self.turn.in_use() > 0 {
                // Whoever has the turn is at it.
            } else if let Some(member) = members.clone().find(rebuilding) {
                _ = self.rebuild(member, None, self.array.resume_rebuild(member)).await;
            } else if let Some((member, device)) = self.array.replacing() {
                _ = self.replace(member, device, self.array.resume_replace(member)).await;
            } else if let (Some(member), true) = (self.missing(), self.has_filler()) {
                let filling = async { upkeep::fill_from_within(&self.array, member).await.unwrap_or(Ok(Vec::new())) };
                _ = self.rebuild(member, None, filling).await;
            } else if self.array.needs_resync() && self.not_whole().is_empty() && !refused {
                refused = !self.resync().await;
            }
            // What did not come to its end is not tried again at once.
            let unfinished = members.clone().any(|member| rebuilding(&member)) || self.array.replacing().is_some();
            self.live.runtime().sleep(if unfinished && self.turn.in_use() == 0 { AGAIN } else { LOOK }).await;
        }
    }

    /// A member that is missing.
    pub(crate) fn missing(&self) -> Option<usize> {
        (0..self.array.geometry().members()).find(|member| self.array.state(*member) == MemberState::Failed)
    }

    /// Whether something could take a missing member's place without being named. Former members come back when they
    /// are told to.
    fn has_filler(&self) -> bool {
        !self.array.spares().is_empty() && !self.array.is_broken()
    }

    async fn resync(&self) -> bool {
        let _turn = self.begin("resync", None).await;
        if !self.array.needs_resync() {
            return true;
        }
        (self.tell)(&Event::ResyncBegan);
        let done = self.array.resync().await;
        self.end();
        match done {
            Ok(true) => (self.tell)(&Event::ResyncDone),
            Ok(false) => {
                let cause = event::unfinished(&self.array.resync_left());
                (self.tell)(&Event::ResyncFailed { cause });
            }
            Err(ref error) => (self.tell)(&Event::ResyncFailed { cause: error.to_string() }),
        }
        matches!(done, Ok(true))
    }

    /// Has a member filled, on a device if it is known which, when it is its turn. One that is not filled for want of
    /// time is no error: that goes on.
    pub(crate) async fn rebuild(
        &self,
        member: usize,
        device: Option<String>,
        filling: impl Future<Output = Result<Vec<std::ops::Range<Bytes>>, DeviceError>>,
    ) -> Result<(), RaidError> {
        let _turn = self.begin("rebuild", Some(member)).await;
        let mut filling = pin!(filling);
        let mut told = false;
        let filled = poll_fn(|context| {
            let polled = filling.as_mut().poll(context);
            let placed = || Some(self.array.device(member)?.shape().name.clone());
            // Spoken of when it is known what fills the place: a device is put there first.
            if let Some(device) = device.clone().or_else(placed).or(polled.is_ready().then(|| "-".into()))
                && !std::mem::replace(&mut told, true)
            {
                (self.tell)(&Event::RebuildBegan { member, device });
            }
            polled
        })
        .await;
        self.end();
        match filled {
            Ok(lost) if self.array.state(member) == MemberState::Active => {
                let lost = lost.into_iter().map(|range| (range.start.get(), range.end.get())).collect();
                (self.tell)(&Event::RebuildDone { member, lost });
            }
            Ok(_) => {
                let cause = "the rebuild was ended; the next start goes on".to_owned();
                (self.tell)(&Event::RebuildFailed { member, cause });
            }
            Err(error) => {
                (self.tell)(&Event::RebuildFailed { member, cause: error.to_string() });
                self.unfilled.replace(Some((member, error)));
            }
        }
        self.is_filled(member)
    }

    /// Why a member was not filled, if the last upkeep should have done that and failed.
    pub(crate) fn is_filled(&self, member: usize) -> Result<(), RaidError> {
        match &*self.unfilled.borrow() {
            Some((unfilled, error)) if *unfilled == member => {
                Err(RaidError::NotFilled { member, error: error.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Has a member replaced by a device, when it is its turn.
    pub(crate) async fn replace(
        &self,
        member: usize,
        device: String,
        copying: impl Future<Output = Result<Vec<std::ops::Range<Bytes>>, DeviceError>>,
    ) -> Result<(), RaidError> {
        let _turn = self.begin(REPLACEMENT, Some(member)).await;
        self.called_off.set(false);
        (self.tell)(&Event::ReplaceBegan { member, device });
        let copied = copying.await;
        self.end();
        match copied {
            Ok(lost) if self.array.replacing().is_none() => {
                let lost = lost.into_iter().map(|range| (range.start.get(), range.end.get())).collect();
                (self.tell)(&Event::ReplaceDone { member, lost });
            }
            Ok(_) => {
                let cause = "the copy was ended; the next start goes on".to_owned();
                (self.tell)(&Event::ReplaceFailed { member, cause });
            }
            Err(_) if self.called_off.replace(false) => {
                (self.tell)(&Event::ReplaceFailed { member, cause: "it was called off".into() });
                return Err(RaidError::CalledOff { member });
            }
            Err(error) => {
                (self.tell)(&Event::ReplaceFailed { member, cause: error.to_string() });
                self.unfilled.replace(Some((member, error)));
            }
        }
        self.is_filled(member)
    }

    /// Calls off the replacement of a member by the device at this place, if that is what it is for; says whose it was.
    pub(crate) async fn call_off(&self, place: &Place) -> Result<Option<usize>, RaidError> {
        // Set first: whoever copies finds out while this waits.
        let is_under_way = self.upkeep().is_some_and(|upkeep| upkeep.what == REPLACEMENT);
        self.called_off.set(is_under_way);
        let called_off = upkeep::call_off(&self.array, place).await;
        if !matches!(called_off, Ok(Some(_))) {
            self.called_off.set(false);
        }
        self.let_go();
        called_off
    }

    /// Waits for the turn of an upkeep.
    pub(crate) async fn begin(&self, what: &str, member: Option<usize>) -> runtime::Grant {
        let turn = self.turn.acquire(0).await;
        self.enough.set(false);
        self.unfilled.take();
        *self.upkeep.borrow_mut() = Some(Upkeep { what: what.into(), member, done: Bytes::ZERO, of: Bytes::ZERO });
        turn
    }

    pub(crate) fn end(&self) {
        *self.upkeep.borrow_mut() = None;
        self.array.limit(self.rate);
    }

    /// The upkeep under way.
    pub fn upkeep(&self) -> Option<Upkeep> {
        self.upkeep.borrow().clone()
    }

    pub(crate) fn tell(&self, event: &Event) {
        if let Event::ScrubDone { mismatches, .. } | Event::ScrubEnded { mismatches, .. } = event {
            self.mismatches.set(Some(*mismatches));
        }
        (self.tell)(event);
    }

    pub(crate) fn service(&self) -> Service {
        let served = |member: usize| {
            let counts = self.array.counts(member);
            let device = self.array.device(member).map(|device| device.shape().name.clone());
            let held = self.held.borrow();
            Served {
                reconnections: device.as_ref().and_then(|name| held.iter().find_map(|held| held.reconnections(name))),
                device,
                state: match self.array.state(member) {
                    MemberState::Active => "active",
                    MemberState::Rebuilding(_) => "rebuilding",
                    MemberState::Failed => "failed",
                }
                .to_owned(),
                medium_errors: counts.medium_errors,
                rewritten: counts.rewritten,
                failure: self.array.failure(member).map(|error| error.to_string()),
            }
        };
        Service {
            process: std::process::id(),
            broken: self.array.is_broken(),
            rival: rival(&self.array),
            size: self.array.shape().size,
            clean: !self.array.is_dirty(),
            folder: std::env::current_dir().unwrap_or_default(),
            upkeep: self.upkeep(),
            exports: self.offers.borrow().clone(),
            members: (0..self.array.geometry().members()).map(served).collect(),
            spares: self.array.spares(),
            replacing: self.array.replacing(),
            journal: self.array.journal_device(),
        }
    }
}
