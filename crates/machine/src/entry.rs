//! The ways into a modelled machine: each is a [`Device`], so that whatever drives a real disk drives a modelled one.
//!
//! What is asked of the device walks the whole modelled path, and the reply comes when it would have come on the
//! machine. Bytes are not stored: requests carry phantom payloads, and one with memory is refused
//! ([`DeviceError::Unsupported`]).
//!
//! # Processes
//! On the raw way, and on the way through the array, a request is a system call, and a system call is made by a
//! process: it takes the processor, keeps it until its request is at the board, and works a little between two calls. A
//! device does not know who calls. It keeps the processes of its callers in a stack: who calls first gets a new one,
//! who calls when one has just returned gets that one. A closed loop of depth n is then n processes, each of which
//! calls again from where it returned, with the processor still its own; an open loop has as many processes as requests
//! were ever under way. A process whose caller does not come back at the instant of its return waits for the next one,
//! and the processor is free.
//!
//! On the asynchronous way they are not processes but the requests that one program has under way (`aioread`), in one
//! process.
//!
//! What a process does between two calls comes before the request is submitted ([`device::Stamps::submitted`]): it is
//! the caller's time, not the request's.

use std::cell::RefCell;
use std::rc::Rc;

use device::{Device, DeviceError, Operation, Payload, Reply, Request, Shape, Stamps};
use units::Bytes;

use crate::endpoint::Endpoint;
use crate::filesystem::{FileError, MountError, Mounted, State};
use crate::os::{Os, Process, Unmappable, command};
use crate::raid::{Raid, RaidError, RaidParameters};
use crate::scsi::target::BLOCK;
use crate::server::{FileServer, Files, ServerError};
use crate::system::{Drive, Machine};
use crate::volume::Volume;

/// How requests enter a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// Through the call that neither copies nor flushes.
    NoCopy,
    /// As raw reads and writes of a process.
    Raw,
    /// As raw reads and writes that one program has under way at once: it goes on from one to the next without a
    /// context switch.
    Asynchronous,
    /// As reads and writes of a process to the array of disks that the system's `[array]` describes.
    Array,
    /// As requests of clients to the network file server, where there is one; otherwise as reads and writes by
    /// processes of a file on each drive.
    Files,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 5] = [Way::NoCopy, Way::Raw, Way::Asynchronous, Way::Array, Way::Files];

    /// Its name in files and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Way::NoCopy => "no-copy",
            Way::Raw => "raw",
            Way::Asynchronous => "asynchronous",
            Way::Array => "array",
            Way::Files => "files",
        }
    }
}

impl std::str::FromStr for Way {
    type Err = NoWay;
    fn from_str(text: &str) -> Result<Way, NoWay> {
        Way::ALL.into_iter().find(|way| way.name() == text).ok_or_else(|| NoWay(text.to_owned()))
    }
}

/// A text that is no way into a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no way into a machine; there are {ways}", ways = Way::ALL.map(Way::name).join(", "))]
pub struct NoWay(String);

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// A way into a machine, to one disk or to an array of them.
pub struct Entry {
    machine: Rc<Machine>,
    /// The operating system that it goes through.
    os: Rc<Os>,
    shape: Shape,
    door: Door,
}

enum Door {
    NoCopy(Rc<dyn Endpoint>),
    Raw(Rc<dyn Endpoint>, Processes),
    Array(Rc<Raid>, Processes),
    Files(Rc<Files>),
    Local(Rc<Mounted>, Processes),
}

/// Processes between two calls, the one that returned last on top.
#[derive(Default)]
struct Processes {
    idle: RefCell<Vec<Rc<Process>>>,
    /// All are of one program.
    of_program: bool,
}

