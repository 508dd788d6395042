//! The RAID driver of a modelled machine: the array of this project, over disks that the machine's operating system
//! reaches.
//!
//! There is no second RAID in here. `array::Array` cuts requests, locks rows, chooses between read-modify-write and the
//! other ways to new parity, logs what closes the write hole, and reconstructs, as it does over real devices. What a
//! model has to add is what all that costs on the host at hand:
//!
//! - entering the driver, copying between kernel and user, going on after the interrupt: [`Raid::serve`];
//! - each member request, which goes down the operating system's way for the kernel itself (`member`), and what a
//!   volume's driver has to do for it one after the other ([`crate::volume`]);
//! - each computation of parity, through the processor and over the memory bus as a copy of its sources does
//!   ([`crate::os::Os::parity`]). A second parity is charged like a first.
//!
//! Members have no contents, and the array asks for none where its caller brings none: lengths go through the same
//! code. What the array itself keeps on its members (superblocks, bitmap, logs) is bytes; they are stored behind the
//! models ([`device::filter::Backed`]), and take the time of any other request. So each way to keep an array consistent
//! costs in the model what it costs on disks.
//!
//! # Whose time it is
//! A request's ledger goes along with the first of the requests that serve it, and comes back with its reply; those
//! beside it have ledgers of their own. So the spans of a request to the array are those of one way through the
//! machine, and `other-members` is how long it then waited for the others.

pub(crate) mod inside;
pub(crate) mod member;
pub(crate) mod parameters;
pub mod upkeep;

use std::rc::Rc;

use array::geometry::Level;
use array::md::{Consistency, NewArray, NewMember, Stamp, Superblock, Uuid, create};
use array::{Array, OpenOptions, format};
use device::filter::Backed;
use device::{Buffer, Data, Device, DeviceError, MemoryDevice, Request, Shape};
use units::Bytes;

use crate::endpoint::Endpoint;
use crate::os::{Os, Process};
use crate::scsi::target::Command;
use crate::system::{Drive, Machine};
use crate::trace::Ledger;
use crate::volume::Volume;

use member::{Calls, Host, Member};
pub use parameters::{RaidError, RaidParameters};
use upkeep::{Done, Store};

/// An array in a machine.
pub struct Raid {
    os: Rc<Os>,
    calls: Rc<Calls<Kernel>>,
    array: Array<Own>,
    unit: Bytes,
    stripe: Bytes,
}

/// A disk as a member.
type Own = Backed<Member<Kernel>, Store>;

/// The kernel of a host: what asks the members and computes parity.
struct Kernel {
    machine: Rc<Machine>,
    os: Rc<Os>,
    /// The driver that cuts requests, if it is one of a kind.
    volume: Option<Rc<Volume>>,
}

impl Host for Kernel {
    type Caller = Rc<Process>;
    async fn command(&self, unit: &dyn Endpoint, command: Command, _: Option<&Rc<Process>>, ledger: &mut Ledger) {
        let number = match &self.volume {
            Some(volume) => volume.before(command, ledger).await,
            None => 0,
        };
        let passage = self.os.kernel(unit, command, ledger).await;
        if let Some(volume) = &self.volume {
            volume.after(command, number, ledger).await;
        }
        self.machine.passed(&passage);
    }
    async fn parity(&self, process: Option<&Rc<Process>>, sources: Bytes, ledger: &mut Ledger) {
        self.os.parity(process.map(|process| &**process), sources, ledger).await;
    }
}

