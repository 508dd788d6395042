//! What holds a job back, or ends it before its limits: shares of requests, a least pace, a longest latency, a steady
//! rate, errors, and the ends of other jobs.

use units::{Bytes, Duration};

use crate::JobError;
use crate::job::Direction;
use crate::load::pair;
use crate::reader::Reader;
use crate::value;

/// The rules of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// The errors, by number, of a read that is counted and does not end the job, and of any other request:
    /// `continue_on_error`, `ignore_error`.
    pub ignored: [Vec<u16>; 2],
    /// An error ends all jobs: `exitall_on_error`.
    pub error_ends_all: bool,
    /// Whose end its end is: `exitall`, `exit_what`.
    pub ends: Ends,
    /// Its share of the requests of all jobs of a number: `flow`, `flow_id`, `flow_sleep`.
    pub flow: Option<Flow>,
    /// A request that takes longer ends it: `max_latency`.
    pub longest: Option<Duration>,
    /// A pace below which it ends: `rate_min`, `rate_iops_min`, `rate_cycle`.
    pub least: Option<Least>,
    /// It ends when it is steady: `steadystate`.
    pub steady: Option<Steady>,
    /// It searches for the deepest queue that keeps to a latency: `latency_target`.
    pub search: Option<Search>,
    /// A request waits for those of its job that it overlaps with: `serialize_overlap`.
    pub serial: bool,
    /// When its queue is full, it makes no request before so few are under way: `iodepth_low`.
    pub low: Option<u32>,
}

/// `latency_target`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// The latency.
    pub target: Duration,
    /// How long each depth is tried: `latency_window`.
    pub window: Duration,
    /// How many requests are to keep to it, in percent: `latency_percentile`.
    pub percent: f64,
    /// The depth is adjusted to the end: `latency_run`.
    pub goes_on: bool,
}

/// Whose end the end of a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Its own.
    Itself,
    /// That of the jobs that are reported as one group with it.
    Group,
    /// That of all jobs beside it.
    Beside,
    /// That of all jobs beside it and after it.
    All,
}

/// A share of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// `flow_id`.
    pub number: u32,
    /// `flow`.
    pub weight: u32,
    /// `flow_sleep`.
    pub rest: Duration,
}

/// A least pace, of reads, and of writes or trims; zero for any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Least {
    /// `rate_min`.
    pub bytes: [u64; 2],
    /// `rate_iops_min`.
    pub requests: [u64; 2],
    /// `rate_cycle`.
    pub every: Duration,
}

/// `steadystate`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// `iops`, `bw` or `lat`.
    pub of: Figure,
    /// Its slope: `iops_slope`.
    pub slope: bool,
    /// The limit, in percent of the mean or in the figure's unit.
    pub limit: f64,
    /// In percent.
    pub percent: bool,
    /// `steadystate_duration`.
    pub window: Duration,
    /// `steadystate_ramp_time`.
    pub ramp: Duration,
    /// `steadystate_check_interval`.
    pub interval: Duration,
}

/// What is steady.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// `iops`.
    Requests,
    /// `bw`.
    Bytes,
    /// `lat`.
    Latency,
}

/// The errors that fio knows by name; the number of each is its place, counted from 1.
const ERRORS: [&str; 34] = [
    "EPERM", "ENOENT", "ESRCH", "EINTR", "EIO", "ENXIO", "E2BIG", "ENOEXEC", "EBADF", "ECHILD", "EAGAIN", "ENOMEM",
    "EACCES", "EFAULT", "ENOTBLK", "EBUSY", "EEXIST", "EXDEV", "ENODEV", "ENOTDIR", "EISDIR", "EINVAL", "ENFILE",
    "EMFILE", "ENOTTY", "ETXTBSY", "EFBIG", "ENOSPC", "ESPIPE", "EROFS", "EMLINK", "EPIPE", "EDOM", "ERANGE",
];

