//! What is to become part of an array that is served: leave to write to it, and whether it fits.

use array::md::Superblock;
use device::AnyDevice;
use host::Kernel;
use host::guard::{self, Consent, WritePermit};
use nbd::remote::{self, NoLeave};
use units::Bytes;

use crate::alias::{apart, told_from_members};
use crate::control::NewPlace;
use crate::held::Held;
use crate::keeper::{Keeper, LOOK};
use crate::members::{data_offset, in_use, now, superblock, to_read};
use crate::own::leads_to;
use crate::{Place, RaidError};

/// How often it is looked whether everything is answered that was sent to a device.
const LOOKS: u32 = 10;

/// Has the server let go of a place that it does not use, if it still holds it. Its own exports are refused here,
/// before anybody connects to them.
pub(crate) async fn let_go(keeper: &Keeper, place: &Place) -> Result<(), RaidError> {
    if let Place::Nbd(uri) = place
        && leads_to(uri, &keeper.listening.borrow())
    {
        return Err(RaidError::Own { place: place.clone() });
    }
    let is_it = |name: &str| name.parse::<Place>().is_ok_and(|other| other.is_same(place));
    if in_use(&keeper.array).iter().any(|name| is_it(name)) {
        return Err(RaidError::InUse { place: place.clone() });
    }
    keeper.array.let_go_of_stale(is_it);
    for _ in 0..LOOKS {
        keeper.let_go();
        if !keeper.held.borrow().iter().any(|held| held.is_at(place)) {
            return Ok(());
        }
        keeper.live.runtime().sleep(LOOK).await;
    }
    Err(RaidError::Unanswered { place: place.clone() })
}

/// What a place says, if it was part of this array: what it carries is the array's own.
pub(crate) async fn said_of(keeper: &Keeper, place: &Place) -> Option<Superblock> {
    let read = async { superblock(place, &to_read(&keeper.live, place).await?).await };
    read.await.ok().filter(|superblock| keeper.array.is_of(superblock))
}

/// Opens a former member of the array, to be written as such. The server has [let go](let_go) of it.
pub(crate) async fn open_former(keeper: &Keeper, place: &Place) -> Result<AnyDevice, RaidError> {
    let permit = match place {
        Place::Path(path) => Some(guard::member(&Kernel::running(), path)?),
        Place::Nbd(_) => None,
    };
    hold(keeper, place, permit).await
}

/// Opens a new place, if it may be written and a member fits, and says where data are to begin on it. The server has
/// [let go](let_go) of it.
pub(crate) async fn open_new(keeper: &Keeper, new: &NewPlace) -> Result<(AnyDevice, Bytes), RaidError> {
    let place: Place = new.place.parse().map_err(RaidError::Place)?;
    let used: Vec<Place> = in_use(&keeper.array).iter().filter_map(|name| name.parse().ok()).collect();
    apart(&[&place], &used.iter().collect::<Vec<_>>())?;
    let permit = match (&place, new.size) {
        (Place::Nbd(uri), _) => {
            // A member by another address carries a superblock.
            leave(keeper, uri, new).await?;
            None
        }
        (Place::Path(path), Some(size)) if !path.exists() => Some(guard::create_sized(path, size)?),
        (Place::Path(path), _) => {
            let consent = Consent { destroy_data: new.destroy_data, times_named: new.times_named };
            Some(guard::permit(&Kernel::running(), path, consent)?)
        }
    };
    let made = permit.as_ref().filter(|permit| permit.created()).map(|permit| permit.path().to_owned());
    let fits = async {
        let device = hold(keeper, &place, permit).await?;
        told_from_members(&keeper.array, &place, &device).await?;
        let data_offset = data_offset(&keeper.array, &place, &device)?;
        Ok::<_, RaidError>((device, data_offset))
    };
    fits.await.inspect_err(|_| {
        keeper.let_go();
        // A file that was made and does not fit is of no use. The error says more than one of removing it.
        made.iter().for_each(|path| drop(std::fs::remove_file(path)));
    })
}

async fn hold(keeper: &Keeper, place: &Place, permit: Option<WritePermit>) -> Result<AnyDevice, RaidError> {
    let (held, device) = Held::open(&keeper.live, place, permit, keeper.time_limit, keeper.counted).await?;
    keeper.held.borrow_mut().push(held);
    if matches!(place, Place::Nbd(_)) {
        keeper.array.look_out(now());
    }
    Ok(device)
}

/// Leave to write to an export. A thread of its own looks what is there, as whoever looks waits, and clients are served
/// meanwhile.
async fn leave(keeper: &Keeper, uri: &nbd::Uri, new: &NewPlace) -> Result<(), NoLeave> {
    let (uri, destroy_data, times_named) = (uri.clone(), new.destroy_data, new.times_named as usize);
    let within = keeper.time_limit;
    let looking = std::thread::spawn(move || remote::may_write(&uri, destroy_data, times_named, within));
    while !looking.is_finished() {
        keeper.live.runtime().sleep(LOOK).await;
    }
    looking.join().expect("whoever looks at an export comes to an end")
}
