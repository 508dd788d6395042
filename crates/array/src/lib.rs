//! RAID, written once: the same code on real devices, on modelled ones and under simulated faults.
//!
//! The crate names no clock, no file and no thread. [`geometry`] says where things lie, [`md`] what Linux keeps on the members
//! about it.

pub mod geometry;
pub mod md;
