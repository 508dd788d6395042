//! RAID, written once: the same code on real devices, on modelled ones and under simulated faults.
//!
//! The crate names no clock, no file and no thread. It is generic over `device::Device`, asks its runtime for
//! nothing but tasks and timers, and so cannot tell a disk from a simulation of one.

pub mod geometry;