/// The entries of a machine to drives of it, by name: one for each drive, or one for all of them as an array
/// ([`Raid::assemble`]). Their order is that of the names.
pub fn entries<N: AsRef<str>>(machine: &Rc<Machine>, drives: &[N], way: Way) -> Result<Vec<Entry>, EntryError> {
    let entry = |os: &Rc<Os>, name: String, size: Bytes, door: Door| Entry {
        machine: Rc::clone(machine),
        os: Rc::clone(os),
        shape: Shape::new(name, size),
        door,
    };
    let one = |name: &N| {
        let name = name.as_ref();
        let drive = machine.drive(name).ok_or_else(|| EntryError::no_drive(machine, name))?;
        let endpoint = Rc::clone(&drive.endpoint);
        let door = match way {
            Way::NoCopy => Door::NoCopy(endpoint),
            way => Door::Raw(endpoint, Processes { of_program: way == Way::Asynchronous, ..Processes::default() }),
        };
        Ok(entry(&drive.os, name.to_owned(), drive.size(), door))
    };
    if way == Way::Files {
        let endpoint = |name: &N| {
            let drive = machine.drive(name.as_ref()).ok_or_else(|| EntryError::no_drive(machine, name.as_ref()))?;
            Ok(Rc::clone(&drive.endpoint))
        };
        let disks = drives.iter().map(endpoint).collect::<Result<Vec<_>, EntryError>>()?;
        if !has_server(machine) {
            let names = drives.iter().map(|name| name.as_ref().to_owned());
            let mounted = Mounted::mount(machine, &names.zip(disks).collect::<Vec<_>>())?;
            let local = |(mounted, name): (Rc<Mounted>, &N)| {
                let door = Door::Local(Rc::clone(&mounted), Processes::default());
                entry(&Rc::clone(mounted.os()), name.as_ref().to_owned(), mounted.size(), door)
            };
            return Ok(mounted.into_iter().zip(drives).map(local).collect());
        }
        let files = Files::assemble(machine, &disks)?;
        return Ok(vec![entry(&Rc::clone(files.os()), "files".to_owned(), files.size(), Door::Files(files))]);
    }
    if way != Way::Array {
        return drives.iter().map(one).collect();
    }
    let names: Vec<String> = drives.iter().map(|name| name.as_ref().to_owned()).collect();
    let raid = Raid::assemble(machine, described(machine, &names)?, &names)?;
    Ok(vec![entry(&Rc::clone(raid.os()), "array".to_owned(), raid.size(), Door::Array(raid, Processes::default()))])
}

/// Whether files of a machine are asked for by clients, and not by processes of its own.
pub fn has_server(machine: &Machine) -> bool {
    machine.parts::<FileServer>().next().is_some()
}

/// The array of a machine, if these drives can be it.
pub fn described<'m>(machine: &'m Machine, drives: &[String]) -> Result<&'m RaidParameters, EntryError> {
    let parameters = machine.array.as_ref().ok_or(EntryError::NotDescribed)?;
    parameters.check(drives)?;
    let sizes = parameters.sizes(drives, |name| machine.drive(name).map(Drive::size))?;
    parameters.geometry(&sizes)?;
    let first = machine.drive(&drives[0]).expect("its size is known");
    if Volume::of(machine, &first.os).is_some()
        && let Some(at) = sizes.iter().position(|size| *size != sizes[0])
    {
        return Err(RaidError::Sizes(drives[0].clone(), sizes[0], drives[at].clone(), sizes[at]).into());
    }
    Ok(parameters)
}

/// Why there is no way into a machine.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// The system has no such drive.
    #[error("the system has no drive '{name}'; there are: {known}")]
    #[allow(missing_docs)] // the fields are the blanks of the sentence
    NoDrive { name: String, known: String },
    /// The system has no array.
    #[error(
        "the system describes no array; add [array] with level, stripe-unit, members and consistency to its file, or take the way raw or no-copy"
    )]
    NotDescribed,
    /// There is no file server, or nobody asks it.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Its drives have no files.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The disks cannot be its array.
    #[error(transparent)]
    Raid(#[from] RaidError),
}

