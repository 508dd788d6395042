//! One run on several hosts: started by an engine that is there already, driven by rank 0, one result.
//!
//! # Who starts it
//! `mpirun -n 4 --host a,b,c,d arraylab run load.toml --on /dev/sdb` starts four processes, and so does `srun`. Each
//! learns from its environment which *rank* it is, and of how many ([`Rank`]). Neither is MPI linked nor its messages
//! used: a library that must be the one of the engine on each machine is a price that what is asked for here, some
//! small messages before and after a run, does not justify. Rejected, too: daemons and a protocol of our own to start
//! processes elsewhere (fio, elbencho), which engines and batch systems do better and with the site's permissions.
//!
//! # How ranks find each other
//! Rank 0 listens on TCP; where, it writes into a file of the *meeting place*, a folder that all see (that of the run
//! folders, unless `--meet` names another), with a word that only those who can read the file know. Without a shared
//! folder `--meet HOST:PORT` says where rank 0 listens. A folder alone was rejected: the attributes of files on NFS are
//! cached for seconds, and the difference of clocks is to be known to microseconds.
//!
//! # How they start together
//! Before each pass all ranks wait for each other. Then rank 0 asks each for the time on its clock (F. Cristian,
//! Probabilistic clock synchronization, 1989; see [`clock`]), names an instant a little ahead, and tells each what its
//! own clock will show at it. Clocks are the monotonic ones of the processes; none is set. The times of a pass are
//! reckoned from that instant on every host, so a clock that runs differently shows within a pass only: at 50 parts in
//! a million, which is much for a quartz, 0.5 ms in 10 s. How far the clocks came apart until the end is said in the
//! result.
//!
//! # What comes of it
//! Every rank keeps its records in a folder of its own (`ranks/N` of the run's) while the run goes on. At the end rank
//! 0 takes the rows of all into one recording, devices named `HOST:PATH`, and makes of it what it makes of any
//! recording: so percentiles over hosts are those of all requests, never means of percentiles. A rank that fails or
//! vanishes ends the run for all; what the others recorded is in the result, what it recorded itself in its own folder.
//!
//! Messages are neither encrypted nor authenticated beyond the word: they are for networks that an engine such as MPI
//! uses, too.

pub mod clock;
mod conductor;
mod guest;
mod meeting;
mod member;
mod part;
mod rank;
mod wire;

use std::fmt;

use serde::{Deserialize, Serialize};
use units::Duration;

pub use conductor::Conductor;
pub use meeting::{MeetError, Place};
pub use member::{Member, Order};
pub use part::{conduct, take_part};
pub use rank::{Rank, RankError};

/// Why a rank took no part, or no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("rank {rank} on {host} {what}")]
pub struct Trouble {
    /// Its number.
    pub rank: u32,
    /// Where it runs.
    pub host: String,
    /// What befell it.
    pub what: String,
    /// The user can mend it.
    pub input: bool,
}

/// What is known of one rank.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Seen {
    /// Its number.
    pub rank: u32,
    /// Where it ran.
    pub host: String,
    /// Its devices, by their indices in the result.
    pub devices: Vec<u16>,
    /// How well its clock is known: half of the shortest round trip, at the worst of the passes; nothing if none began.
    #[serde(rename = "clock_error_ns", serialize_with = "known_nanos")]
    pub error: Option<Duration>,
    /// By how much its time of day is ahead of that of rank 0, in nanoseconds.
    pub time_of_day_ahead_ns: i64,
    /// By how much its clock gained on that of rank 0 from the first pass to the end, in nanoseconds.
    pub drift_ns: i64,
    /// By how much it came late to the beginning of a pass at most.
    #[serde(rename = "late_ns", serialize_with = "nanos")]
    pub late: Duration,
}

fn nanos<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.as_nanos())
}

fn known_nanos<S: serde::Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(Duration::as_nanos).serialize(serializer)
}

/// What ranks did together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Together {
    /// All whose records are in the result.
    pub ranks: Vec<Seen>,
    /// The first that was lost.
    pub trouble: Option<Trouble>,
}

impl Together {
    /// The hosts and their devices, in the order of their first ranks.
    pub fn hosts(&self) -> Vec<(String, Vec<u16>)> {
        let mut hosts: Vec<(String, Vec<u16>)> = Vec::new();
        for seen in &self.ranks {
            match hosts.iter_mut().find(|(host, _)| *host == seen.host) {
                Some((_, devices)) => devices.extend(&seen.devices),
                None => hosts.push((seen.host.clone(), seen.devices.clone())),
            }
        }
        hosts
    }
}

/// How well they started together.
impl fmt::Display for Together {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (ranks, hosts) = (self.ranks.len(), self.hosts().len());
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        write!(f, "{ranks} rank{} on {hosts} host{}", plural(ranks), plural(hosts))?;
        let known = self.ranks.iter().skip(1).filter_map(|seen| Some((seen.error?, seen)));
        if let Some((error, Seen { rank, host, .. })) = known.max_by_key(|(error, _)| *error) {
            write!(f, ", started at one instant: clocks are known to +-{error} or better (rank {rank} on {host})")?;
        }
        if let Some(latest) = self.ranks.iter().max_by_key(|seen| seen.late).filter(|seen| !seen.late.is_zero()) {
            write!(f, "; rank {} on {} came up to {} late", latest.rank, latest.host, latest.late)?;
        }
        for seen in self.ranks.iter().filter(|seen| seen.host != self.ranks[0].host) {
            let signed = |nanos: i64| {
                let size = Duration::nanos(nanos.unsigned_abs());
                if nanos < 0 { format!("-{size}") } else { format!("+{size}") }
            };
            let (day, drift) = (signed(seen.time_of_day_ahead_ns), signed(seen.drift_ns));
            write!(f, "\n  rank {} on {}: time of day {day}, clock {drift} over the run", seen.rank, seen.host)?;
        }
        Ok(())
    }
}
