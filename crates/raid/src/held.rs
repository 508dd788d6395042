//! What a server holds: devices, and leave to write to them.
//!
//! A device is held as long as the array uses it, and, once it does not, until everything is answered that was sent to
//! it: a request that nobody waits for any more may still be carried out, and would overwrite what somebody else has
//! put there. Then the server lets go of it, so that it can come back to the array, or become part of something else.

use std::cell::Cell;
use std::rc::Rc;

use device::{AnyDevice, Device};
use host::guard::WritePermit;
use nbd::{Steady, ToUri};
use units::Duration;
use uring::{FileDevice, Live};

use crate::counted::{MemberTally, Metered};
use crate::event::Event;
use crate::members::{connected, connected_to_write, over, readable, writable};
use crate::{Place, RaidError};

/// A device of the array, and what keeps others from it.
pub(crate) struct Held {
    place: Place,
    device: Opened,
    /// How often it was connected again, and whether it was away, when its [news](Held::news) were asked for last.
    told: Cell<(u64, bool)>,
    /// It was said that it came back as another one.
    exchange_told: Cell<bool>,
    /// Of paths. It goes last: the device is open in its name.
    permit: Option<WritePermit>,
    /// What was sent to it, if that is counted.
    tally: Option<Rc<MemberTally>>,
}

enum Opened {
    File(Rc<FileDevice>),
    Export(Rc<Steady<ToUri>>),
}

impl Held {
    /// Opens a place; paths need a permit, and an export may take no longer than that. What is sent to it may be
    /// counted.
    pub async fn open(
        live: &Live,
        place: &Place,
        permit: Option<WritePermit>,
        within: Duration,
        counted: bool,
    ) -> Result<(Held, AnyDevice), RaidError> {
        let device = match (place, &permit) {
            (Place::Nbd(uri), _) => Opened::Export(Rc::new(connected_to_write(live, uri, within).await?)),
            (Place::Path(_), Some(permit)) => Opened::File(Rc::new(writable(live, permit)?)),
            (Place::Path(path), None) => panic!("{}: what is written was permitted", path.display()),
        };
        let tally: Option<Rc<MemberTally>> = counted.then(Rc::default);
        let any = match (&device, &tally) {
            (Opened::File(file), None) => AnyDevice::new(Rc::clone(file)),
            (Opened::Export(export), None) => AnyDevice::new(Rc::clone(export)),
            (Opened::File(file), Some(tally)) => AnyDevice::new(Metered::new(Rc::clone(file), tally)),
            (Opened::Export(export), Some(tally)) => AnyDevice::new(Metered::new(Rc::clone(export), tally)),
        };
        Ok((
            Held {
                place: place.clone(),
                device,
                told: Cell::default(),
                exchange_told: Cell::new(false),
                permit,
                tally,
            },
            any,
        ))
    }

    /// Opens a place that is only read: what the array writes stays in memory in front of it.
    pub async fn open_read_only(
        live: &Live,
        place: &Place,
        within: Duration,
        counted: bool,
    ) -> Result<(Held, AnyDevice), RaidError> {
        let device = match place {
            Place::Nbd(uri) => Opened::Export(Rc::new(connected(live, uri, within).await?)),
            Place::Path(path) => Opened::File(Rc::new(readable(live, path)?)),
        };
        let tally: Option<Rc<MemberTally>> = counted.then(Rc::default);
        let any = match (&device, &tally) {
            (Opened::File(file), None) => over(live, Rc::clone(file)),
            (Opened::Export(export), None) => over(live, Rc::clone(export)),
            (Opened::File(file), Some(tally)) => over(live, Metered::new(Rc::clone(file), tally)),
            (Opened::Export(export), Some(tally)) => over(live, Metered::new(Rc::clone(export), tally)),
        };
        Ok((
            Held {
                place: place.clone(),
                device,
                told: Cell::default(),
                exchange_told: Cell::new(false),
                permit: None,
                tally,
            },
            any,
        ))
    }

    /// What has become of its connection since this was asked last, if it is an export.
    pub fn news(&self) -> Vec<Event> {
        let Opened::Export(export) = &self.device else { return Vec::new() };
        let (times, is_away) = (export.reconnections(), export.is_away());
        let (known, was_away) = self.told.replace((times, is_away));
        let device = &export.shape().name;
        let lost = || Event::ConnectionLost { device: device.clone() };
        let back = || Event::ConnectionBack { device: device.clone(), away: export.last_away(), times };
        let exchanged = export.exchanged().filter(|_| !self.exchange_told.replace(export.exchanged().is_some()));
        let exchanged = exchanged.map(|difference| Event::MemberExchanged { device: device.clone(), difference });
        let mut news = match (times > known, was_away, is_away) {
            (true, true, false) => vec![back()],
            (true, true, true) => vec![back(), lost()],
            (true, false, false) => vec![lost(), back()],
            (true, false, true) => vec![lost(), back(), lost()],
            (false, false, true) => vec![lost()],
            (false, ..) => Vec::new(),
        };
        news.extend(exchanged);
        news
    }

    /// How often the device of this name was connected again; `None` if it is another one.
    pub fn reconnections(&self, name: &str) -> Option<u64> {
        match &self.device {
            Opened::Export(export) if export.shape().name == name => Some(export.reconnections()),
            _ => None,
        }
    }

    /// What was sent to the device of this name, if that is counted; `None` if it is another one.
    pub fn tally(&self, name: &str) -> Option<&MemberTally> {
        let own = match &self.device {
            Opened::File(file) => &file.shape().name,
            Opened::Export(export) => &export.shape().name,
        };
        self.tally.as_deref().filter(|_| own == name)
    }

    /// Whether it is this place, by whatever name.
    pub fn is_at(&self, place: &Place) -> bool {
        self.place.is_same(place)
    }

    /// Whether the array has it, or something that was sent to it is not answered.
    pub fn is_needed(&self) -> bool {
        let (users, idle) = match &self.device {
            Opened::File(file) => (Rc::strong_count(file), file.is_idle()),
            Opened::Export(export) => (Rc::strong_count(export), export.is_idle()),
        };
        users > 1 || !idle
    }

    /// Lets go of it.
    pub fn let_go(self) {
        let Held { device, permit, .. } = self;
        drop(device);
        if let Some(permit) = permit {
            permit.release();
        }
    }
}
