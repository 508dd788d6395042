//! One command, from arbitration to completion.
//!
//! ```text
//!   arbitration, selection, message out (identify), command
//!     then data at once, or message in (disconnect) and bus free
//!   arbitration, reselection, message in (identify, restore pointer), data
//!     until done, or message in (save pointer, disconnect) and bus free, and again
//!   status, message in (command complete), bus free
//! ```
//!
//! A disconnection before any data has moved carries no SAVE DATA POINTER message. The initiator keeps two sets of
//! pointers; as the model moves no bytes, the pointers are the counts of blocks that have moved and that were saved,
//! and restoring them after a reselection must give back what was saved, which is asserted.

use std::future::Future;

use runtime::Runtime;
use units::Duration;

use super::phase::Phase;
use super::string::{Claim, ScsiString, Tenure};
use super::target::{Command, Next, Target};
use crate::trace::Ledger;

/// How long the initiator takes to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answers {
    /// The first byte of the command.
    pub command_first: Duration,
    /// Each of the others.
    pub command_other: Duration,
    /// The message to disconnect before data has moved.
    pub first_disconnect: Duration,
    /// To save the pointers.
    pub save_pointer: Duration,
    /// The message to disconnect after that.
    pub disconnect: Duration,
    /// To identify who comes back.
    pub identify: Duration,
    /// To restore the pointers.
    pub restore_pointer: Duration,
    /// Until data flow once the first bytes of a data phase are in the FIFO.
    pub fifo: Duration,
    /// The status byte.
    pub status: Duration,
    /// The message that the command is complete.
    pub complete: Duration,
}

/// The initiator's side of a transfer.
pub trait Port {
    /// Its address on the bus.
    fn id(&self) -> u8;
    /// It does not take the bus for a command while any target wants it.
    fn gives_way(&self) -> bool;
    /// It serves its devices in turn, and not its commands in the order in which they came.
    fn in_turn(&self) -> bool;
    /// How long it takes to answer.
    fn answers(&self) -> &Answers;
    /// How many blocks it takes or gives before it has to do something else. Not zero.
    fn room(&self) -> u64;
    /// Moves blocks over the bus, with whatever the initiator makes the bus wait for.
    fn pass(&mut self, blocks: u64, write: bool) -> impl Future<Output = ()>;
    /// From now on the target pauses for so long after each block.
    fn pace(&mut self, pause: Duration);
    /// The target has let go of the bus.
    fn put_down(&mut self);
}

/// What one command did on the bus.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passage {
    /// How often a device took the bus.
    pub tenures: u32,
    /// How often the target let go of it before it was done.
    pub disconnects: u32,
    /// Save-pointer messages.
    pub saves: u32,
    /// Pauses of the target and of the initiator while they held the bus, data bytes at full rate not counted.
    pub target_pauses: Duration,
    /// See [`Passage::target_pauses`].
    pub initiator_pauses: Duration,
    /// Arbitration, selection and release.
    pub bus_overhead: Duration,
    /// Blocks moved before the first disconnection.
    pub first_burst: u64,
}

impl Passage {
    /// What two commands did, one after the other, as parts of one request.
    #[must_use]
    pub fn and(&self, next: &Passage) -> Passage {
        Passage {
            tenures: self.tenures + next.tenures,
            disconnects: self.disconnects + next.disconnects,
            saves: self.saves + next.saves,
            target_pauses: self.target_pauses + next.target_pauses,
            initiator_pauses: self.initiator_pauses + next.initiator_pauses,
            bus_overhead: self.bus_overhead + next.bus_overhead,
            first_burst: self.first_burst,
        }
    }
}

/// Six bytes, as all commands of the studies have.
const COMMAND_BYTES: u64 = 6;

