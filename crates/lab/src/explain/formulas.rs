//! The constants of a modelled machine for the formulas of [`analysis::rounds::model`].
//!
//! They hold for disks on one string that have one random read each under way, as the run's experiment says. Each is
//! what the description gives:
//!
//! - a transfer T: from the disk's coming back to the bus to its completion message, data at the string's rate and the
//!   disk's pace, protocol included. Of a read that the operating system cuts into several commands, each has its own,
//!   and all but the first also their command;
//! - what a round costs besides, O: the first disk's command, and the disk's thinking about it;
//! - the medium's rate: a request divided by the time that it takes to pass the heads, head switches and seeks to the
//!   next cylinder included, averaged over the disk;
//! - seeks: to the next cylinder, over all, and the mean between random cylinders, of the disk's own curve;
//! - the fence: the share of a request that the disk has in its buffer when it asks for the bus.
//!
//! The host's own time between a completion and the next command is not in the formulas.

use std::rc::Rc;

use analysis::rounds::model::{Bus, Prediction, Seek};
use machine::disk::mechanism::{Access, Arm, Mechanism};
use machine::disk::parameters::Parameters;
use machine::entry::Way;
use machine::os::Os;
use machine::scsi::attached::Attached;
use machine::scsi::target::{BLOCK, Pauses, Target};
use machine::system::Machine;
use machine::trace::Trace;
use runtime::Runtime;
use units::{Bytes, Duration, Instant, Rate, Ratio};
use workload::{Load, Pattern};

use crate::experiment::Experiment;

/// The six bytes of a command, after the first.
const OTHER_BYTES: u64 = 5;

/// Requests, spread over the disk, whose passing of the heads is averaged.
const PLACES: u64 = 1024;

/// What the formulas give for the experiment of a kept run; nothing if it is none that they are of. An error says which
/// constant is outside their bounds.
pub(super) fn predict(experiment: &Experiment) -> Option<Result<Prediction, String>> {
    let (names, block) = applies(experiment)?;
    let system = experiment.system.as_ref()?;
    let machine = system.kit().ok()?.build(&Runtime::simulated(), 1, &Trace::default()).ok()?;
    let bus = bus(&machine, names, block)?;
    Some(bus.predict().map_err(|error| error.to_string()))
}

/// The disks and the size of the requests, if the load is what the formulas are of: one random read of each disk under
/// way.
fn applies(experiment: &Experiment) -> Option<(&[String], Bytes)> {
    let system = experiment.system.as_ref().filter(|system| system.way != Way::Array && system.disks.len() > 1)?;
    let [plan] = &experiment.streams[..] else { return None };
    let stream = &plan.stream;
    let alone = matches!(stream.load, Load::Closed { depth: 1, think } if think.is_zero());
    let random = stream.write_pattern.is_none() && matches!(stream.pattern, Pattern::Random | Pattern::RandomOnce);
    let all = plan.on.is_none() && plan.script.is_none() && plan.rate_limit.is_none();
    let reads = !stream.mix.has_writes() && stream.behind.is_none();
    let free =
        !stream.pipeline && !stream.lock_step && stream.turns.is_none_or(|turns| turns as usize >= system.disks.len());
    let everywhere = stream.region.start.is_zero() && stream.region.length.is_none() && stream.share.is_none();
    (alone && random && all && reads && free && everywhere).then_some(())?;
    Some((&system.disks, stream.sizes.single()?))
}

fn bus(machine: &Machine, names: &[String], block: Bytes) -> Option<Bus> {
    let first = machine.part::<Attached>(names.first()?)?;
    let drive = first.disk.drive();
    let alike = |name: &String| {
        let other = machine.part::<Attached>(name);
        other.is_some_and(|one| Rc::ptr_eq(&one.channel, &first.channel) && one.disk.drive().name == drive.name)
    };
    names.iter().all(alike).then_some(())?;
    let os = &machine.drive(&names[0])?.os;
    let (data, command) = times(&first, os, block, first.disk.pauses());
    let thinking = drive.overhead.request + drive.overhead.stop_read_ahead;
    let pieces = commands_of(os, block);
    let (commands, transfer) = (command + thinking, data + (command + thinking) * (pieces - 1));
    let blocks = block / BLOCK;
    let media = passing(&drive.mechanism, blocks);
    Some(Bus {
        disks: names.len() as u32,
        block,
        rate: Rate::bytes_per_second(block.get() as f64 / transfer.as_seconds()),
        media: Rate::bytes_per_second(block.get() as f64 / media),
        revolution: drive.mechanism.spindle.period(),
        seek: seek(&drive),
        fence: Ratio::new(drive.buffer.fill_mark(blocks) as f64 / blocks as f64),
        buffer: None,
        overhead: commands,
    })
}

