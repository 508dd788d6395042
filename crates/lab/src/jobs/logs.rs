//! The logs that fio writes of a job (`write_bw_log`, `write_iops_log`, `write_lat_log`), made of the rows when the run
//! is over.
//!
//! ```text
//! ms since the job began, value, direction (0 read, 1 write, 2 trim), bytes, [offset with log_offset,]
//!     1 if the request's I/O priority is of the class real time, or with log_prio that priority
//! ```
//!
//! The value is nanoseconds of a latency, KiB/s of a bandwidth, a count of requests. A line is of one request; with
//! `log_avg_msec` of the requests of a direction in so much time: their mean, or with `log_max_value` their largest,
//! under the time at which that was over, and without size, offset and priority. What is left at the end is a line of a
//! latency
//! log, and of no other: a rate of half an interval would not be one.
//!
//! `write_iolog` is a trace that fio and `arraylab replay` take, in the order in which requests were made:
//!
//! ```text
//! fio version 3 iolog
//! microseconds since the job began, file, add, open, close, or read, write, trim, sync with offset and bytes
//! ```
//!
//! Names are fio's: `NAME_bw.N.log`, `NAME_iops.N.log`, `NAME_slat.N.log`, `NAME_clat.N.log`, `NAME_lat.N.log`, where
//! jobs count from 1 through the file; without N if a job's copies share one (`per_job_logs=0`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use analysis::by_job::Booking;
use fio::{Engine, Job};
use record::{Operation, Phase as Counted, Row};
use units::{Duration, Instant};

use crate::jobs::extent::Extents;
use crate::jobs::{Phase, account};

/// Why a log cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}; the log of a job could not be written: name another place with write_bw_log, write_iops_log, write_lat_log or write_iolog", path.display())]
pub struct LogError {
    path: PathBuf,
    source: io::Error,
}

/// What a log is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bandwidth,
    Requests,
    Submission,
    Completion,
    Total,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Bandwidth => "bw",
            Kind::Requests => "iops",
            Kind::Submission => "slat",
            Kind::Completion => "clat",
            Kind::Total => "lat",
        }
    }

    /// The value of one request.
    fn of(self, row: &Row, booking: Booking) -> u64 {
        let [slat, clat, lat] = booking.times(row).map(Duration::as_nanos);
        match self {
            Kind::Bandwidth => (f64::from(row.length) / 1024.0 / row.response().as_seconds().max(1e-9)) as u64,
            Kind::Requests => 1,
            Kind::Submission => slat,
            Kind::Completion => clat,
            Kind::Total => lat,
        }
    }
}

/// A log that is wanted of one copy of a job.
struct Wanted<'j> {
    path: PathBuf,
    kind: Kind,
    job: &'j Job,
    booking: Booking,
    streams: Vec<u16>,
}

/// Gives every row of a run to what it is given.
pub type Visit<'v> = dyn FnMut(&mut dyn FnMut(&Row)) + 'v;

impl Phase {
    /// Writes the logs of its jobs. `first` is the number of the first copy in it, `begin` when its requests began, and
    /// `visit` gives all rows to what it is given, and may be called several times.
    pub fn write_logs(&self, jobs: &[Job], first: usize, begin: Instant, visit: &mut Visit) -> Result<(), LogError> {
        let mut rounds = self.wanted_logs(jobs, first);
        let mut made: Vec<PathBuf> = Vec::new();
        // Copies that share a file have their lines in it one after the other: a round each.
        while !rounds.is_empty() {
            let (mut now, mut later): (Vec<Wanted>, Vec<Wanted>) = (Vec::new(), Vec::new());
            for wanted in rounds {
                if now.iter().any(|other| other.path == wanted.path) { later.push(wanted) } else { now.push(wanted) }
            }
            let mut logs = Vec::new();
            let mut by_stream: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
            for wanted in now {
                let again = made.contains(&wanted.path);
                let opened = match again {
                    true => File::options().append(true).open(&wanted.path),
                    false => File::create(&wanted.path),
                };
                let file = opened.map_err(|source| LogError { path: wanted.path.clone(), source })?;
                made.push(wanted.path.clone());
                for stream in &wanted.streams {
                    by_stream.entry(*stream).or_default().push(logs.len());
                }
                logs.push(Log::new(wanted.path, file, wanted.kind, (wanted.job, wanted.booking), begin));
            }
            visit(&mut |row| {
                for log in by_stream.get(&row.stream).into_iter().flatten() {
                    logs[*log].add(row);
                }
            });
            logs.into_iter().try_for_each(Log::finish)?;
            rounds = later;
        }
        self.write_traces(jobs, begin, visit)
    }

