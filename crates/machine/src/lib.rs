//! Modelled machines, one folder a part.
//!
//! A modelled machine is a tree of parts. A part knows its own rules and parameters, and its neighbours only through the
//! interfaces that it is given. What stands here so far:
//!
//! - [`disk`]: the mechanical disk, its buffer and its queue; the importer of DiskSim drive files; the validation of a
//!   modelled drive against the measured response times of a real one.

pub mod disk;
pub mod part;
