//! What a served array does when it is told to.

use std::collections::HashMap;
use std::rc::Rc;

use array::{MemberState, Repair};
use device::{AnyDevice, Device, Request};
use host::Kernel;
use host::guard::{Consent, create, permit};
use runtime::JoinHandle;
use serde_json::{Value, json};
use units::{Bytes, Rate};

use super::control::{Caller, NewPlace, Order};
use super::event::Event;
use super::keeper::{Keeper, LOOK};
use super::members::{Permits, in_use, to_write};
use super::upkeep::{Added, Done, Rebuild, Scrub, fill_from_within, former, identity, replaceable, spare};
use super::{Place, RaidError};
use crate::remote::{self, NoLeave};

/// Carries out an order; what comes back is what the command prints.
pub(super) async fn carry_out(keeper: &Rc<Keeper>, order: Order, caller: &Caller<'_>) -> Result<Value, RaidError> {
    match order {
        Order::Status => Ok(json!(keeper.service())),
        Order::Fail { member } => fail(keeper, &member).await.map(|done| json!(done)),
        Order::Rebuild { onto, rate } => rebuild(keeper, onto, rate, caller).await.map(|done| json!(done)),
        Order::Replace { member, onto, rate } => {
            replace(keeper, member, onto, rate, caller).await.map(|done| json!(done))
        }
        Order::Add { device, rate } => add(keeper, device, rate, caller).await.map(|added| json!(added)),
        Order::Scrub { repair, rate } => scrub(keeper, repair, rate, caller).await.map(|found| json!(found)),
    }
}

fn place(text: &str) -> Result<Place, RaidError> {
    text.parse().map_err(RaidError::Place)
}

fn done(keeper: &Keeper) -> Done {
    Done::of(&keeper.array)
}

async fn fail(keeper: &Keeper, member: &str) -> Result<Done, RaidError> {
    spare(&keeper.array, &place(member)?)?;
    keeper.look();
    // The others say so before this is answered.
    keeper.array.submit(Request::flush()).await.result.map_err(RaidError::Failed)?;
    Ok(done(keeper))
}

/// One upkeep at a time.
fn free(keeper: &Keeper) -> Result<(), RaidError> {
    match keeper.upkeep() {
        None => Ok(()),
        Some(upkeep) => Err(RaidError::Busy { what: upkeep.what, done: upkeep.done, of: upkeep.of }),
    }
}

/// Leave to write to a new place, the place opened, and where data are to begin on it.
async fn admit(keeper: &Keeper, new: &NewPlace) -> Result<(AnyDevice, Bytes), RaidError> {
    let place = place(&new.place)?;
    if in_use(&keeper.array).iter().any(|name| name.parse::<Place>().is_ok_and(|other| other.is_same(&place))) {
        return Err(RaidError::InUse { place });
    }
    let permits: Permits = match (&place, new.size) {
        (Place::Nbd(uri), _) => {
            // A member by another address carries a superblock.
            leave(keeper, uri, new.destroy_data).await?;
            HashMap::new()
        }
        (Place::Path(path), Some(size)) if !path.exists() => {
            let permit = create(path)?;
            let made = permit.file().set_len(size.get());
            made.map_err(|source| RaidError::NoFile { place: place.clone(), source })?;
            HashMap::from([(path.clone(), permit)])
        }
        (Place::Path(path), _) => {
            let consent = Consent { destroy_data: new.destroy_data, times_named: 1 };
            HashMap::from([(path.clone(), permit(&Kernel::running(), path, consent)?)])
        }
    };
    let made = permits.values().find(|permit| permit.created()).map(|permit| permit.path().to_owned());
    let fits = async {
        let device = to_write(&keeper.live, &place, &permits).await?;
        let data_offset = data_offset(keeper, &device)?;
        Ok::<_, RaidError>((device, data_offset))
    };
    let fits = fits.await.inspect_err(|_| {
        // A file that was made and does not fit is of no use. The error says more than one of removing it.
        made.iter().for_each(|path| drop(std::fs::remove_file(path)));
    })?;
    keeper.permits.borrow_mut().extend(permits);
    Ok(fits)
}

