//! The phases of a live request on its way through the kernel, as spans name them.
//!
//! They tile its time from the intended arrival on. The trace points that lie between them are named in brackets.

/// From the intended arrival until the program submits it.
pub const BEFORE: &str = "wait before submission";
/// From there until the kernel takes it out of the ring (`io_uring_submit_req`): the program gathers requests, or is
/// not at its turn. Only of requests that went through a ring, and are known there; else it is in the next one.
pub const RING: &str = "in the ring (submit to taken)";
/// From there until the block layer has it (`block_bio_queue`).
pub const SUBMIT: &str = "submit to queue";
/// Then the driver gets it (`block_rq_issue`).
pub const SCHEDULER: &str = "in the scheduler (queue to issue)";
/// The device has completed all of it (`block_rq_complete`).
pub const DEVICE: &str = "in the device (issue to complete)";
/// In place of the two before, of a device without requests of its own, such as zram, md or device mapper
/// (`block_bio_complete`).
pub const BIO: &str = "in the device (bio to complete)";
/// In place of the two before, of a device that has its requests done by others, such as a loop device, md or device
/// mapper: until the block layer has the request to the other one (`block_bio_queue`, `block_bio_remap`).
pub const DOWN: &str = "passed on (issue to queue below)";
/// And from when that one has completed it until the device itself has. Between the two the request is in the phases of
/// the other device.
pub const BACK: &str = "passed back (complete below to complete)";
/// Until its result is in the ring (`io_uring_complete`); where that is not known, it is in the next one.
pub const POSTED: &str = "wait to be posted (complete to ring)";
/// Until the program sees that.
pub const SEEN: &str = "wait to be seen (complete to seen)";

/// All of them, in the order in which a request passes them.
pub const ALL: [&str; 10] = [BEFORE, RING, SUBMIT, SCHEDULER, DEVICE, BIO, DOWN, BACK, POSTED, SEEN];
