//! The kinds of parts that can stand in a tree, each in a file of its own. A new kind is that file, and a line here.

use crate::component::Kind;
use crate::{
    adapter, backplane, controller, cpu, disk, disk_array, driver, filesystem, massbus, memory, mscp, network, os,
    packet, scsi, server, system_bus, unbuffered, volume,
};

/// All kinds. In the order in which the ladder tries them.
pub const KINDS: [&Kind; 29] = [
    &memory::KIND,
    &cpu::KIND,
    &os::KIND,
    &filesystem::KIND,
    &driver::KIND,
    &server::KIND,
    &network::TOKEN_RING,
    &network::ETHERNET,
    &network::ADAPTER,
    &network::CLIENTS,
    &volume::KIND,
    &system_bus::KIND,
    &system_bus::BOARD,
    &backplane::KIND,
    &adapter::KIND,
    &scsi::string::KIND,
    &packet::pcie::ROOT,
    &packet::pcie::SWITCH,
    &packet::sas::HBA,
    &packet::sas::SCSI,
    &packet::sas::EXPANDER,
    &massbus::KIND,
    &mscp::KIND,
    &controller::KIND,
    &disk_array::KIND,
    &disk::kind::KIND,
    &unbuffered::KIND,
    &packet::drive::FLASH,
    &packet::drawn::DISK,
];

/// The kind of that name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.into_iter().find(|kind| kind.name == name)
}
