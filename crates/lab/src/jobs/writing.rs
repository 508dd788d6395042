//! What a job of fio writes as the content of a stream's writes, and what it looks for when it verifies.

use std::fs::File;
use std::io::{Error, Read};

use fio::{Direction, Fill, Job, Piece};
use units::Bytes;
use workload::{Content, Known};

use crate::jobs::PlanError;

/// Of a job that uses so much of its files, by requests of at least `smallest`. What is verified says what it is.
pub(super) fn content(job: &Job, length: Bytes, smallest: Bytes) -> Result<Option<Content>, PlanError> {
    let Fill::Made(made) = &job.fill else { return Ok(None) };
    if job.verify.is_some() || job.direction == Direction::Read {
        return Ok(None);
    }
    // As many buffers as the set has, of all that there is to be written.
    let set = made.set.map(|percent| (length / smallest) * u64::from(percent) / 100);
    Ok(Some(Content {
        pattern: bytes(job, &made.pattern)?,
        compressible: made.compressible,
        segment: made.segment.unwrap_or(smallest),
        duplicates: made.duplicates,
        set: set.map(|set| set.max(1)),
        shared: made.shared.then_some(1),
    }))
}

/// The pattern that it verifies.
pub(super) fn known(job: &Job) -> Result<Option<Known>, PlanError> {
    Ok(match &job.known {
        None => None,
        Some(fio::Known::Whole(pieces)) => Some(Known::Whole(bytes(job, pieces)?)),
        Some(fio::Known::Behind(pieces)) => Some(Known::Behind(bytes(job, pieces)?)),
    })
}

/// A pattern with what its files hold, as far as fio takes it.
fn bytes(job: &Job, pieces: &[Piece]) -> Result<Vec<u8>, PlanError> {
    let mut bytes = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Bytes(more) => bytes.extend(more),
            Piece::File(name) => {
                let path = fio::bytes::path(name);
                let left = fio::content::LONGEST.saturating_sub(bytes.len()) as u64;
                let read = File::open(&path).and_then(|file| file.take(left).read_to_end(&mut bytes));
                let read = read.and_then(|read| if read == 0 { Err(Error::other("it is empty")) } else { Ok(read) });
                read.map_err(|error| PlanError::Pattern {
                    place: job.place.clone(),
                    job: job.name.clone(),
                    path,
                    error,
                })?;
            }
        }
    }
    bytes.truncate(fio::content::LONGEST);
    Ok(bytes)
}
