//! The mechanical disk.
//!
//! ```text
//!   geometry    which block is where on the surfaces, and at what angle
//!   seek        how long the arm takes from cylinder to cylinder
//!   rotation    where the platters are at any instant
//!   mechanism   the three together: from here to that sector; when does each sector of a scan pass the head
//! ```

pub mod cache;
pub mod diskspecs;
pub mod drive;
pub mod geometry;
pub mod mechanism;
pub mod parameters;
pub mod rotation;
pub mod score;
pub mod seek;
pub mod trace;
pub mod validate;
