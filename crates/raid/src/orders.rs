//! What a served array does when it is told to.

use std::rc::Rc;

use array::{MemberState, Repair};
use device::{Device, Request};
use runtime::JoinHandle;
use serde_json::{Value, json};
use units::{Bytes, Rate};

use crate::control::{Caller, NewPlace, Order};
use crate::event::Event;
use crate::keeper::{Keeper, LOOK};
use crate::members::{data_offset, takes_blocks};
use crate::newcomer::{let_go, open_former, open_new, said_of};
use crate::scrub::{Before, Scrub, comparable, within};
use crate::upkeep::{
    Added, Done, Rebuild, fill_from_within, former, identity, is_unfinished, kept_flags, replaceable, spared,
    takes_spares,
};
use crate::{Place, RaidError};

/// What a scrub is called among the upkeep.
const SCRUB: &str = "scrub";

/// Carries out an order; what comes back is what the command prints.
pub(crate) async fn carry_out(keeper: &Rc<Keeper>, order: Order, caller: &Caller<'_>) -> Result<Value, RaidError> {
    if keeper.is_read_only() && !matches!(order, Order::Status | Order::EndScrub) {
        return Err(RaidError::ServedReadOnly);
    }
    match order {
        Order::Status => Ok(json!(keeper.service())),
        Order::Fail { member } => fail(keeper, &member).await.map(|done| json!(done)),
        Order::Rebuild { onto, rate } => rebuild(keeper, onto, rate, caller).await.map(|done| json!(done)),
        Order::Replace { member, onto, rate } => {
            replace(keeper, member, onto, rate, caller).await.map(|done| json!(done))
        }
        Order::Add { device, rate } => add(keeper, device, rate, caller).await.map(|added| json!(added)),
        Order::Scrub { repair, from, rate } => {
            scrub(keeper, (repair, from), rate, caller).await.map(|found| json!(found))
        }
        Order::EndScrub => {
            if keeper.upkeep().is_some_and(|upkeep| upkeep.what == SCRUB) {
                keeper.enough.set(true);
            }
            Ok(Value::Null)
        }
    }
}

fn place(text: &str) -> Result<Place, RaidError> {
    text.parse().map_err(RaidError::Place)
}

fn done(keeper: &Keeper) -> Done {
    Done::of(&keeper.array)
}

async fn fail(keeper: &Keeper, name: &str) -> Result<Done, RaidError> {
    if let called_off @ Some(_) = keeper.call_off(&place(name)?).await? {
        return Ok(Done { called_off, ..done(keeper) });
    }
    let is_lost = |place: &Place| {
        keeper.lost.borrow().iter().any(|name| name.parse::<Place>().is_ok_and(|other| other.is_same(place)))
    };
    let member = spared(&keeper.array, &place(name)?).map_err(|error| match error {
        RaidError::NoMember { place, .. } if is_lost(&place) => RaidError::FailedAlready { place },
        error => error,
    })?;
    // Without the member parity could no longer be made to fit: what the member held would be computed wrongly where a
    // write was cut off, and the array would not open once its server ends. Where the resync cannot go on, as a member
    // does not do what it is asked, that one is taken out all the same.
    let has_parity = keeper.array.geometry().level().parities() > 0;
    if has_parity && keeper.array.needs_resync() && keeper.upkeep().is_some() {
        return Err(RaidError::NotFitting { place: place(name)? });
    }
    keeper.array.fail(member);
    keeper.look();
    // The others say so before this is answered.
    keeper.array.submit(Request::flush()).await.result.map_err(RaidError::failed)?;
    Ok(done(keeper))
}

/// One upkeep at a time.
fn free(keeper: &Keeper) -> Result<(), RaidError> {
    match keeper.upkeep() {
        None => Ok(()),
        Some(upkeep) => Err(RaidError::Busy { what: upkeep.what, done: upkeep.done, of: upkeep.of }),
    }
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
        let_go(keeper, &place(&onto.place)?).await?;
        let (device, data_offset) = open_new(keeper, onto).await?;
        let identity = identity()?;
        keeper.live.runtime().spawn(async move {
            let name = device.shape().name.clone();
            let filling = owner.array.rebuild(member, device, data_offset, identity);
            owner.rebuild(member, Some(name), filling).await
        })
    } else if !keeper.array.returning().is_empty() || !keeper.array.spares().is_empty() {
        keeper.live.runtime().spawn(async move {
            let filling = async { fill_from_within(&owner.array, member).await.unwrap_or(Ok(Vec::new())) };
            owner.rebuild(member, None, filling).await
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
            let_go(keeper, &place(&onto.place)?).await?;
            let (device, data_offset) = open_new(keeper, &onto).await?;
            let (owner, identity) = (Rc::clone(keeper), identity()?);
            let copying = keeper.live.runtime().spawn(async move {
                let name = device.shape().name.clone();
                owner.replace(member, name, owner.array.replace(member, device, data_offset, identity)).await
            });
            (member, Some(copying))
        }
        _ => return Err(RaidError::NotReplacing),
    };
    follow(keeper, member, copying, rate, caller).await
}

