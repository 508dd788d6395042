//! A modelled drive held against the measured response times of a real one, as people and scripts read it.
//!
//! What the demerit is and how the trace is replayed stands in [`machine::disk::score`] and
//! [`machine::disk::validate`]. One number does not say what a model has wrong, so beside it stand the requests of each
//! kind that the model saw (hit, miss, ...), and the worst of them one by one, with where the model thinks their time
//! went.

mod text;

use std::path::Path;

use machine::disk::diskspecs::{ImportError, import_files};
use machine::disk::drive::{Drive, Outcome};
use machine::disk::mechanism::Access;
use machine::disk::parameters::Parameters;
use machine::disk::score::Score;
use machine::disk::trace::{self, Measured, TraceError};
use machine::disk::validate::{Replayed, replay};
use machine::library::{LibraryError, Shelf};
use machine::part::{Part, PartError};
use report::distribution::{Curve, Panel, distributions};
use serde::Serialize;
use units::Duration;

/// How many of the worst requests are shown.
const WORST: usize = 20;

/// Why a validation cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // each says where and what itself
pub enum ValidationError {
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error(transparent)]
    Part(#[from] PartError),
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// The drive that a name means: a part that comes with the program, a part file, or a `.diskspecs` file, imported on
/// the way.
pub fn drive(name: &str) -> Result<Part, ValidationError> {
    let path = Path::new(name);
    match path.extension() {
        Some(extension) if extension == "diskspecs" => Ok(import_files(path, None, None)?.part),
        _ => Ok(Shelf::Parts.find(name)?),
    }
}

/// Demerits in milliseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Demerit {
    /// Of all requests.
    pub pooled: f64,
    /// Of the reads, if there are any.
    pub reads: Option<f64>,
    /// Of the writes, if there are any.
    pub writes: Option<f64>,
}

/// Requests of one kind, as the model saw them.
#[derive(Debug, Clone, Serialize)]
pub struct Kind {
    /// What became of them.
    pub outcome: &'static str,
    /// How many.
    pub requests: usize,
    /// Mean of the measured times.
    pub measured_mean_ms: f64,
    /// Mean of the modelled times.
    pub modelled_mean_ms: f64,
    /// Root mean square of modelled minus measured.
    pub rms_error_ms: f64,
}

/// A request, and what the model thinks happened to it.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // times of what their names say
pub struct Told {
    /// Line of the trace.
    pub line: u32,
    pub operation: &'static str,
    pub block: u64,
    pub blocks: u64,
    pub measured_ms: f64,
    pub modelled_ms: f64,
    pub outcome: &'static str,
    pub command_ms: f64,
    pub waiting_ms: f64,
    pub cylinders: u32,
    pub seek_ms: f64,
    pub rotation_ms: f64,
    pub transfer_ms: f64,
}

/// The result.
#[derive(Debug, Clone, Serialize)]
pub struct Validation {
    /// The drive, as it was named.
    pub drive: String,
    /// The trace, as it was named.
    pub trace: String,
    /// Maker and model.
    pub name: String,
    /// How far the drive's values are to be trusted.
    pub status: String,
    /// How many requests the trace holds.
    pub requests: usize,
    /// The demerits.
    pub demerit_ms: Demerit,
    /// Modelled mean against measured mean, as a signed share of the latter.
    pub mean_error: f64,
    /// Root mean square of modelled minus measured, request by request.
    pub rms_error_ms: f64,
    /// Pearson's, request by request; none if one of the two series is constant.
    pub correlation: Option<f64>,
    /// Mean of the measured times.
    pub measured_mean_ms: f64,
    /// Mean of the modelled times.
    pub modelled_mean_ms: f64,
    /// By what became of them.
    pub outcomes: Vec<Kind>,
    /// Those that are furthest off, the worst first.
    pub worst: Vec<Told>,
    #[serde(skip)]
    samples: Vec<Sample>,
}

/// All requests, the reads, or the writes: their times and their score.
#[derive(Debug, Clone)]
struct Sample {
    title: &'static str,
    measured: Vec<Duration>,
    modelled: Vec<Duration>,
    score: Score,
}

