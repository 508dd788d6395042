//! The mechanical disk.
//!
//! ```text
//!   geometry    which block is where on the surfaces, and at what angle
//!   seek        how long the arm takes from cylinder to cylinder
//!   rotation    where the platters are at any instant
//!   mechanism   the three together: from here to that sector; when does each sector of a scan pass the head
//!   cache       the buffer as segments of blocks
//!   drive       a request at a time: what the controller makes of it, from command to completion; at once, or in steps on a bus that others share
//!   queue       which waiting request comes next
//!   controller  a drive with a queue; queued: who turns it under the virtual clock
//!   kind        a disk in a tree
//!
//!   parameters  what makes one drive differ from another, out of its part
//!   diskspecs   DiskSim's drive files into parts
//!
//!   trace       measured requests
//!   validate    a modelled drive held against them; score: by how much they differ
//! ```

pub mod cache;
pub mod controller;
pub mod diskspecs;
pub mod drive;
pub mod geometry;
pub mod kind;
pub mod mechanism;
pub mod parameters;
pub mod queue;
pub mod queued;
pub mod rotation;
pub mod score;
pub mod seek;
pub mod trace;
pub mod validate;