/// Carries out a command over the bus.
pub async fn execute<P: Port>(
    runtime: &Runtime,
    string: &ScsiString,
    port: &mut P,
    target: &dyn Target,
    command: Command,
    ledger: &mut Ledger,
) -> Passage {
    assert!(command.blocks > 0, "a command moves something");
    let (bus, pauses, answers) = (*string.parameters(), *target.pauses(), *port.answers());
    let mut passage = Passage::default();
    let mut talk = Talk { ledger, passage: &mut passage };
    let (mut moved, mut saved) = (0, 0);

    // Drawn only where there is a range: a target without one makes the same choices as before.
    let pace = if pauses.block.1.is_zero() { Duration::ZERO } else { target.draw(pauses.block.0, pauses.block.1) };
    let turn = port.in_turn().then(|| target.id());
    let claim = Claim { id: port.id(), gives_way: port.gives_way(), turn, delay: bus.arbitration };
    let mut tenure = string.acquire(claim, talk.ledger).await;
    talk.passage.tenures += 1;
    talk.bus(&mut tenure, Phase::Selection, bus.selection);
    talk.target(&mut tenure, Phase::MessageOut, pauses.identify);
    talk.initiator(&mut tenure, Phase::Command, answers.command_first + answers.command_other * (COMMAND_BYTES - 1));
    let (thinking, mut next) = target.accept(tenure.cursor(), command);
    talk.target(&mut tenure, Phase::Command, thinking);
    loop {
        if next == Next::Data {
            talk.target(&mut tenure, Phase::DataTransfer, target.draw(pauses.first_data.0, pauses.first_data.1));
            talk.initiator(&mut tenure, Phase::DataTransfer, answers.fifo);
            tenure.catch_up().await;
            let (before, mut paced) = (moved, Duration::ZERO);
            loop {
                let blocks = target.transferable(runtime.now()).min(port.room());
                if blocks == 0 {
                    let Some(next_block) = target.holds_until(runtime.now()) else { break };
                    runtime.sleep_until(next_block).await;
                    continue;
                }
                // Looked at once for each buffer of the port.
                let filling = !pauses.block_filling.is_zero() && target.fills(runtime.now());
                let pace = if filling { pace + pauses.block_filling } else { pace };
                port.pace(pace);
                port.pass(blocks, command.write).await;
                paced += pace * blocks;
                target.transferred(runtime.now(), blocks);
                moved += blocks;
            }
            let wire = bus.byte_time * (super::target::BLOCK * (moved - before)).get();
            let phase = runtime.now().since(tenure.cursor());
            talk.passage.target_pauses += paced;
            talk.passage.initiator_pauses += phase.saturating_sub(wire + paced);
            tenure.until_now(Phase::DataTransfer, talk.ledger);
            next = target.after_data(runtime.now());
            assert!(next != Next::Data, "a target that can move data goes on");
            if talk.passage.disconnects == 0 {
                talk.passage.first_burst = moved;
            }
        }
        if next == Next::Status {
            break;
        }
        if moved > saved {
            talk.target(&mut tenure, Phase::DataTransfer, target.draw(pauses.save_pointer.0, pauses.save_pointer.1));
            talk.initiator(&mut tenure, Phase::MessageIn, answers.save_pointer + answers.disconnect);
            talk.passage.saves += 1;
            saved = moved;
        } else {
            talk.initiator(&mut tenure, Phase::MessageIn, answers.first_disconnect);
        }
        if command.write {
            talk.target(&mut tenure, Phase::Release, pauses.release_writing);
        }
        talk.bus(&mut tenure, Phase::Release, bus.release);
        talk.passage.disconnects += 1;
        tenure.catch_up().await;
        drop(tenure);
        port.put_down();

        let back = target.reconnect_at(runtime.now());
        runtime.sleep_until(back).await;
        target.explain(runtime.now(), talk.ledger);
        tenure = string.acquire(Claim::at_once(target.id(), bus.rearbitration), talk.ledger).await;
        talk.passage.tenures += 1;
        talk.bus(&mut tenure, Phase::Reselection, bus.reselection);
        talk.initiator(&mut tenure, Phase::MessageIn, answers.identify + answers.restore_pointer);
        assert_eq!(moved, saved, "the restored pointer is where the transfer stopped");
        next = target.after_reselection(tenure.cursor());
        assert!(next != Next::Disconnect, "a target comes back only when it wants something");
    }
    assert_eq!(moved, command.blocks, "a command is complete when all of it has moved");
    // A read's lines still say data while the disk prepares the status; a write comes back for it.
    let phase = if command.write { Phase::Status } else { Phase::DataTransfer };
    let status = if command.write { Duration::ZERO } else { pauses.status + pauses.status_per_block * command.blocks };
    talk.target(&mut tenure, phase, status);
    talk.initiator(&mut tenure, Phase::Status, answers.status);
    talk.initiator(&mut tenure, Phase::MessageIn, answers.complete);
    talk.bus(&mut tenure, Phase::Release, bus.release);
    tenure.catch_up().await;
    drop(tenure);
    port.put_down();
    passage
}

/// Accounts for a step to the bus, to the request, and to whoever took the time.
struct Talk<'t> {
    ledger: &'t mut Ledger,
    passage: &'t mut Passage,
}

impl Talk<'_> {
    fn bus(&mut self, tenure: &mut Tenure, phase: Phase, time: Duration) {
        self.passage.bus_overhead += time;
        tenure.spend(phase, time, self.ledger);
    }
    fn target(&mut self, tenure: &mut Tenure, phase: Phase, time: Duration) {
        self.passage.target_pauses += time;
        tenure.spend(phase, time, self.ledger);
    }
    fn initiator(&mut self, tenure: &mut Tenure, phase: Phase, time: Duration) {
        self.passage.initiator_pauses += time;
        tenure.spend(phase, time, self.ledger);
    }
}
