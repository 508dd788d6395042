//! The bus: one holder at a time, the highest address first.
//!
//! When the bus goes free, everyone who wants it arbitrates; after the arbitration delay the highest address among
//! those who want it *then* has won. A lone device arbitrates as well. There is no fairness: a low address can starve,
//! which is a property of SCSI and not of this model.
//!
//! Who *gives way* ([`Claim::gives_way`]) takes part only while nobody else wants the bus, whatever its address. That
//! is how host adapters were found to treat their own commands (R. Barve et al., "Round-like behavior in multiple disks
//! on a bus", 1999, Section 5).
//!
//! Several commands of one initiator wait for the bus in the order in which they came, or, if it serves its devices *in
//! turn* ([`Claim::turn`]), the next is the one for the first device after the last that had a command, in order of
//! addresses and round again. Drivers that keep a queue for each target search it so.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::rc::Rc;
use std::task::{Poll, Waker};

use record::PartName;
use runtime::Runtime;
use units::{Duration, Instant, Rate};

use super::phase::{Phase, PhaseTable};
use crate::adapter::Adapter;
use crate::component::{Component, Fast, Kind, Places, Site};
use crate::load::{Gauges, Reading};
use crate::packet::route::{Leg, Route};
use crate::part::{PartError, Problem, Reader};
use crate::trace::{Ledger, Trace};

/// A bus for disks, on a channel of an adapter; or for disk arrays, on one of an I/O board.
pub const KIND: Kind = Kind {
    name: "scsi-string",
    on: &["adapter", "io-board"],
    fast: &[Fast { limit: "strings", values: &["byte-time"] }],
    build: |site| {
        let parameters = site.parameters(StringParameters::read)?;
        let string = ScsiString::new(site.runtime, site.trace, site.name, parameters);
        match site.find() {
            Some(adapter) => Ok(Rc::new(Channel { string, adapter })),
            None => Ok(Rc::new(Cable::new(site, string)?)),
        }
    },
};

/// A string whose data cross an I/O board to memory as they come: the board has no buffers of its own that could hold
/// the bus up.
pub struct Cable {
    /// The bus.
    pub string: ScsiString,
    route: Route,
}

impl Cable {
    fn new(site: &Site, string: ScsiString) -> Result<Cable, PartError> {
        let half = (site.flows.link(), string.parameters().byte_time.as_seconds());
        let leg = Leg { up: half, down: half, ask: 0.0, answer: 0.0, latency: Duration::ZERO };
        let route = site.route().and_then(|route| route.beyond(leg)).ok_or_else(|| site.too_far())?;
        Ok(Cable { string, route })
    }
}

impl Component for Cable {
    fn gauges(&self, gauges: &mut Gauges) {
        self.string.gauges(gauges);
    }
    fn rate(&self) -> Option<Rate> {
        Some(self.string.parameters().rate())
    }
    fn places(&self) -> Option<Places> {
        // The board's own address is behind those of its devices.
        Some(Places { key: "target", count: self.string.parameters().devices - 1, taken: None })
    }
    fn route(&self) -> Option<&Route> {
        Some(&self.route)
    }
}

/// A string, and the board that it hangs on.
pub struct Channel {
    /// The bus.
    pub string: ScsiString,
    /// The board.
    pub adapter: Rc<Adapter>,
}

impl Component for Channel {
    fn gauges(&self, gauges: &mut Gauges) {
        self.string.gauges(gauges);
    }
    fn rate(&self) -> Option<Rate> {
        Some(self.string.parameters().rate())
    }
    fn places(&self) -> Option<Places> {
        let (devices, own) = (self.string.parameters().devices, self.adapter.parameters.id);
        // The adapter takes an address; on a bus with fewer devices than addresses that may be one behind all of
        // theirs.
        match own < devices {
            true => Some(Places { key: "target", count: devices, taken: Some(own) }),
            false => Some(Places { key: "target", count: devices - 1, taken: None }),
        }
    }
}

/// Addresses on a bus of eight data lines.
pub const ADDRESSES: u8 = 8;

/// What distinguishes one kind of bus from another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StringParameters {
    /// A byte, when neither side pauses.
    pub byte_time: Duration,
    /// From bus free to a winner, for a command; and when a target comes back.
    pub arbitration: Duration,
    /// See [`StringParameters::arbitration`].
    pub rearbitration: Duration,
    /// The initiator addresses the target.
    pub selection: Duration,
    /// The target addresses the initiator.
    pub reselection: Duration,
    /// The lines settle after a device has let go of the bus.
    pub release: Duration,
    /// Devices, initiators included.
    pub devices: u32,
}