/// Replays a trace on a drive and compares.
pub fn validate(drive_name: &str, trace_name: &str) -> Result<Validation, ValidationError> {
    let part = drive(drive_name)?;
    let parameters = Parameters::read(&part)?;
    let requests = trace::load(Path::new(trace_name), parameters.mechanism.geometry.blocks())?;
    let replayed = replay(&mut Drive::new(parameters), &requests);
    let samples: Vec<Sample> = [("all", None), ("reads", Some(Access::Read)), ("writes", Some(Access::Write))]
        .into_iter()
        .filter_map(|(title, access)| sample(title, &requests, &replayed, access))
        .collect();
    let pooled = samples.first().expect("a trace that was read holds a request").score;
    let demerit = |title| samples.iter().find(|sample| sample.title == title).map(|s| s.score.demerit.as_millis());
    Ok(Validation {
        drive: drive_name.to_owned(),
        trace: trace_name.to_owned(),
        name: part.name,
        status: part.status,
        requests: pooled.requests,
        demerit_ms: Demerit { pooled: pooled.demerit.as_millis(), reads: demerit("reads"), writes: demerit("writes") },
        mean_error: pooled.mean_error(),
        rms_error_ms: pooled.rms_error.as_millis(),
        correlation: Some(pooled.correlation).filter(|correlation| correlation.is_finite()),
        measured_mean_ms: pooled.measured_mean.as_millis(),
        modelled_mean_ms: pooled.modelled_mean.as_millis(),
        outcomes: kinds(&requests, &replayed),
        worst: worst(&requests, &replayed),
        samples,
    })
}

fn sample(title: &'static str, requests: &[Measured], replayed: &[Replayed], access: Option<Access>) -> Option<Sample> {
    let pairs = requests.iter().zip(replayed).filter(|(request, _)| access.is_none_or(|a| request.access == a));
    let (mut measured, mut modelled): (Vec<_>, Vec<_>) = pairs.map(|(m, r)| (m.response, r.response())).unzip();
    let score = Score::of(&measured, &modelled)?;
    measured.sort_unstable();
    modelled.sort_unstable();
    Some(Sample { title, measured, modelled, score })
}

fn kinds(requests: &[Measured], replayed: &[Replayed]) -> Vec<Kind> {
    const ALL: [Outcome; 5] = [Outcome::Hit, Outcome::PartialHit, Outcome::Miss, Outcome::Buffered, Outcome::Through];
    let kind = |outcome: Outcome| {
        let (mut count, mut measured, mut modelled, mut squares) = (0usize, 0.0, 0.0, 0.0);
        for (request, replayed) in requests.iter().zip(replayed).filter(|(_, r)| r.service.outcome == outcome) {
            let (is, says) = (request.response.as_millis(), replayed.response().as_millis());
            (count, measured, modelled) = (count + 1, measured + is, modelled + says);
            squares += (says - is).powi(2);
        }
        let n = count as f64;
        (count > 0).then(|| Kind {
            outcome: outcome.name(),
            requests: count,
            measured_mean_ms: measured / n,
            modelled_mean_ms: modelled / n,
            rms_error_ms: (squares / n).sqrt(),
        })
    };
    ALL.into_iter().filter_map(kind).collect()
}

fn worst(requests: &[Measured], replayed: &[Replayed]) -> Vec<Told> {
    let off = |index: usize| replayed[index].response().as_nanos().abs_diff(requests[index].response.as_nanos());
    let mut indices: Vec<usize> = (0..requests.len()).collect();
    let by_error = |index: &usize| (std::cmp::Reverse(off(*index)), *index);
    if indices.len() > WORST {
        indices.select_nth_unstable_by_key(WORST, by_error);
        indices.truncate(WORST);
    }
    indices.sort_unstable_by_key(by_error);
    let told = |index: usize| {
        let (request, service) = (&requests[index], &replayed[index].service);
        Told {
            line: request.line,
            operation: match request.access {
                Access::Read => "read",
                Access::Write => "write",
            },
            block: request.block,
            blocks: request.blocks,
            measured_ms: request.response.as_millis(),
            modelled_ms: replayed[index].response().as_millis(),
            outcome: service.outcome.name(),
            command_ms: service.command.as_millis(),
            waiting_ms: service.waiting.as_millis(),
            cylinders: service.cylinders,
            seek_ms: service.seek.as_millis(),
            rotation_ms: service.rotation.as_millis(),
            transfer_ms: service.transfer.as_millis(),
        }
    };
    indices.into_iter().map(told).collect()
}

impl Validation {
    /// Measured and modelled distribution curves of all requests, of the reads and of the writes.
    pub fn svg(&self) -> String {
        let title = |sample: &Sample| {
            format!(
                "{}: {} requests, demerit {:.3} ms",
                sample.title,
                sample.score.requests,
                sample.score.demerit.as_millis()
            )
        };
        let titles: Vec<String> = self.samples.iter().map(title).collect();
        let panels: Vec<Panel> = self
            .samples
            .iter()
            .zip(&titles)
            .map(|(Sample { measured, modelled, .. }, title)| {
                let curves =
                    [Curve { name: "measured", sorted: measured }, Curve { name: "modelled", sorted: modelled }];
                Panel { title, curves }
            })
            .collect();
        distributions(&format!("{}, response times", self.name), &panels)
    }
}