    /// The traces of jobs that want one. Jobs that name one file follow each other in it.
    fn write_traces(&self, jobs: &[Job], begin: Instant, visit: &mut Visit) -> Result<(), LogError> {
        let wanted = |stream: u16| {
            let part = self.parts.get(usize::from(stream))?;
            jobs[part.job].reporting.logs.trace.as_ref().map(|name| (part, PathBuf::from(name)))
        };
        let streams: Vec<u16> = (0..self.parts.len() as u16).filter(|stream| wanted(*stream).is_some()).collect();
        if streams.is_empty() {
            return Ok(());
        }
        let mut rows: BTreeMap<u16, Vec<Row>> = streams.iter().map(|stream| (*stream, Vec::new())).collect();
        visit(&mut |row| {
            if let Some(rows) = rows.get_mut(&row.stream) {
                rows.push(*row);
            }
        });
        let mut made: Vec<PathBuf> = Vec::new();
        for (stream, mut rows) in rows {
            let (part, path) = wanted(stream).expect("these are wanted");
            rows.sort_by_key(|row| row.submitted);
            let own = self.experiment.devices.get(usize::from(stream)).and_then(|device| device.files.first().cloned());
            let file = own.or_else(|| jobs[part.job].paths(part.copy).into_iter().next()).unwrap_or_default();
            let append = made.contains(&path);
            let opened = File::options().create(true).append(append).write(true).truncate(!append).open(&path);
            let written = opened.and_then(|out| trace(BufWriter::new(out), &file.display().to_string(), &rows, begin));
            written.map_err(|source| LogError { path: path.clone(), source })?;
            made.push(path);
        }
        Ok(())
    }

    fn wanted_logs<'j>(&self, jobs: &'j [Job], first: usize) -> Vec<Wanted<'j>> {
        let mut wanted: Vec<Wanted> = Vec::new();
        let mut number = first;
        let mut parts = (0u16..).zip(&self.parts).peekable();
        while let Some((stream, part)) = parts.next() {
            let mut streams = vec![stream];
            while let Some((stream, _)) = parts.next_if(|(_, other)| *other == part) {
                streams.push(stream);
            }
            number += 1;
            let job = &jobs[part.job];
            let logs = &job.reporting.logs;
            let kinds = [
                (&logs.bandwidth, &[Kind::Bandwidth][..]),
                (&logs.requests, &[Kind::Requests][..]),
                (&logs.latency, &[Kind::Submission, Kind::Completion, Kind::Total][..]),
            ];
            for (name, kinds) in kinds {
                let Some(name) = name else { continue };
                for kind in kinds {
                    let numbered = if logs.apart { format!(".{number}") } else { String::new() };
                    let path = PathBuf::from(format!("{name}_{}{numbered}.log", kind.name()));
                    let of = streams.first().map(|index| &self.experiment.streams[usize::from(*index)].stream);
                    let booking = of.map_or(Booking::AsStamped, |of| account::booking(job, of));
                    wanted.push(Wanted { path, kind: *kind, job, booking, streams: streams.clone() });
                }
            }
        }
        wanted
    }

    /// How many copies of jobs it has: logs number them through.
    pub fn copies(&self) -> usize {
        let begins = |index: &usize| *index == 0 || self.parts[*index - 1] != self.parts[*index];
        (0..self.parts.len()).filter(begins).count()
    }
}

/// The requests of a job on a file, as fio's log of version 3.
fn trace(mut out: impl Write, file: &str, rows: &[Row], begin: Instant) -> io::Result<()> {
    let micros = |at: Instant| at.saturating_since(begin).as_nanos() / 1000;
    let mut last = 0;
    writeln!(out, "fio version 3 iolog\n0 {file} add\n0 {file} open")?;
    for row in rows {
        let name = match row.operation {
            Operation::Read => "read",
            Operation::Write | Operation::WriteZeroes => "write",
            Operation::Discard => "trim",
            Operation::Flush => "sync",
        };
        last = micros(row.submitted);
        writeln!(out, "{last} {file} {name} {} {}", row.offset.get(), row.length)?;
    }
    writeln!(out, "{last} {file} close")?;
    out.flush()
}

/// The class of a priority, in its upper three bits.
const REAL_TIME: u16 = 1;

/// A log while it is written.
struct Log {
    path: PathBuf,
    out: BufWriter<File>,
    kind: Kind,
    begin: Instant,
    every: Option<Duration>,
    largest: bool,
    offset: bool,
    priority: bool,
    /// Whether there is anything to say: who asks and waits in one call has no time of submission.
    silent: bool,
    booking: Booking,
    /// By direction.
    windows: [Window; 3],
    failed: Option<io::Error>,
}

