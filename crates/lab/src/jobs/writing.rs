//! What a job of fio writes as the content of a stream's writes.

use fio::{Direction, Fill, Job};
use units::Bytes;
use workload::Content;

/// Of a job that uses so much of its files, by requests of at least `smallest`. What is verified says what it is.
pub(super) fn content(job: &Job, length: Bytes, smallest: Bytes) -> Option<Content> {
    let Fill::Made(made) = &job.fill else { return None };
    if job.verify.is_some() || job.direction == Direction::Read {
        return None;
    }
    // As many buffers as the set has, of all that there is to be written.
    let set = made.set.map(|percent| (length / smallest) * u64::from(percent) / 100);
    Some(Content {
        pattern: made.pattern.clone(),
        compressible: made.compressible,
        segment: made.segment.unwrap_or(smallest),
        duplicates: made.duplicates,
        set: set.map(|set| set.max(1)),
        shared: made.shared.then_some(1),
    })
}