impl StringParameters {
    /// When neither side pauses.
    fn rate(&self) -> Rate {
        Rate::bytes_per_second(1.0 / self.byte_time.as_seconds())
    }

    /// Reads a part of kind `scsi-string`.
    pub fn read(reader: &Reader) -> Result<StringParameters, PartError> {
        let devices = reader.get("devices")?;
        if !(2..=u32::from(ADDRESSES)).contains(&devices) {
            return Err(reader
                .fault("devices", Problem::OutOfRange { accepted: "2 to 8, as many as a bus has addresses".into() }));
        }
        let byte_time: Duration = reader.get("byte-time")?;
        if byte_time.is_zero() {
            return Err(reader.fault("byte-time", Problem::OutOfRange { accepted: "a time above zero".into() }));
        }
        Ok(StringParameters {
            byte_time,
            arbitration: reader.get("arbitration")?,
            rearbitration: reader.get("rearbitration")?,
            selection: reader.get("selection")?,
            reselection: reader.get("reselection")?,
            release: reader.get("release")?,
            devices,
        })
    }
}

/// One bus; clones name the same one.
#[derive(Clone)]
pub struct ScsiString {
    inner: Rc<Inner>,
}

struct Inner {
    runtime: Runtime,
    parameters: StringParameters,
    part: PartName,
    table: PhaseTable,
    arbiter: RefCell<Arbiter>,
}

#[derive(Default)]
struct Arbiter {
    state: BusState,
    /// Who wants the bus, by address: several commands of one initiator may wait, first come first.
    waiting: Vec<Waiting>,
    arrivals: u64,
    /// The device that had its turn last.
    served: u8,
}

#[derive(Default, PartialEq, Eq, Clone, Copy)]
enum BusState {
    #[default]
    Free,
    /// One of those who wait counts the arbitration delay down.
    Arbitrating,
    /// Won by the one with this arrival number.
    Won(u64),
    Held,
}

struct Waiting {
    id: u8,
    gives_way: bool,
    turn: Option<u8>,
    arrival: u64,
    waker: Option<Waker>,
    /// It is this one's turn to count the delay down.
    counts: bool,
}

/// How a device wants the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Its address.
    pub id: u8,
    /// It does not arbitrate while any device that does not give way wants the bus.
    pub gives_way: bool,
    /// The device that it wants the bus for, if it serves its devices in turn and not its commands in order.
    pub turn: Option<u8>,
    /// The arbitration delay that it counts.
    pub delay: Duration,
}

impl Claim {
    /// Of a device that wants the bus as soon as its address allows.
    pub fn at_once(id: u8, delay: Duration) -> Claim {
        Claim { id, gives_way: false, turn: None, delay }
    }
}

impl ScsiString {
    /// A bus that is free.
    pub fn new(runtime: &Runtime, trace: &Trace, name: &str, parameters: StringParameters) -> ScsiString {
        let inner = Inner {
            runtime: runtime.clone(),
            parameters,
            part: trace.part(name),
            table: PhaseTable::default(),
            arbiter: RefCell::default(),
        };
        ScsiString { inner: Rc::new(inner) }
    }

    /// Its parameters.
    pub fn parameters(&self) -> &StringParameters {
        &self.inner.parameters
    }
    /// Its number in spans.
    pub fn part(&self) -> PartName {
        self.inner.part
    }
    /// How long it was in which phase.
    pub fn table(&self) -> &PhaseTable {
        &self.inner.table
    }
    fn gauges(&self, gauges: &mut Gauges) {
        let table = self.table();
        gauges.put("", Reading::Busy(table.busy()));
        Phase::ALL.iter().for_each(|phase| gauges.put(phase.name(), Reading::Phase(table.time(*phase))));
    }