/// The requests of one direction since the last line.
#[derive(Clone, Copy, Default)]
struct Window {
    since: Duration,
    count: u64,
    sum: u128,
    largest: u64,
    bytes: u64,
}

impl Log {
    fn new(path: PathBuf, file: File, kind: Kind, (job, booking): (&Job, Booking), begin: Instant) -> Log {
        let logs = &job.reporting.logs;
        let one_by_one =
            matches!(job.engine, Engine::Sync | Engine::Mmap) || job.engine == Engine::Null && job.depth == 1;
        let measured = job.reporting.times;
        let silent = match kind {
            Kind::Submission => one_by_one || !measured[0],
            Kind::Completion => !measured[1],
            Kind::Total => !measured[2],
            Kind::Bandwidth | Kind::Requests => !job.reporting.samples,
        };
        Log {
            path,
            out: BufWriter::new(file),
            kind,
            begin,
            every: logs.every,
            largest: logs.largest,
            offset: logs.offset,
            priority: logs.priority,
            silent,
            booking,
            windows: Default::default(),
            failed: None,
        }
    }

    fn add(&mut self, row: &Row) {
        let direction = match row.operation {
            Operation::Read => 0,
            Operation::Write | Operation::WriteZeroes => 1,
            Operation::Discard => 2,
            Operation::Flush => return,
        };
        if self.silent || row.phase != Counted::Measure || row.errno != 0 {
            return;
        }
        let at = row.completed.saturating_since(self.begin);
        let value = self.kind.of(row, self.booking);
        let Some(every) = self.every else {
            let what = (u64::from(row.length), row.offset.get(), row.priority);
            return self.line(at, value, direction, what);
        };
        let window = &mut self.windows[direction];
        window.count += 1;
        window.sum += u128::from(value);
        window.largest = window.largest.max(value);
        window.bytes += u64::from(row.length);
        if at.saturating_sub(window.since) >= every {
            self.close(direction, at);
        }
    }

    /// The line of what was done in a direction since the last one.
    fn close(&mut self, direction: usize, at: Duration) {
        let window = std::mem::replace(&mut self.windows[direction], Window { since: at, ..Window::default() });
        let seconds = at.saturating_sub(window.since).as_seconds().max(1e-9);
        let value = match self.kind {
            Kind::Bandwidth => (window.bytes as f64 / 1024.0 / seconds) as u64,
            Kind::Requests => (window.count as f64 / seconds).round() as u64,
            _ if self.largest => window.largest,
            _ => (window.sum / u128::from(window.count.max(1))) as u64,
        };
        self.line(at, value, direction, (0, 0, 0));
    }

    fn line(&mut self, at: Duration, value: u64, direction: usize, (bytes, offset, priority): (u64, u64, u16)) {
        let millis = at.as_nanos() / 1_000_000;
        let priority = match self.priority {
            true => format!("0x{priority:04x}"),
            false => u16::from(priority >> 13 == REAL_TIME).to_string(),
        };
        let written = match self.offset {
            true => writeln!(self.out, "{millis}, {value}, {direction}, {bytes}, {offset}, {priority}"),
            false => writeln!(self.out, "{millis}, {value}, {direction}, {bytes}, {priority}"),
        };
        // The first failure is told at the end.
        self.failed = self.failed.take().or(written.err());
    }