impl Raid {
    /// An array of these disks, new and clean. If it keeps something on its members, opening it takes virtual time.
    ///
    /// # Panics
    /// If the machine's runtime is in a `block_on`, and the array keeps something on its members.
    pub fn assemble(
        machine: &Rc<Machine>,
        parameters: &RaidParameters,
        drives: &[String],
    ) -> Result<Rc<Raid>, RaidError> {
        let runtime = &machine.runtime;
        let known = |name: &String| machine.drive(name).ok_or_else(|| RaidError::NoDrive(name.clone()));
        let drives: Vec<&Drive> = drives.iter().chain(&parameters.journal).map(known).collect::<Result<_, _>>()?;
        let os = Rc::clone(&drives.first().ok_or(RaidError::NoMembers)?.os);
        if let Some(other) = drives.iter().find(|drive| !Rc::ptr_eq(&drive.os, &os)) {
            return Err(RaidError::OtherHost(other.name.to_string()));
        }
        let volume = Volume::of(machine, &os);
        let kernel = Kernel { machine: Rc::clone(machine), os: Rc::clone(&os), volume };
        let calls = Rc::new(Calls::new(runtime, &machine.trace, machine.trace.part("raid"), kernel));
        let sizes: Vec<Bytes> = drives.iter().map(|drive| drive.size()).collect();
        let geometry = parameters.geometry(&sizes)?;
        let count = drives.len() - usize::from(parameters.journal.is_some());
        parameters.upkeep.check(parameters.level, count).map_err(RaidError::Upkeep)?;
        let made = parameters.consistency.map(|consistency| {
            let (new, devices) = parameters.new_array(consistency, &sizes);
            create(&new, &devices).map(|(superblocks, _)| superblocks)
        });
        let superblocks = made.transpose()?;
        // Where the data of each disk begin and end; of a journal all is the array's own.
        let data = |index: usize| match &superblocks {
            None => Bytes::ZERO..sizes[index],
            Some(_) if index >= count => Bytes::ZERO..Bytes::ZERO,
            Some(superblocks) => {
                let Superblock { data_offset, data_size, .. } = superblocks[index];
                data_offset..data_offset + data_size
            }
        };
        let member = |index: usize| {
            let drive = drives[index];
            let shape = Shape::new(drive.name.to_string(), drive.size());
            let store = Store::new(runtime, shape.clone(), data(index));
            Backed::new(Member::new(&calls, Rc::clone(&drive.endpoint), shape), store)
        };
        let members: Vec<Own> = (0..drives.len()).map(member).collect();
        let unit = parameters.stripe_unit;
        let stripe = match parameters.level {
            Level::Raid0(_) => unit * drives.len() as u64,
            _ => geometry.stripe_size(),
        };
        let array = match &superblocks {
            None => {
                let members = members.into_iter().map(|member| (member, Bytes::ZERO)).collect();
                Array::assemble(runtime, "array", geometry, members)?
            }
            Some(superblocks) => {
                let stores: Vec<&MemoryDevice> = members.iter().map(|member| member.store().kept()).collect();
                // Made before the machine was turned on.
                runtime.block_on(format(&stores, superblocks)).expect("memory takes all writes");
                runtime.block_on(Array::open(runtime, "array", members, OpenOptions::default()))?
            }
        };
        calls.run(&array);
        let upkeep = parameters.upkeep;
        upkeep.fail(&array, count);
        let new = upkeep.replaced(count).map(|place| (place, member(place), data(place).start));
        let raid = Rc::new(Raid { os, calls, array, unit, stripe });
        let (kept, done) = (Rc::clone(&raid), Done::default());
        machine.tend(upkeep, done.clone());
        runtime.spawn_detached(async move { upkeep.carry_out(&kept.array, new, &done).await });
        if parameters.consistency.is_some() {
            let tended = Rc::clone(&raid);
            runtime.spawn_detached(async move { tended.array.tend().await });
        }
        Ok(raid)
    }

    /// The operating system whose driver it is.
    pub fn os(&self) -> &Rc<Os> {
        &self.os
    }

    /// How much it stores.
    pub fn size(&self) -> Bytes {
        self.array.shape().size
    }

    /// What a member gives at a time.
    pub fn unit(&self) -> Bytes {
        self.unit
    }

    /// What its members have side by side, without parity.
    pub fn stripe(&self) -> Bytes {
        self.stripe
    }

    /// Carries out a read or write of a process, from the call to its return. The ledger is the request's, and comes
    /// back.
    pub async fn serve(
        &self,
        process: &Rc<Process>,
        write: bool,
        address: Bytes,
        bytes: Bytes,
        mut ledger: Ledger,
    ) -> (Ledger, Result<(), DeviceError>) {
        let os = &self.os;
        os.resume(process, &mut ledger, "start-system-call").await;
        os.step(os.parameters.start_call + os.parameters.raid_driver, &mut ledger, "start-system-call").await;
        let id = ledger.request();
        let request = if write {
            os.copy(process, bytes, &mut ledger).await;
            Request::write(address, Data::phantom(bytes))
        } else {
            Request::read(address, Buffer::phantom(bytes))
        };
        os.block(process);
        self.calls.begin(id, Rc::clone(process), ledger);
        let result = self.array.submit(request.with_id(id)).await.result;
        let mut ledger = self.calls.end(id);
        if write {
            os.resume(process, &mut ledger, "finish").await;
        } else {
            os.resume(process, &mut ledger, "before-copy").await;
            os.copy(process, bytes, &mut ledger).await;
            os.step(os.parameters.finish, &mut ledger, "finish").await;
        }
        (ledger, result)
    }
}

impl RaidParameters {
    /// What md's format is asked for: the array of this machine, the same in every run.
    fn new_array(&self, consistency: Consistency, sizes: &[Bytes]) -> (NewArray, Vec<NewMember>) {
        let new = NewArray {
            level: self.level,
            chunk: self.stripe_unit,
            name: "array".to_owned(),
            array: Uuid(0_u128.to_be_bytes()),
            now: Stamp::default(),
            consistency,
            clean: true,
        };
        let member = |(number, size): (u128, &Bytes)| NewMember { size: *size, member: Uuid(number.to_be_bytes()) };
        (new, (1..).zip(sizes).map(member).collect())
    }
}