async fn add(keeper: &Rc<Keeper>, new: NewPlace, rate: Option<Rate>, caller: &Caller<'_>) -> Result<Added, RaidError> {
    let at = place(&new.place)?;
    let_go(keeper, &at).await?;
    if let Some((member, superblock)) = former(&keeper.live, &keeper.array, &at, new.destroy_data).await? {
        free(keeper)?;
        let device = open_former(keeper, &at).await?;
        takes_blocks(&keeper.array, &at, &device, superblock.data_offset)?;
        let owner = Rc::clone(keeper);
        let filling = keeper.live.runtime().spawn(async move {
            let name = device.shape().name.clone();
            owner.rebuild(member, Some(name), owner.array.readd(device, &superblock)).await
        });
        let Rebuild { done, lost, interrupted, .. } = follow(keeper, member, Some(filling), rate, caller).await?;
        return Ok(Added { done, member: Some(member), returned: true, lost, interrupted });
    }
    takes_spares(keeper.level(), keeper.array.geometry().members())?;
    // What cannot come back by the bitmap is filled whole. What it carries is the array's own.
    let said = if new.destroy_data { None } else { said_of(keeper, &at).await };
    let flags = kept_flags(&keeper.array, said.clone());
    let device = match said {
        Some(_) => {
            let device = open_former(keeper, &at).await?;
            data_offset(&keeper.array, &at, &device)?;
            device
        }
        None => open_new(keeper, &new).await?.0,
    };
    let name = device.shape().name.clone();
    keeper.array.add_flagged_spare(device, identity()?, flags).await.map_err(RaidError::failed)?;
    keeper.tell(&Event::SpareAdded { device: name });
    if rate.is_some() && free(keeper).is_ok() {
        keeper.array.limit(rate);
    }
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
    let slow_down = || {
        if rate.is_some() {
            keeper.array.limit(rate);
        }
    };
    slow_down();
    // What was spawned has its turn before this wakes again. Something else that ended meanwhile has taken the limit
    // away.
    keeper.live.runtime().sleep(LOOK).await;
    slow_down();
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
        interrupted: is_unfinished(&keeper.array, member),
    })
}

async fn scrub(
    keeper: &Rc<Keeper>,
    (repair, from): (bool, Bytes),
    rate: Option<Rate>,
    caller: &Caller<'_>,
) -> Result<Scrub, RaidError> {
    free(keeper)?;
    comparable(&keeper.array)?;
    within(&keeper.array, from)?;
    let _turn = keeper.begin(SCRUB, None).await;
    if rate.is_some() {
        keeper.array.limit(rate);
    }
    keeper.tell(&Event::ScrubBegan);
    // Level 6 tells which block is wrong; elsewhere the data are believed, as md does.
    let how = Repair::usual(repair, keeper.array.geometry().level());
    // What a resync could not read of them may be there by now.
    let was_due = keeper.array.needs_resync();
    let scrubbing = {
        let array = Rc::clone(&keeper.array);
        keeper.live.runtime().spawn(async move {
            let before = Before::made_to_fit(&array).await?;
            Ok((array.scrub_from(how, from).await?, before))
        })
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
    if was_due && !keeper.array.needs_resync() {
        keeper.tell(&Event::ResyncDone);
    }
    let (found, before) = found.map_err(|error| {
        let error = RaidError::failed(error);
        keeper.tell(&Event::ScrubFailed { cause: error.to_string() });
        error
    })?;
    let (upto, mismatches) = (found.upto, found.mismatches);
    let found = Scrub::of(&keeper.array, found, (how, from), before);
    keeper.tell(&match upto < keeper.array.geometry().size() {
        true => Event::ScrubEnded { upto, mismatches },
        false => Event::of_scrub(&found),
    });
    Ok(found)
}