impl EntryError {
    fn no_drive(machine: &Machine, name: &str) -> EntryError {
        EntryError::NoDrive { name: name.to_owned(), known: machine.names_of_drives() }
    }
}

impl Device for Entry {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn submit(&self, request: Request) -> Reply {
        let now = self.machine.runtime.now();
        if let Err(error) = self.shape.check(&request) {
            return request.refuse(error, now);
        }
        let write = match (request.operation, &request.payload) {
            (Operation::Read, Payload::Into(buffer)) if buffer.bytes().is_none() => false,
            (Operation::Write, Payload::From(data)) if data.bytes().is_none() => true,
            // Writes are on the medium when they are replied to.
            (Operation::Flush, _) => return request.answer(Ok(()), Stamps { submitted: now, completed: now }),
            _ => return request.refuse(DeviceError::Unsupported, now),
        };
        if request.length.is_zero() {
            return request.answer(Ok(()), Stamps { submitted: now, completed: now });
        }
        if self.check(request.length).is_err() {
            // As the kernel's raw path does.
            return request.refuse(DeviceError::Kernel { errno: INVALID }, now);
        }
        let (offset, length, id) = (request.offset, request.length, request.id);
        let (result, stamps) = match &self.door {
            Door::NoCopy(unit) => (Ok(()), self.no_copy(&**unit, write, offset, length, id).await),
            Door::Raw(unit, processes) => {
                let process = processes.take(&self.os);
                let stamps = self.raw(&**unit, &process, write, offset, length, id).await;
                processes.give_back(process, &self.os, &self.machine);
                (Ok(()), stamps)
            }
            Door::Files(files) if length > files.largest().0 => {
                (Err(DeviceError::Unsupported), Stamps { submitted: now, completed: now })
            }
            Door::Files(files) => {
                let mut ledger = self.machine.trace.open_as(id, now);
                files.serve(write, offset, length, &mut ledger).await;
                let completed = self.machine.runtime.now();
                ledger.close(completed);
                (Ok(()), Stamps { submitted: now, completed })
            }
            Door::Local(mounted, processes) => {
                let process = processes.take(&self.os);
                let answer = self.local(mounted, &process, write, offset, length, id).await;
                processes.give_back(process, &self.os, &self.machine);
                answer
            }
            Door::Array(raid, processes) => {
                let process = processes.take(&self.os);
                let answer = self.array(raid, &process, write, offset, length, id).await;
                processes.give_back(process, &self.os, &self.machine);
                answer
            }
        };
        request.answer(result, stamps)
    }
}

/// `EINVAL`.
const INVALID: i32 = 22;
/// `ENOSPC`.
const NO_SPACE: i32 = 28;

impl Entry {
    /// Refuses requests that the operating system cannot map. Of an array it maps the pieces.
    pub fn check(&self, length: Bytes) -> Result<(), Unmappable> {
        match &self.door {
            Door::Array(raid, _) => self.os.check_mapping(length.min(raid.unit())),
            Door::NoCopy(_) | Door::Raw(..) => self.os.check_mapping(length),
            Door::Files(_) | Door::Local(..) => Ok(()),
        }
    }

    /// Of an array: what its members have side by side.
    pub fn stripe(&self) -> Option<Bytes> {
        match &self.door {
            Door::Array(raid, _) => Some(raid.stripe()),
            Door::NoCopy(_) | Door::Raw(..) | Door::Files(_) | Door::Local(..) => None,
        }
    }

    /// The largest request that it takes, and what a larger one would be; nothing if only its size bounds it.
    pub fn largest(&self) -> Option<(Bytes, &'static str)> {
        match &self.door {
            Door::Files(files) => Some(files.largest()),
            _ => None,
        }
    }

    /// Makes or removes the file on a drive before a run begins. Panics if this is no such file.
    pub fn set_file(&self, state: State) -> Result<(), FileError> {
        let Door::Local(mounted, _) = &self.door else { panic!("only a file on a drive is made or removed") };
        mounted.set(state)
    }