/// Into how many commands the operating system cuts a request.
fn commands_of(os: &Os, block: Bytes) -> u64 {
    os.parameters.transfer_most.map_or(1, |most| block.get().div_ceil(most.get()))
}

/// How long the bus is held for the data of a request, in all its commands, and for one command.
fn times(disk: &Attached, os: &Os, block: Bytes, pauses: &Pauses) -> (Duration, Duration) {
    let (bus, answers) = (disk.channel.string.parameters(), &disk.channel.adapter.parameters.answers);
    let middle = |(least, most): (Duration, Duration)| (least + most) / 2;
    let pieces = commands_of(os, block);
    let blocks = block / BLOCK;
    let once = bus.rearbitration
        + bus.reselection
        + (answers.identify + answers.restore_pointer)
        + (middle(pauses.first_data) + answers.fifo)
        + (pauses.status + answers.status + answers.complete)
        + bus.release;
    // The first disks of a round send while their media still read ahead, the last no longer: half of them, as in the
    // middle of all.
    let pause = middle(pauses.block) + pauses.block_filling / 2 + pauses.status_per_block;
    let data = bus.byte_time * block.get() + pause * blocks + once * pieces;
    let command = bus.arbitration
        + bus.selection
        + pauses.identify
        + (answers.command_first + answers.command_other * OTHER_BYTES)
        + (answers.first_disconnect + bus.release);
    (data, command)
}

/// Seconds in which so many blocks pass the heads, averaged over the disk.
fn passing(mechanism: &Mechanism, blocks: u64) -> f64 {
    let places = mechanism.geometry.blocks().saturating_sub(blocks) + 1;
    let time = |index: u64| {
        // Multiples of the golden ratio lie evenly, and in step with no track.
        let share = (index as f64 * 0.618_033_988_749_894_9).fract();
        let first = ((places as f64 * share) as u64).min(places - 1);
        let at = Arm::on(mechanism.geometry.locate(first));
        let mut run = mechanism.run(at, Instant::START, first, Access::Read);
        let (begins, mut left) = (run.begins, blocks);
        while left > run.blocks {
            left -= run.blocks;
            let Some(next) = mechanism.next(&run, Access::Read) else { break };
            run = next;
        }
        run.passed(left).since(begins).as_seconds()
    };
    (0..PLACES).map(time).sum::<f64>() / PLACES as f64
}

/// The three times of the disk's seek curve: two random cylinders of C are d apart with probability 2 (C - d) / C^2.
fn seek(drive: &Parameters) -> Seek {
    let curve = &drive.mechanism.seek;
    let cylinders = drive.mechanism.geometry.cylinders();
    let all = f64::from(cylinders);
    let weighed = |distance: u32| 2.0 * (all - f64::from(distance)) / (all * all) * curve.time(distance).as_seconds();
    Seek {
        least: curve.time(1),
        mean: Duration::from_seconds((1..cylinders).map(weighed).sum()),
        greatest: curve.time(cylinders - 1),
    }
}

#[test]
fn formulas_are_of_one_free_random_read_of_each_disk() {
    let applied = |name: &str, change: &str| -> Vec<bool> {
        let source = crate::Source { name: name.into(), text: crate::find(name.as_ref()).unwrap().text };
        let settings: Vec<crate::Setting> = change.parse().into_iter().collect();
        let points = crate::read(&source, &settings).unwrap_or_else(|error| panic!("{error}"));
        points.iter().map(|point| applies(&point.experiment).is_some()).collect()
    };
    assert_eq!(applied("rounds/table-2", ""), [true; 3]);
    for change in ["lock-step=true", "region.length=20 MiB", "depth=2", "turns=1", "pipeline=true"] {
        assert_eq!(applied("rounds/table-2", &format!("stream.readers.{change}")), [false; 3], "{change}");
    }
}