/// Leave to write to an export. A thread of its own looks what is there, as whoever looks waits, and clients are served meanwhile.
async fn leave(keeper: &Keeper, uri: &nbd::Uri, destroy_data: bool) -> Result<(), NoLeave> {
    let uri = uri.clone();
    let looking = std::thread::spawn(move || remote::may_write(&uri, destroy_data, 1));
    while !looking.is_finished() {
        keeper.live.runtime().sleep(LOOK).await;
    }
    looking.join().expect("whoever looks at an export comes to an end")
}

/// Where data begin on a new member, if they fit: where they begin on the others.
fn data_offset(keeper: &Keeper, device: &AnyDevice) -> Result<Bytes, RaidError> {
    let layout = keeper.array.member_layout().ok_or(RaidError::Failed(device::DeviceError::Gone))?;
    let (size, needed) = (device.shape().size, layout.data_offset + layout.used);
    if size < needed {
        let place = place(&device.shape().name)?;
        return Err(RaidError::TooSmall { place, size, needed });
    }
    Ok(layout.data_offset)
}

async fn rebuild(
    keeper: &Rc<Keeper>,
    onto: Option<NewPlace>,
    rate: Option<Rate>,
    caller: &Caller<'_>,
) -> Result<Rebuild, RaidError> {
    let all = 0..keeper.array.geometry().members();
    let rebuilding = all.clone().find(|member| matches!(keeper.array.state(*member), MemberState::Rebuilding(_)));
    if let (Some(member), None) = (rebuilding, &onto) {
        // The one under way is followed.
        return follow(keeper, member, None, rate, caller).await;
    }
    free(keeper)?;
    let member = keeper.missing().ok_or(RaidError::Complete)?;
    let owner = Rc::clone(keeper);
    let filling = if let Some(onto) = &onto {
        let (device, data_offset) = admit(keeper, onto).await?;
        let identity = identity()?;
        keeper.live.runtime().spawn(async move {
            owner.rebuild(member, owner.array.rebuild(member, device, data_offset, identity)).await
        })
    } else if !keeper.array.returning().is_empty() || !keeper.array.spares().is_empty() {
        keeper.live.runtime().spawn(async move {
            let filling = async { fill_from_within(&owner.array, member).await.unwrap_or(Ok(Vec::new())) };
            owner.rebuild(member, filling).await
        })
    } else {
        return Err(RaidError::NoReplacement { member });
    };
    follow(keeper, member, Some(filling), rate, caller).await
}

async fn replace(
    keeper: &Rc<Keeper>,
    member: Option<String>,
    onto: Option<NewPlace>,
    rate: Option<Rate>,
    caller: &Caller<'_>,
) -> Result<Rebuild, RaidError> {
    let (member, copying) = match (keeper.array.replacing(), member, onto) {
        (Some((member, _)), None, None) => (member, None),
        (_, Some(old), Some(onto)) => {
            free(keeper)?;
            let member = replaceable(&keeper.array, &place(&old)?)?;
            let (device, data_offset) = admit(keeper, &onto).await?;
            let (owner, identity) = (Rc::clone(keeper), identity()?);
            let copying = keeper.live.runtime().spawn(async move {
                owner.replace(member, owner.array.replace(member, device, data_offset, identity)).await
            });
            (member, Some(copying))
        }
        _ => return Err(RaidError::NotReplacing),
    };
    follow(keeper, member, copying, rate, caller).await
}

