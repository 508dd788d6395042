//! What is served of a model: the ways into a modelled machine, or a single drive, as devices of a live runtime.
//!
//! They have the model's timing and no contents. Whoever serves them puts a store behind ([`device::filter::Backed`]):
//! a file, or nothing, as the "diskless arrays" of the M.A.X. study ([`device::Diskless`]).

use std::rc::Rc;

use device::{AnyDevice, Device};
use machine::entry::{EntryError, Way, entries, has_server};
use machine::kit::Kit;
use machine::library::LibraryError;
use machine::part::PartError;
use machine::standalone::Standalone;
use machine::trace::Trace;
use runtime::Runtime;

use crate::pace::Pace;

/// The seed of a served model: the same machine every time.
const SEED: u64 = 1;

/// A modelled machine that is to be served.
#[derive(Debug, Clone)]
pub struct Served {
    /// One that comes with the program, or the path of a system file.
    pub system: String,
    /// Changed values: `PART.VALUE` and the text of the new one.
    pub parts: Vec<(String, String)>,
    /// The way in; the array if the system describes one, raw requests otherwise.
    pub way: Option<Way>,
    /// Its disks; all of them, or the array's, if there are none here.
    pub disks: Vec<String>,
}

/// Why a model cannot be served.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum ServedError {
    #[error(transparent)]
    Part(#[from] PartError),
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    Entry(#[from] EntryError),
    #[error("there is no drive '{name}' in {system}; there are: {known}")]
    NoDrive { name: String, system: String, known: String },
}

/// One device of a model.
pub struct Offer {
    /// `array`, `disk-0.1`; of a drive, its name.
    pub name: String,
    /// What it is, in words.
    pub what: String,
    /// Timing without contents.
    pub device: AnyDevice,
}

/// A modelled machine at the pace of `live`.
pub fn machine(live: &Runtime, served: &Served) -> Result<(Pace, Vec<Offer>), ServedError> {
    let mut kit = Kit::load(&served.system)?;
    kit.set_all(&served.parts)?;
    let simulated = Runtime::simulated();
    let machine = Rc::new(kit.build(&simulated, SEED, &Trace::default())?);
    if let Some(name) = served.disks.iter().find(|name| machine.drive(name).is_none()) {
        let (name, system, known) = (name.clone(), served.system.clone(), machine.names_of_drives());
        return Err(ServedError::NoDrive { name, system, known });
    }
    let way = served.way.unwrap_or(if machine.array.is_some() { Way::Array } else { Way::Raw });
    let members = machine.array.as_ref().filter(|_| way == Way::Array).map(|array| array.members.clone());
    let disks = match (&served.disks[..], members) {
        ([], Some(members)) => members,
        ([], None) => machine.drives().iter().map(|drive| drive.name.to_string()).collect(),
        (given, _) => given.to_vec(),
    };
    let entries = entries(&machine, &disks, way)?;
    let pace = Pace::start(live, &simulated);
    let words = match way {
        Way::NoCopy => "a disk, by the call without copies".to_owned(),
        Way::Raw => "a disk, by raw requests of processes".to_owned(),
        Way::Asynchronous => "a disk, by raw requests that one program has under way".to_owned(),
        Way::Files if !has_server(&machine) => "a file on a drive, by calls of processes".to_owned(),
        Way::Files => "a file server's files, by requests of its clients".to_owned(),
        Way::Array => {
            let level = machine.array.as_ref().map_or_else(String::new, |array| array.level.to_string());
            format!("{level} over {} disks", disks.len())
        }
    };
    let offer = |entry: machine::entry::Entry| {
        let (name, device) = (entry.shape().name.clone(), AnyDevice::new(pace.device(entry)));
        Offer { name, what: words.clone(), device }
    };
    let offers = entries.into_iter().map(offer).collect();
    Ok((pace, offers))
}

/// A single modelled drive at the pace of `live`: a part that comes with the program, or the path of a part file.
pub fn drive(live: &Runtime, name: &str) -> Result<(Pace, Offer), ServedError> {
    let simulated = Runtime::simulated();
    let drive = Standalone::open(&simulated, name, SEED)?;
    let what = drive.shape().name.clone();
    let pace = Pace::start(live, &simulated);
    let device = AnyDevice::new(pace.device(drive));
    Ok((pace, Offer { name: name.to_owned(), what, device }))
}
