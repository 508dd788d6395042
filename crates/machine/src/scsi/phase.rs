//! What a bus analyzer tells apart.
//!
//! The analyzer sees the control lines, not REQ and ACK: a pause of either side is part of the phase in which it falls.
//! So the disk's pause before the first data byte is data transfer, and so is its pause before the status phase; a
//! pause before the first message after the command belongs to the command phase. "Disconnect / reconnect" is the time
//! in which the lines are being released.

use std::cell::Cell;

use units::Duration;

/// A phase of the bus; everything else is bus free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Devices that want the bus put their addresses on it.
    Arbitration,
    /// The initiator addresses the target.
    Selection,
    /// The initiator tells which unit it means and that it can be disconnected.
    MessageOut,
    /// The command's bytes, and the target's thinking about them.
    Command,
    /// Data in or out, and all pauses while the lines say so.
    DataTransfer,
    /// Save pointer, disconnect, identify, restore pointer, command complete.
    MessageIn,
    /// The target comes back to the initiator.
    Reselection,
    /// The status byte.
    Status,
    /// Lines being released.
    Release,
}

impl Phase {
    /// All of them.
    pub const ALL: [Phase; 9] = [
        Phase::Arbitration,
        Phase::Selection,
        Phase::MessageOut,
        Phase::Command,
        Phase::DataTransfer,
        Phase::MessageIn,
        Phase::Reselection,
        Phase::Status,
        Phase::Release,
    ];

    /// The name in spans and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Arbitration => "arbitration",
            Phase::Selection => "selection",
            Phase::MessageOut => "message-out",
            Phase::Command => "command",
            Phase::DataTransfer => "data-transfer",
            Phase::MessageIn => "message-in",
            Phase::Reselection => "reselection",
            Phase::Status => "status",
            Phase::Release => "disconnect-reconnect",
        }
    }
}

/// How long a bus was in each phase.
#[derive(Debug, Clone, Default)]
pub struct PhaseTable {
    times: [Cell<u64>; Phase::ALL.len()],
}

impl PhaseTable {
    /// Adds time in a phase.
    pub fn add(&self, phase: Phase, time: Duration) {
        let cell = &self.times[phase as usize];
        cell.set(cell.get() + time.as_nanos());
    }
    /// Time in a phase.
    pub fn time(&self, phase: Phase) -> Duration {
        Duration::nanos(self.times[phase as usize].get())
    }
    /// Time in any phase: the bus was not free.
    pub fn busy(&self) -> Duration {
        Phase::ALL.iter().map(|phase| self.time(*phase)).sum()
    }
    /// Forgets everything.
    pub fn clear(&self) {
        self.times.iter().for_each(|cell| cell.set(0));
    }
}
