//! Modelled machines, one folder a part.
//!
//! A modelled machine is a tree of parts. A part knows its own rules and parameters, and its neighbours only through
//! the interfaces that it is given. What stands here so far:
//!
//! - [`disk`]: the mechanical disk, its buffer and its queue; the importer of DiskSim drive files; the validation of a
//!   modelled drive against the measured response times of a real one.
//! - [`flash`]: the flash drive. [`standalone`]: either of them as a device of its own.
//! - [`part`]: the format of part files. [`library`]: those that come with the program. [`kit`]: a system with its
//!   parts; its tree of
//!   nodes. [`kinds`]: what can stand in a tree; [`component`]: what a kind says of itself. [`system`]: a machine put
//!   together of them.
//! - [`packet`]: links, switches and drives that send packets: PCI Express, SAS.
//! - [`controller`]: a RAID controller: a cache, a processor, and drives of its own.
//! - `system_bus`, `disk_array`: boards and buses without priorities, and disk arrays with controllers of their own.
//!   [`volume`]: the striping driver of an operating system.
//! - [`server`]: a network file server, a layer of the operating system; [`network`]: the way to its clients.
//! - [`endpoint`]: what carries out commands, whatever it is and wherever it stands.
//! - [`scsi`]: the bus with its phases, and a disk with a buffer as a target. [`adapter`], [`backplane`], [`memory`],
//!   [`cpu`], [`os`]: the way from there to a process. [`raid`]: the array of this project as the machine's RAID
//!   driver.
//! - [`capacity`]: what each node passes at most, and the narrowest cut.
//! - [`flow`]: how all of them share what carries them. [`trace`]: where a request's time went. [`load`]: how busy each
//!   part was.
//! - [`entry`]: the ways in, as devices.

pub mod adapter;
mod attendance;
pub mod backplane;
pub mod capacity;
pub mod component;
pub mod controller;
pub mod cpu;
pub mod disk;
mod disk_array;
mod driver;
pub mod endpoint;
pub mod entry;
pub mod filesystem;
pub mod flash;
pub mod flow;
mod joined;
pub mod kinds;
pub mod kit;
pub mod library;
pub mod lines;
pub mod load;
mod massbus;
pub mod memory;
mod mscp;
pub mod network;
pub mod os;
pub mod packet;
pub mod part;
pub mod raid;
pub mod scsi;
pub mod server;
pub mod standalone;
pub mod system;
mod system_bus;
pub mod trace;
mod track_buffer;
mod tree;
mod unbuffered;
pub mod volume;