    /// Arbitrates until the device has the bus.
    pub async fn acquire(&self, claim: Claim, ledger: &mut Ledger) -> Tenure {
        let Claim { id, gives_way, turn, delay } = claim;
        let inner = &*self.inner;
        let arrival = {
            let mut arbiter = inner.arbiter.borrow_mut();
            let arrival = arbiter.arrivals;
            arbiter.arrivals += 1;
            let counts = arbiter.state == BusState::Free;
            if counts {
                arbiter.state = BusState::Arbitrating;
            }
            arbiter.waiting.push(Waiting { id, gives_way, turn, arrival, waker: None, counts });
            arrival
        };
        loop {
            let counts = std::future::poll_fn(|context| {
                let mut arbiter = inner.arbiter.borrow_mut();
                if arbiter.state == BusState::Won(arrival) {
                    return Poll::Ready(false);
                }
                let mine =
                    arbiter.waiting.iter_mut().find(|waiting| waiting.arrival == arrival).expect("who waits is listed");
                if std::mem::take(&mut mine.counts) {
                    return Poll::Ready(true);
                }
                mine.waker = Some(context.waker().clone());
                Poll::Pending
            })
            .await;
            if !counts {
                break;
            }
            inner.runtime.sleep(delay).await;
            inner.arbiter.borrow_mut().decide();
        }
        let now = inner.runtime.now();
        {
            let mut arbiter = inner.arbiter.borrow_mut();
            assert!(arbiter.state == BusState::Won(arrival), "the winner takes the bus");
            arbiter.state = BusState::Held;
            arbiter.waiting.retain(|waiting| waiting.arrival != arrival);
        }
        inner.table.add(Phase::Arbitration, delay);
        // Whoever counted, this device arbitrated during the last `delay`; before that it waited.
        let won = Instant::from_nanos(now.as_nanos() - delay.as_nanos());
        if won > ledger.at() {
            ledger.until(won, inner.part, "bus-wait");
        }
        ledger.until(now, inner.part, Phase::Arbitration.name());
        Tenure { string: self.clone(), cursor: now }
    }

    fn free(&self) {
        let mut arbiter = self.inner.arbiter.borrow_mut();
        assert!(arbiter.state == BusState::Held, "only the holder lets go of the bus");
        match arbiter.highest() {
            None => arbiter.state = BusState::Free,
            Some(next) => {
                arbiter.state = BusState::Arbitrating;
                let next = &mut arbiter.waiting[next];
                next.counts = true;
                if let Some(waker) = next.waker.take() {
                    waker.wake();
                }
            }
        }
    }
}

impl Arbiter {
    /// Place in the list of the highest address among those who do not give way, or else among all; of several requests
    /// of one device the one whose turn it is, or the first.
    fn highest(&self) -> Option<usize> {
        (0..self.waiting.len()).max_by_key(|index| {
            let waiting = &self.waiting[*index];
            let behind = waiting.turn.map_or(0, |turn| (turn + ADDRESSES - self.served - 1) % ADDRESSES);
            (!waiting.gives_way, waiting.id, Reverse(behind), Reverse(waiting.arrival))
        })
    }

    fn decide(&mut self) {
        let winner = self.highest().expect("the one who counted wants the bus");
        self.state = BusState::Won(self.waiting[winner].arrival);
        self.served = self.waiting[winner].turn.unwrap_or(self.served);
        if let Some(waker) = self.waiting[winner].waker.take() {
            waker.wake();
        }
    }
}

/// The bus in the hands of one pair of devices; dropping it lets the bus go free.
#[must_use = "the bus is free again as soon as the tenure is dropped"]
pub struct Tenure {
    string: ScsiString,
    /// Up to where the tenure's time is accounted for; may be ahead of the clock until [`Tenure::catch_up`].
    cursor: Instant,
}

impl Tenure {
    /// The bus is in `phase` for the next `time`.
    pub fn spend(&mut self, phase: Phase, time: Duration, ledger: &mut Ledger) {
        self.cursor += time;
        self.string.inner.table.add(phase, time);
        ledger.until(self.cursor, self.string.inner.part, phase.name());
    }
    /// Up to where time is accounted for.
    pub fn cursor(&self) -> Instant {
        self.cursor
    }
    /// Waits until the clock has come to the cursor.
    pub async fn catch_up(&self) {
        let runtime = &self.string.inner.runtime;
        if self.cursor > runtime.now() {
            runtime.sleep_until(self.cursor).await;
        }
    }
    /// The time from the cursor up to now was spent in `phase`.
    pub fn until_now(&mut self, phase: Phase, ledger: &mut Ledger) {
        let time = self.string.inner.runtime.now().since(self.cursor);
        self.spend(phase, time, ledger);
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        self.string.free();
    }
}
