//! Modelled machines and drives among what is served: timing by the model, contents by a file, or none.

use std::fs::File;
use std::path::{Path, PathBuf};

use device::filter::Backed;
use device::{AnyDevice, Device, Diskless, Shape};
use host::guard::times_named;
use lab::pace::{Lateness, Pace};
use lab::served::{self, Offer, Served};
use units::Bytes;
use uring::Live;

use super::{Item, leave_to_write, open_file};
use crate::args::Serve;
use crate::fail::Failure;

/// The engine of a model.
pub const ENGINE: &str = "a model";

/// How a modelled drive is named among files.
const DRIVE: &str = "part:";

/// The name of a modelled drive, if a path is one.
pub fn drive_of(path: &Path) -> Option<&str> {
    path.to_str()?.strip_prefix(DRIVE)
}

/// The models that are to be served, and the clocks that they follow.
pub fn open(live: &Live, args: &Serve) -> Result<(Vec<Item>, Vec<Pace>), Failure> {
    let runtime = live.runtime();
    let (mut offers, mut paces): (Vec<(PathBuf, Offer)>, _) = (Vec::new(), Vec::new());
    if let Some(system) = &args.system {
        let parts = args.set.iter().map(|set| (set.part_key().to_owned(), set.value.clone())).collect();
        let served = Served { system: system.clone(), parts, way: args.way, disks: args.disks.clone() };
        let (pace, offered) = served::machine(runtime, &served).map_err(Failure::input)?;
        paces.push(pace);
        offers.extend(offered.into_iter().map(|offer| (PathBuf::from(system), offer)));
    }
    for (path, name) in args.paths.iter().filter_map(|path| Some((path, drive_of(path)?))) {
        let (pace, offer) = served::drive(runtime, name).map_err(Failure::input)?;
        paces.push(pace);
        offers.push((path.clone(), offer));
    }
    if !args.backing.is_empty() && offers.len() != 1 {
        return Err(Failure::input(anyhow::anyhow!(
            "a file can hold the contents of one modelled device, and {} are served; choose one with --disks",
            offers.len()
        )));
    }
    let alone = offers.len() == 1 && args.paths.iter().all(|path| drive_of(path).is_some());
    let items = offers.into_iter().map(|(path, offer)| {
        let Offer { name, what, device } = offer;
        let (contents, kept) = store(live, args, device.shape())?;
        Ok(Item {
            path,
            name: if alone { String::new() } else { name },
            device: AnyDevice::new(Backed::new(device, contents)),
            engine: ENGINE.to_owned(),
            reason: format!("{what}; {kept}"),
            left_out: Bytes::ZERO,
        })
    });
    Ok((items.collect::<Result<_, Failure>>()?, paces))
}

/// What holds the contents, and that in words.
fn store(live: &Live, args: &Serve, shape: &Shape) -> Result<(AnyDevice, String), Failure> {
    let Some((path, _)) = times_named(&args.backing).into_iter().next() else {
        let words = "it reads as zeroes, and of what is written the first 512 bytes are kept".to_owned();
        return Ok((AnyDevice::new(Diskless::new(live.runtime(), shape.clone())), words));
    };
    if !args.read_only && !path.exists() {
        make(&path, shape)?;
    }
    let named = times_named(&args.backing);
    let permits = if args.read_only { Default::default() } else { leave_to_write(&named, args.destroy_data)? };
    let file = open_file(live, &path, permits.get(&path), args.direct)?;
    if file.shape().size < shape.size {
        return Err(Failure::input(anyhow::anyhow!(
            "{} holds {}, and {} stores {}; give a file of that size, or the path of one that is to be made",
            path.display(),
            file.shape().size,
            shape.name,
            shape.size
        )));
    }
    let words = format!("its contents are in {}", path.display());
    Ok((AnyDevice::new(file), words))
}

/// A sparse file for what a device of that shape stores.
fn make(path: &Path, shape: &Shape) -> Result<(), Failure> {
    let file =
        File::create_new(path).map_err(|error| Failure::world(anyhow::anyhow!("{}: {error}", path.display())))?;
    file.set_len(shape.size.get()).map_err(|error| {
        let _ = std::fs::remove_file(path);
        Failure::world(anyhow::anyhow!(
            "{}: {error}; {} stores {}, so put the file where files of that size may lie (ext4 takes up to 16 TiB, XFS more)",
            path.display(),
            shape.name,
            shape.size
        ))
    })
}

/// How late the answers were, and what that says.
pub fn account(paces: &[Pace]) -> Option<String> {
    let late = paces.iter().map(Pace::lateness).fold(Lateness::default(), Lateness::plus);
    if late.answers == 0 {
        return None;
    }
    let (modelled, mean, most) = (late.modelled_mean(), late.mean(), late.most);
    let mut text =
        format!("answers took {modelled} by the model on the average, and came {mean} later, {most} at the most");
    if late.noticeable > 0 {
        text.push_str(&format!("; {} of {} were later than {}", late.noticeable, late.answers, lab::pace::NOTICEABLE));
    }
    if let Some(more) = late.fell_behind() {
        text.push_str(&format!(
            ": those of the {} requests that take time by the model took {:.0} percent more of it, and clients saw a slower machine",
            late.answers,
            more.as_percent()
        ));
    }
    Some(text)
}