    async fn local(
        &self,
        mounted: &Mounted,
        process: &Rc<Process>,
        write: bool,
        offset: Bytes,
        length: Bytes,
        id: u64,
    ) -> (Result<(), DeviceError>, Stamps) {
        let Machine { runtime, trace, .. } = &*self.machine;
        let submitted = runtime.now();
        let mut ledger = trace.open_as(id, submitted);
        let result = mounted.call(process, write, offset, length, &mut ledger).await;
        let completed = runtime.now();
        ledger.until(completed, self.os.part(), "return");
        ledger.close(completed);
        let answer = result.map_err(|error| match error.is_no_space() {
            true => DeviceError::Kernel { errno: NO_SPACE },
            false => unreachable!("a file that is looked for by its own name, of a size that was checked: {error}"),
        });
        (answer, Stamps { submitted, completed })
    }

    async fn no_copy(&self, unit: &dyn Endpoint, write: bool, offset: Bytes, length: Bytes, id: u64) -> Stamps {
        let Machine { runtime, trace, .. } = &*self.machine;
        let submitted = runtime.now();
        let mut ledger = trace.open_as(id, submitted);
        let passage = self.os.no_copy(unit, command(write, offset, length), &mut ledger).await;
        let completed = runtime.now();
        ledger.close(completed);
        self.machine.passed(&passage);
        Stamps { submitted, completed }
    }

    async fn raw(
        &self,
        unit: &dyn Endpoint,
        process: &Process,
        write: bool,
        offset: Bytes,
        length: Bytes,
        id: u64,
    ) -> Stamps {
        let Machine { runtime, trace, .. } = &*self.machine;
        self.between(process).await;
        let submitted = runtime.now();
        let mut ledger = trace.open_as(id, submitted);
        let passage = self.os.raw(process, unit, command(write, offset, length), &mut ledger).await;
        let completed = runtime.now();
        ledger.close(completed);
        self.machine.passed(&passage);
        Stamps { submitted, completed }
    }

    async fn array(
        &self,
        raid: &Raid,
        process: &Rc<Process>,
        write: bool,
        offset: Bytes,
        length: Bytes,
        id: u64,
    ) -> (Result<(), DeviceError>, Stamps) {
        let Machine { runtime, trace, .. } = &*self.machine;
        self.between(process).await;
        let submitted = runtime.now();
        let (ledger, result) = raid.serve(process, write, offset, length, trace.open_as(id, submitted)).await;
        let completed = runtime.now();
        ledger.close(completed);
        (result, Stamps { submitted, completed })
    }

    /// What a process does between its last call and this one.
    async fn between(&self, process: &Process) {
        if process.calls() > 0 {
            let Machine { runtime, trace, .. } = &*self.machine;
            let mut ledger = trace.aside(runtime.now());
            self.os.between(process, &mut ledger).await;
            ledger.close(runtime.now());
        }
    }
}

impl Processes {
    fn take(&self, os: &Os) -> Rc<Process> {
        let new = || if self.of_program { os.of_program() } else { os.process() };
        let process = self.idle.borrow_mut().pop().unwrap_or_else(new);
        process.call();
        process
    }

    /// A process has returned from its call. Unless its caller makes it call again before anything else happens, it
    /// waits.
    fn give_back(&self, process: Rc<Process>, os: &Rc<Os>, machine: &Machine) {
        let call = process.returned();
        self.idle.borrow_mut().push(Rc::clone(&process));
        let os = Rc::clone(os);
        // The caller goes on in the poll that this is part of; the task comes after it.
        machine.runtime.spawn_detached(async move {
            if process.waits_since(call) {
                os.block(&process);
            }
        });
    }
}

const _: () =
    assert!(BLOCK.get() == Bytes::SECTOR.get(), "shapes of 512-byte blocks are shapes of the machine's blocks");