async fn add(keeper: &Rc<Keeper>, new: NewPlace, rate: Option<Rate>, caller: &Caller<'_>) -> Result<Added, RaidError> {
    let at = place(&new.place)?;
    if let Some((member, superblock)) = former(&keeper.live, &keeper.array, &at).await {
        free(keeper)?;
        let permits: Permits = match &at {
            Place::Path(path) => HashMap::from([(path.clone(), host::guard::member(&Kernel::running(), path)?)]),
            Place::Nbd(_) => HashMap::new(),
        };
        let device = to_write(&keeper.live, &at, &permits).await?;
        keeper.permits.borrow_mut().extend(permits);
        let owner = Rc::clone(keeper);
        let filling = keeper
            .live
            .runtime()
            .spawn(async move { owner.rebuild(member, owner.array.readd(device, &superblock)).await });
        let Rebuild { done, lost, interrupted, .. } = follow(keeper, member, Some(filling), rate, caller).await?;
        return Ok(Added { done, member: Some(member), returned: true, lost, interrupted });
    }
    let (device, _) = admit(keeper, &new).await?;
    let name = device.shape().name.clone();
    keeper.array.add_spare(device, identity()?).await.map_err(RaidError::Failed)?;
    keeper.tell(&Event::SpareAdded { device: name });
    let Some(member) = keeper.missing() else {
        let done = done(keeper);
        return Ok(Added { done, member: None, returned: false, lost: Vec::new(), interrupted: false });
    };
    // The keeper has seen it by then, and fills the member's place.
    keeper.live.runtime().sleep(LOOK).await;
    let Rebuild { done, lost, interrupted, .. } = follow(keeper, member, None, rate, caller).await?;
    Ok(Added { done, member: Some(member), returned: false, lost, interrupted })
}

/// Waits for the end of what is done to a member, by a task if that was begun for this, and says how it ended.
async fn follow(
    keeper: &Rc<Keeper>,
    member: usize,
    filling: Option<JoinHandle<Result<(), RaidError>>>,
    rate: Option<Rate>,
    caller: &Caller<'_>,
) -> Result<Rebuild, RaidError> {
    // What was spawned has its turn before this wakes again.
    keeper.live.runtime().sleep(LOOK).await;
    if rate.is_some() {
        keeper.array.limit(rate);
    }
    loop {
        if let Some(filled) = filling.as_ref().and_then(JoinHandle::take) {
            filled?;
            break;
        }
        let upkeep = keeper.upkeep().filter(|upkeep| upkeep.member == Some(member));
        if upkeep.is_none() && filling.is_none() {
            keeper.is_filled(member)?;
            break;
        }
        // A task that has begun none waits for its turn. Where nobody listens it goes on unwatched.
        if let Some(upkeep) = upkeep
            && caller.tell(upkeep).await.is_err()
        {
            break;
        }
        keeper.live.runtime().sleep(LOOK).await;
    }
    let ends = |range: std::ops::Range<Bytes>| (range.start.get(), range.end.get());
    Ok(Rebuild {
        done: done(keeper),
        member,
        lost: keeper.array.bad_ranges().into_iter().map(ends).collect(),
        interrupted: keeper.array.state(member) != MemberState::Active || keeper.array.replacing().is_some(),
    })
}

async fn scrub(keeper: &Rc<Keeper>, repair: bool, rate: Option<Rate>, caller: &Caller<'_>) -> Result<Scrub, RaidError> {
    free(keeper)?;
    let _turn = keeper.begin("scrub", None).await;
    if rate.is_some() {
        keeper.array.limit(rate);
    }
    keeper.tell(&Event::ScrubBegan);
    // Level 6 tells which block is wrong; elsewhere the data are believed, as md does.
    let how = Repair::usual(repair, keeper.array.geometry().level());
    let scrubbing = {
        let array = Rc::clone(&keeper.array);
        keeper.live.runtime().spawn(async move { array.scrub(how).await })
    };
    let found = loop {
        keeper.live.runtime().sleep(LOOK).await;
        if let Some(found) = scrubbing.take() {
            break found;
        }
        let told = match keeper.upkeep() {
            Some(upkeep) => caller.tell(upkeep).await,
            None => Ok(()),
        };
        if told.is_err() {
            // Nobody would read what was found.
            keeper.enough.set(true);
        }
    };
    keeper.end();
    let found = found.map_err(RaidError::Failed)?;
    keeper.tell(&Event::ScrubDone { mismatches: found.mismatches });
    Ok(Scrub::of(&keeper.array, found))
}