    fn finish(mut self) -> Result<(), LogError> {
        let latency = !matches!(self.kind, Kind::Bandwidth | Kind::Requests);
        for direction in 0..3 {
            let window = self.windows[direction];
            if let (Some(every), true, true) = (self.every, latency, window.count > 0) {
                self.close(direction, window.since + every);
            }
        }
        let flushed = self.out.flush();
        match self.failed.or(flushed.err()) {
            Some(source) => Err(LogError { path: self.path, source }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Bytes;

    use super::*;
    use crate::jobs::plan;

    /// The logs of a job file whose copies each made a request each 100 ms for a second, by name.
    fn logs(options: &str) -> BTreeMap<String, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let text = format!("[j]\nioengine=libaio\nbs=4k\nsize=1m\nnumjobs=2\n{}\n", options.replace("AT", &at("log")));
        let surroundings =
            fio::Surroundings { variable: &|_| None, keyword: &|_| None, include: &|_, _| Err("none".into()) };
        let file = fio::read("t.fio", &text, &surroundings, fio::Rigour::Strict).unwrap();
        let on = ["null:1MiB".parse().unwrap()];
        let phase = plan("test", &file, &on).unwrap().remove(0);
        let begin = Instant::from_nanos(5_000_000_000);
        let mut rows = Vec::new();
        for n in 1..=10u64 {
            for stream in 0..2u16 {
                let mut row = Row::new(Operation::Read, Counted::Measure);
                row.completed = begin + Duration::millis(100 * n);
                row.submitted = Instant::from_nanos(row.completed.as_nanos() - 1_000 * n);
                row.intended = Instant::from_nanos(row.submitted.as_nanos() - 500);
                (row.stream, row.length, row.offset) = (stream, 4096, Bytes::kib(4 * n));
                row.priority = [2 << 13 | 7, 1 << 13][usize::from(n == 3)];
                rows.push(row);
            }
        }
        phase.write_logs(&file.jobs, 3, begin, &mut |take| rows.iter().for_each(take)).unwrap();
        let read = |entry: std::io::Result<std::fs::DirEntry>| {
            let entry = entry.unwrap();
            let text = std::fs::read_to_string(entry.path()).unwrap();
            (entry.file_name().into_string().unwrap(), text.lines().map(str::to_owned).collect())
        };
        std::fs::read_dir(folder.path()).unwrap().map(read).collect()
    }

    #[test]
    fn a_line_is_a_request_under_fios_names() {
        let logs = logs("write_lat_log=AT\nwrite_iops_log=AT\nlog_offset=1");
        let names: Vec<&str> = logs.keys().map(String::as_str).collect();
        let expected = ["clat", "iops", "lat", "slat"].map(|kind| [4, 5].map(|n| format!("log_{kind}.{n}.log")));
        assert_eq!(names, expected.iter().flatten().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(logs["log_clat.4.log"][1], "200, 2000, 0, 4096, 8192, 0");
        assert_eq!((&*logs["log_slat.4.log"][1], logs["log_lat.5.log"].len()), ("200, 500, 0, 4096, 8192, 0", 10));
        assert_eq!(logs["log_iops.4.log"][9], "1000, 1, 0, 4096, 40960, 0");
    }

    #[test]
    fn a_line_ends_with_the_priority_or_with_whether_it_is_of_real_time() {
        let ends = |options: &str| {
            let lines = &logs(options)["log_bw.4.log"];
            lines[1..3].iter().map(|line| line.rsplit(", ").next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(ends("write_bw_log=AT"), ["0", "1"]);
        assert_eq!(ends("write_bw_log=AT\nlog_prio=1\nlog_offset=1"), ["0x4007", "0x2000"]);
    }

    #[test]
    fn a_line_may_be_a_mean_or_the_largest_of_some_time() {
        let options = "write_lat_log=AT\nwrite_bw_log=AT\nlog_avg_msec=500";
        // 4 KiB each 100 ms are 40 KiB/s.
        assert_eq!(logs(options)["log_bw.4.log"], ["500, 40, 0, 0, 0", "1000, 40, 0, 0, 0"]);
        assert_eq!(logs(options)["log_clat.4.log"], ["500, 3000, 0, 0, 0", "1000, 8000, 0, 0, 0"]);
        let largest = logs(&format!("{options}\nlog_max_value=1"));
        assert_eq!(largest["log_clat.4.log"], ["500, 5000, 0, 0, 0", "1000, 10000, 0, 0, 0"]);
        // What does not fill an interval is told of latencies.
        let rest = logs("write_lat_log=AT\nwrite_bw_log=AT\nlog_avg_msec=800");
        assert_eq!((rest["log_clat.4.log"].len(), rest["log_bw.4.log"].len()), (2, 1));
    }

    #[test]
    fn a_trace_has_all_requests_in_the_order_in_which_they_were_made() {
        let logs = logs("write_iolog=AT");
        let lines = &logs["log"];
        // Both copies name one file, and follow each other in it.
        assert_eq!(lines.len(), 2 * (3 + 10 + 1));
        assert_eq!(lines[..3], ["fio version 3 iolog", "0 j.0.0 add", "0 j.0.0 open"]);
        assert_eq!((&*lines[3], &*lines[13]), ("99999 j.0.0 read 4096 4096", "999990 j.0.0 close"));
        assert_eq!(lines[15], "0 j.1.0 add");
    }

    #[test]
    fn copies_may_share_a_file_and_disabled_times_are_not_in_it() {
        let logs = logs("write_lat_log=AT\nper_job_logs=0\ndisable_slat=1");
        assert_eq!(logs.keys().collect::<Vec<_>>(), ["log_clat.log", "log_lat.log", "log_slat.log"]);
        assert_eq!((logs["log_clat.log"].len(), logs["log_slat.log"].len()), (20, 0));
        assert_eq!(
            (&*logs["log_clat.log"][9], &*logs["log_clat.log"][10]),
            ("1000, 10000, 0, 4096, 0", "100, 1000, 0, 4096, 0")
        );
    }
}
