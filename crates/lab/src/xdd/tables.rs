//! What xdd prints of a run, and its table of time stamps.

use std::fmt::Write;

use analysis::{Figures, Summary};
use record::Row;
use report::Table;
use units::Bytes;

use super::Xdd;

/// A line for each pass and target, one for all passes of a target, one for all targets; then the line of the M.A.X.
/// study for each target.
pub fn lines(xdd: &Xdd, summary: &Summary) -> String {
    let operation = match xdd.experiment.streams[0].stream.mix.reads.get() {
        reads if reads >= 1.0 => "read",
        reads if reads <= 0.0 => "write",
        _ => "mixed",
    };
    lines_of(operation, (xdd.request, xdd.experiment.streams[0].stream.lanes()), summary)
}

/// The same of any run of requests of one size, so many of them under way on each device.
pub(crate) fn lines_of(operation: &str, (request, depth): (Bytes, u32), summary: &Summary) -> String {
    let (request, depth) = (request.get(), depth.to_string());
    let mut table = Table::new([
        "what",
        "pass",
        "target",
        "queue",
        "bytes",
        "ops",
        "seconds",
        "MB/s",
        "ops/s",
        "latency ms",
        "op",
        "xfersize",
    ]);
    let mut line = |what: &str, pass: String, target: String, figures: &Figures| {
        let latency = figures.latency.map_or(0.0, |latency| latency.mean.as_millis());
        table.row([
            what.to_owned(),
            pass,
            target,
            depth.clone(),
            figures.bytes.get().to_string(),
            figures.requests.to_string(),
            format!("{:.3}", figures.time.as_seconds()),
            format!("{:.3}", figures.bandwidth.as_mb_per_second()),
            format!("{:.1}", figures.iops.get()),
            format!("{latency:.3}"),
            operation.to_owned(),
            request.to_string(),
        ]);
    };
    for (target, group) in summary.devices.iter().enumerate() {
        for (pass, figures) in group.passes.iter().enumerate() {
            line("TARGET_PASS", (pass + 1).to_string(), target.to_string(), figures);
        }
    }
    for (target, group) in summary.devices.iter().enumerate() {
        line("TARGET_AVERAGE", group.passes.len().to_string(), target.to_string(), &group.figures);
    }
    line("COMBINED", summary.total.passes.len().to_string(), summary.devices.len().to_string(), &summary.total.figures);
    let mut text = table.to_string();
    // "request size (in 1024-byte blocks), the average, high, and low I/O performance in units of 10^6-bytes per
    // second, the number of I/O operations, the average, maximum, and minimum number of seconds ..., and the number of
    // errors"
    let mut max =
        Table::new(["target", "blocks", "MB/s", "high", "low", "ops", "seconds", "longest", "shortest", "errors"]);
    for group in &summary.devices {
        let rates: Vec<f64> = group.passes.iter().map(|pass| pass.bandwidth.as_mb_per_second()).collect();
        let times: Vec<f64> = group.passes.iter().map(|pass| pass.time.as_seconds()).collect();
        let [rate, time] = [spread(&rates), spread(&times)];
        max.row([
            group.name.clone(),
            (request as f64 / 1024.0).to_string(),
            shown(rate[0], 3),
            shown(rate[1], 3),
            shown(rate[2], 3),
            group.figures.requests.to_string(),
            shown(time[0], 4),
            shown(time[1], 4),
            shown(time[2], 4),
            group.figures.errors.to_string(),
        ]);
    }
    let _ = write!(text, "\n{max}");
    text
}

/// Mean, most and least; nothing of a run that was ended before its first pass was over.
fn spread(values: &[f64]) -> [Option<f64>; 3] {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let most = values.iter().copied().reduce(f64::max);
    [most.map(|_| mean), most, values.iter().copied().reduce(f64::min)]
}

/// With so many decimals.
fn shown(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// The table of time stamps: a header with the request size in 1024-byte blocks, the resolution and the number of
/// entries, then an entry for each request.
pub fn stamps(xdd: &Xdd, rows: Vec<Row>) -> String {
    stamps_of(xdd.request, rows)
}

/// The same of any requests of one size.
pub(crate) fn stamps_of(request: Bytes, mut rows: Vec<Row>) -> String {
    let mut text = format!(
        "# request size in 1024-byte blocks: {}\n# resolution of the time stamps: 1 ns\n# entries: {}\n",
        request.get() as f64 / 1024.0,
        rows.len()
    );
    text.push_str("# target pass request op offset bytes start_ns end_ns\n");
    rows.sort_by_key(|row| (row.device, row.pass, row.submitted));
    let mut number = (u16::MAX, u16::MAX, 0u64);
    for row in rows {
        number = if (row.device, row.pass) == (number.0, number.1) {
            (number.0, number.1, number.2 + 1)
        } else {
            (row.device, row.pass, 0)
        };
        let (start, end) = (row.submitted.as_nanos(), row.completed.as_nanos());
        let _ = writeln!(
            text,
            "{} {} {} {} {} {} {start} {end}",
            row.device,
            row.pass + 1,
            number.2,
            row.operation.name(),
            row.offset.get(),
            row.length
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use record::{Operation, Phase};
    use units::{Duration, Instant};

    use super::*;

    #[test]
    fn of_no_pass_there_is_nothing_to_show() {
        assert_eq!(spread(&[]).map(|value| shown(value, 3)), ["-", "-", "-"]);
        assert_eq!(spread(&[1.0, 4.0]).map(|value| shown(value, 1)), ["2.5", "4.0", "1.0"]);
    }

    #[test]
    fn requests_are_numbered_anew_on_each_target_and_in_each_pass() {
        let words = "-op read -targets 2 memory:1MiB memory:1MiB -reqsize 4 -numreqs 2 -passes 2";
        let xdd = crate::xdd::read(&words.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap();
        let row = |device, pass, at| {
            let mut row = Row::new(Operation::Read, Phase::Measure);
            (row.device, row.pass, row.length) = (device, pass, 4096);
            row.submitted = Instant::START + Duration::nanos(at);
            row.completed = row.submitted + Duration::nanos(5);
            row
        };
        // In order of completion, as they are recorded.
        let text = stamps(&xdd, vec![row(0, 0, 20), row(1, 0, 10), row(0, 0, 10), row(0, 1, 30)]);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            "0 1 0 read 0 4096 10 15",
            "0 1 1 read 0 4096 20 25",
            "0 2 0 read 0 4096 30 35",
            "1 1 0 read 0 4096 10 15",
        ];
        assert_eq!(lines, expected);
        assert!(text.starts_with("# request size in 1024-byte blocks: 4\n"), "{text}");
    }
}
