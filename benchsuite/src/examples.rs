//! fio's own example job files, fitted to a target: where they go, how large they are and how long they take is
//! replaced, and what they ask for stays.
//!
//! `FIO_EXAMPLES=DIRECTORY` names them (`examples/` of fio's sources). Those of other engines and of options that are
//! not supported are refused by `arraylab run`, which says why; those that fio refuses are named, too.

use std::path::Path;

/// Options that say where a job goes, how large it is, and how long it takes.
const REPLACED: [&str; 17] = [
    "filename",
    "directory",
    "size",
    "filesize",
    "io_size",
    "io_limit",
    "offset",
    "offset_increment",
    "runtime",
    "timeout",
    "startdelay",
    "ramp_time",
    "loops",
    "nrfiles",
    "ss_dur",
    "ss_ramp",
    "description",
];

/// The job files of a folder, by name, in order.
pub fn read(folder: &Path) -> Vec<(String, String)> {
    let entries = folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let jobs = entries.filter(|path| path.extension().is_some_and(|extension| extension == "fio"));
    let name = |path: &Path| path.file_stem().map(|name| name.to_string_lossy().into_owned());
    let mut jobs: Vec<(String, String)> =
        jobs.filter_map(|path| Some((name(&path)?, std::fs::read_to_string(&path).ok()?))).collect();
    jobs.sort();
    jobs
}

/// Whether a job has the engine that does nothing.
pub fn is_of_null(text: &str) -> bool {
    text.lines().any(|line| {
        line.split_once('=').is_some_and(|(name, value)| (name.trim(), value.trim()) == ("ioengine", "null"))
    })
}

/// The same jobs on `target`, which has so many MiB, for a second each.
pub fn fitted(text: &str, target: &Path, mib: u64) -> String {
    let kept = |line: &&str| {
        let name = line.split(['=', ';', '#']).next().unwrap_or_default().trim();
        !REPLACED.contains(&name)
    };
    let jobs: Vec<&str> = text.lines().filter(kept).collect();
    format!("[global]\nfilename={}\nsize={mib}m\nruntime=1\n{}\n", target.display(), jobs.join("\n"))
}
