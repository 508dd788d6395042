//! What a server says of clients that it sends away, to whoever runs it.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use runtime::Runtime;
use units::{Bytes, Duration, Instant};

use crate::places::Peer;

/// Whoever is told of clients that are sent away.
pub type Tell = Rc<dyn Fn(&Notice)>;

/// Why a client was sent away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It had no export in time.
    Silent(Duration),
    /// More came than there is room for those without an export.
    Crowded,
    /// It found no place.
    NoPlace {
        /// How many those from there may have.
        share: u32,
    },
    /// It took nothing, or sent nothing, for too long, and others waited for the memory.
    Slow {
        /// What it held.
        held: Bytes,
    },
}

/// A client that was sent away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Who.
    pub peer: Peer,
    /// Why.
    pub why: Why,
    /// Of how many nothing was said before.
    pub unsaid: u64,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} was closed: ", self.peer)?;
        match &self.why {
            Why::Silent(limit) => write!(f, "it asked for no export within {limit} (--negotiation-limit)"),
            Why::Crowded => f.write_str("too many clients connect without asking for an export"),
            Why::NoPlace { share } => {
                write!(f, "clients from there have {share} connections, as many as they may (--connections)")
            }
            Why::Slow { held } => {
                write!(f, "for half a minute it moved next to nothing, and kept {held:#} for which others waited")
            }
        }?;
        if self.unsaid > 0 { write!(f, " (and {} more since the last such line)", self.unsaid) } else { Ok(()) }
    }
}

/// Tells at most [`BURST`] in each [`SPAN`].
pub struct Teller {
    runtime: Runtime,
    tell: Option<Tell>,
    since: Cell<Option<Instant>>,
    said: Cell<u32>,
    unsaid: Cell<u64>,
}

/// Lines at once.
const BURST: u32 = 5;
/// How long these are all.
const SPAN: Duration = Duration::seconds(10);

impl Teller {
    /// Tells by this.
    pub fn new(runtime: &Runtime, tell: Option<Tell>) -> Teller {
        let (since, said, unsaid) = (Cell::new(None), Cell::new(0), Cell::new(0));
        Teller { runtime: runtime.clone(), tell, since, said, unsaid }
    }

    /// Tells of a client, or counts it.
    pub fn tell(&self, peer: Peer, why: Why) {
        let now = self.runtime.now();
        if self.since.get().is_none_or(|since| now >= since + SPAN) {
            self.since.set(Some(now));
            self.said.set(0);
        }
        if self.said.get() == BURST {
            return self.unsaid.set(self.unsaid.get() + 1);
        }
        self.said.set(self.said.get() + 1);
        if let Some(tell) = &self.tell {
            tell(&Notice { peer, why, unsaid: self.unsaid.take() });
        }
    }
}

#[test]
fn a_flood_is_told_of_in_a_few_lines_that_say_how_many_there_were() {
    let runtime = Runtime::simulated();
    let told: Rc<std::cell::RefCell<Vec<u64>>> = Rc::default();
    let tell = Rc::clone(&told);
    let teller = Teller::new(&runtime, Some(Rc::new(move |notice| tell.borrow_mut().push(notice.unsaid))));
    runtime.block_on(async {
        (0..1000).for_each(|_| teller.tell(Peer::Local, Why::Crowded));
        runtime.sleep(SPAN).await;
        teller.tell(Peer::Local, Why::Crowded);
    });
    assert_eq!(*told.borrow(), [0, 0, 0, 0, 0, 995]);
}
