//! What a job wants to be told of itself: which times, which percentiles, which logs.
//!
//! fio's defaults: percentiles of completion latency alone, directions apart, no log. `gtod_reduce` takes no stamps of
//! requests, so that it leaves counts alone; here stamps are taken in any case, and what fio would not print is not
//! printed.

use units::Duration;

use crate::JobError;
use crate::reader::Reader;

/// What is reported of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Reporting {
    /// Submission, completion and total latency are measured: not `disable_slat`, `disable_clat`, `disable_lat`.
    pub times: [bool; 3],
    /// Their percentiles are printed: `slat_percentiles`, `clat_percentiles`, `lat_percentiles`.
    pub percentiles: [bool; 3],
    /// Rates are sampled: not `disable_bw_measurement`.
    pub samples: bool,
    /// Which percentiles, in percent, in rising order: `percentile_list`. Empty for fio's own.
    pub list: Vec<f64>,
    /// Directions as one, apart, or both: `unified_rw_reporting`.
    pub unified: Unified,
    /// Logs of single requests, or of averages.
    pub logs: Logs,
}

/// `unified_rw_reporting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unified {
    /// Each direction for itself.
    #[default]
    Apart,
    /// All as one.
    Mixed,
    /// Both.
    Both,
}

/// The logs of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Logs {
    /// The beginning of their names: `write_bw_log`.
    pub bandwidth: Option<String>,
    /// `write_iops_log`.
    pub requests: Option<String>,
    /// `write_lat_log`: of submission, completion and total latency, each a file.
    pub latency: Option<String>,
    /// A line is of so much time; of one request if nothing: `log_avg_msec`.
    pub every: Option<Duration>,
    /// The largest of that time instead of the mean: `log_max_value=1`.
    pub largest: bool,
    /// Each line says where: `log_offset`.
    pub offset: bool,
    /// Each line says the priority of its request, and not only whether it is of real time: `log_prio`.
    pub priority: bool,
    /// The file of all requests, as a trace that can be replayed: `write_iolog`.
    pub trace: Option<String>,
    /// Each copy has files of its own: `per_job_logs`.
    pub apart: bool,
}

/// fio takes so many percentiles at most.
const MOST_PERCENTILES: usize = 20;

impl Reader<'_> {
    pub fn reporting(&mut self) -> Result<Reporting, JobError> {
        let reduced = self.flag("gtod_reduce")?.unwrap_or(false);
        let measured = |name| Ok::<bool, JobError>(!self.flag(name)?.unwrap_or(false) && !reduced);
        let times = [measured("disable_slat")?, measured("disable_clat")?, measured("disable_lat")?];
        let samples = measured("disable_bw_measurement")?;
        let percentiles = [
            self.flag("slat_percentiles")?.unwrap_or(false),
            self.flag("clat_percentiles")?.unwrap_or(true),
            self.flag("lat_percentiles")?.unwrap_or(false),
        ];
        let list = self.read("percentile_list", "up to 20 percentages such as 50:99:99.9", |text| {
            let percent =
                |text: &str| text.trim().parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
            let mut list = text.split(':').map(percent).collect::<Option<Vec<f64>>>()?;
            list.sort_by(f64::total_cmp);
            (list.len() <= MOST_PERCENTILES).then_some(list)
        })?;
        let unified = self.read("unified_rw_reporting", "none, mixed or both", |text| match text {
            "0" | "none" => Some(Unified::Apart),
            "" | "1" | "mixed" => Some(Unified::Mixed),
            "2" | "both" => Some(Unified::Both),
            _ => None,
        })?;
        Ok(Reporting {
            times,
            percentiles,
            samples,
            list: list.unwrap_or_default(),
            unified: unified.unwrap_or_default(),
            logs: self.logs()?,
        })
    }

    fn logs(&mut self) -> Result<Logs, JobError> {
        let millis = |text: &str| text.parse::<u64>().ok().filter(|millis| *millis <= 3_600_000);
        let every = self.read("log_avg_msec", "a time in milliseconds; 0 for every request", millis)?;
        let trace = self.text("write_iolog")?;
        let several = self.files()?.len() > 1 || self.text("nrfiles")?.is_some_and(|count| count != "1");
        if trace.is_some() && (several || self.given("read_iolog").is_some()) {
            let what = "is to log a job of several files, or one that replays a trace";
            return Err(self.cannot("write_iolog", what, "name one file, and leave read_iolog out"));
        }
        Ok(Logs {
            trace,
            bandwidth: self.log("write_bw_log")?,
            requests: self.log("write_iops_log")?,
            latency: self.log("write_lat_log")?,
            every: every.filter(|millis| *millis > 0).map(Duration::millis),
            largest: self.flag("log_max_value")?.unwrap_or(false),
            offset: self.flag("log_offset")?.unwrap_or(false),
            priority: self.flag("log_prio")?.unwrap_or(false),
            apart: self.flag("per_job_logs")?.unwrap_or(true),
        })
    }

    /// The beginning of a log's name; the job's own, if the option has no value.
    fn log(&mut self, option: &'static str) -> Result<Option<String>, JobError> {
        let Some(given) = self.given(option) else { return Ok(None) };
        let named = given.value.clone().filter(|name| !name.is_empty());
        let own = self.text("name")?.unwrap_or_else(|| self.section.name.clone());
        Ok(Some(named.unwrap_or(own)))
    }
}