/// The number of an error that is given by name, or as a number.
fn error(text: &str) -> Option<u16> {
    let named = ERRORS.iter().position(|name| *name == text).map(|place| place as u16 + 1);
    named.or_else(|| text.trim_start_matches('-').parse().ok()).filter(|number| (1..4096).contains(number))
}

impl Reader<'_> {
    pub fn rules(&mut self, direction: Direction) -> Result<Rules, JobError> {
        Ok(Rules {
            ignored: self.ignored()?,
            error_ends_all: self.flag("exitall_on_error")?.unwrap_or(false),
            ends: self.ends()?,
            flow: self.flow()?,
            longest: self.time("max_latency", Duration::micros(1))?.filter(|most| !most.is_zero()),
            least: self.least(direction)?,
            steady: self.steady()?,
            search: self.search()?,
            serial: self.flag("serialize_overlap")?.unwrap_or(false),
            low: self.none_at_zero("iodepth_low", u32::MAX.into())?.map(|low| low as u32),
        })
    }

    /// As fio 3.33: `continue_on_error` alone ignores no more than EIO (and EILSEQ, which is fio's word for a
    /// mismatch), and a list of `ignore_error` stands in its place for that direction.
    fn ignored(&mut self) -> Result<[Vec<u16>; 2], JobError> {
        let accepted = "none, read, write, io, verify or all";
        let on = self.read("continue_on_error", accepted, |text| match text {
            // A mismatch ends no run here.
            "none" | "0" | "verify" => Some([false; 2]),
            "read" => Some([true, false]),
            "write" => Some([false, true]),
            "io" | "all" | "1" => Some([true; 2]),
            _ => None,
        })?;
        let usual = on.unwrap_or([false; 2]).map(|on| if on { vec![5, 84] } else { Vec::new() });
        let accepted = "errors of reads, of writes and of verification by name or number, such as EIO,ENOSPC:122";
        let given = self.read("ignore_error", accepted, |text| {
            let lists = text.split(',').map(|list| list.split(':').filter(|one| !one.is_empty()).map(error).collect());
            lists.collect::<Option<Vec<Vec<u16>>>>().filter(|lists| lists.len() <= 3)
        })?;
        // Mismatches are all counted, and end no run by themselves.
        let mut given = given.unwrap_or_default().into_iter();
        Ok(usual.map(|usual| given.next().filter(|list| !list.is_empty()).unwrap_or(usual)))
    }

    fn ends(&mut self) -> Result<Ends, JobError> {
        let what = self.read("exit_what", "group, stonewall or all", |text| match text {
            "group" => Some(Ends::Group),
            "stonewall" => Some(Ends::Beside),
            "all" => Some(Ends::All),
            _ => None,
        })?;
        Ok(if self.flag("exitall")?.unwrap_or(false) { what.unwrap_or(Ends::Group) } else { Ends::Itself })
    }

    fn flow(&mut self) -> Result<Option<Flow>, JobError> {
        let weight = self.read("flow", "a weight from 0 to 1000", |text| {
            text.parse::<u32>().ok().filter(|weight| *weight <= 1000)
        })?;
        let number = self.read("flow_id", "a whole number", |text| text.parse::<u32>().ok())?.unwrap_or(0);
        let rest = self.read("flow_sleep", "a time in microseconds", |text| {
            text.parse::<u64>().ok().filter(|micros| *micros <= 1 << 32).map(Duration::micros)
        })?;
        let rest = rest.unwrap_or(Duration::ZERO);
        Ok(weight.filter(|weight| *weight > 0).map(|weight| Flow { number, weight, rest }))
    }

    fn least(&mut self, direction: Direction) -> Result<Option<Least>, JobError> {
        let base = self.base;
        let number = |text: &str| value::number(text, base).filter(|n| *n <= 1 << 50);
        let bytes = self.each_way("rate_min", "bytes a second, such as 10m or 10m,5m", number)?;
        let requests = self.each_way("rate_iops_min", "requests a second, such as 1000 or 1000,500", number)?;
        let every = self.read("rate_cycle", "a time in milliseconds from 1 on", |text| {
            text.parse::<u64>().ok().filter(|millis| (1..=3_600_000).contains(millis)).map(Duration::millis)
        })?;
        let below = |option: &str, least: &[Option<u64>; 3], rates: [Option<u64>; 3]| match least
            .iter()
            .zip(rates)
            .any(|(least, rate)| rate.is_some_and(|rate| rate > 0 && *least > Some(rate)))
        {
            true => Err(self.cannot(option, "is to be faster than its rate lets it", "lower it, or raise the rate")),
            false => Ok(()),
        };
        below("rate_min", &bytes, self.each_way("rate", "bytes a second", number)?)?;
        below("rate_iops_min", &requests, self.each_way("rate_iops", "requests a second", number)?)?;
        let [bytes, requests] = [bytes, requests].map(|least| pair(direction, least).map(Option::unwrap_or_default));
        let every = every.unwrap_or(Duration::seconds(1));
        Ok((bytes != [0; 2] || requests != [0; 2]).then_some(Least { bytes, requests, every }))
    }

    fn search(&mut self) -> Result<Option<Search>, JobError> {
        let target = self.time("latency_target", Duration::micros(1))?.filter(|target| !target.is_zero());
        let window = self.time("latency_window", Duration::micros(1))?.unwrap_or(Duration::ZERO);
        let percent = self.read("latency_percentile", "a percentage such as 99.9", |text| {
            text.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent))
        })?;
        let goes_on = self.flag("latency_run")?.unwrap_or(false);
        Ok(target.map(|target| Search { target, window, percent: percent.unwrap_or(100.0), goes_on }))
    }

    /// Without a duration the option asks for nothing, in fio, too.
    fn steady(&mut self) -> Result<Option<Steady>, JobError> {
        let base = self.base;
        let rule =
            self.read("steadystate", "iops:5%, bw:5%, lat:5%, iops_slope:0.1%, or a limit such as bw:1m", |text| {
                let (name, limit) = text.split_once(':').unwrap_or((text, "0.01%"));
                let (of, slope) = match name.strip_suffix("_slope") {
                    Some(of) => (of, true),
                    None => (name, false),
                };
                let of = match of {
                    "iops" => Figure::Requests,
                    "bw" => Figure::Bytes,
                    "lat" => Figure::Latency,
                    _ => return None,
                };
                let (limit, percent) = match (limit.strip_suffix('%'), of) {
                    (Some(limit), _) => (limit.parse::<f64>().ok()?, true),
                    (None, Figure::Bytes) => (value::size(limit, base).map(Bytes::get)? as f64, false),
                    (None, Figure::Latency) => (value::time(limit, Duration::nanos(1))?.as_nanos() as f64, false),
                    (None, Figure::Requests) => (limit.parse::<f64>().ok()?, false),
                };
                (limit.is_finite() && limit >= 0.0).then_some((of, slope, limit, percent))
            })?;
        let second = Duration::seconds(1);
        let window = self.time("steadystate_duration", second)?.unwrap_or(Duration::ZERO);
        let ramp = self.time("steadystate_ramp_time", second)?.unwrap_or(Duration::ZERO);
        let interval = self.time("steadystate_check_interval", second)?.unwrap_or(second);
        if window.is_zero() {
            return Ok(None);
        }
        if interval.is_zero() || window < interval * 2 {
            return Err(self.cannot(
                "steadystate_duration",
                "is to be steady for less than two values",
                "write steadystate_duration=10s or more, and steadystate_check_interval=1s",
            ));
        }
        let (of, slope, limit, percent) = rule.unwrap_or((Figure::Requests, true, 0.01, true));
        Ok(Some(Steady { of, slope, limit, percent, window, ramp, interval }))
    }
}
