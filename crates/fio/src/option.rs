//! Which options there are, and what becomes of each.
//!
//! The classes are those of a count over 411 public job files: some forty options change what is asked of the device
//! and are kept; others change how fio goes about it, or what it prints, and have nothing to act on here. For each of
//! these a sentence says what is done instead, and whether that is the same.

use crate::known::{ALIASES, NAMES, nearest};
use crate::syntax::Section;
use crate::{JobError, Place};

/// An option that is not kept, or that changes nothing here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Where it stands.
    pub place: Place,
    /// Its name.
    pub option: String,
    /// What becomes of it.
    pub fate: Fate,
    /// In words.
    pub what: &'static str,
}

/// What becomes of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It changes what is asked, and that is not done: results may differ from fio's.
    NotKept,
    /// No option of fio.
    Unknown,
    /// It uses a variable of the environment that is not set.
    Unset,
    /// It would change nothing that matters, or only what fio prints.
    NoEffect,
}

impl Fate {
    /// In words that go before the list.
    pub fn title(self) -> &'static str {
        match self {
            Fate::NotKept => "not kept, so that results may differ from fio's",
            Fate::Unknown => "not known",
            Fate::Unset => "with variables that are not set",
            Fate::NoEffect => "without effect here",
        }
    }
}

/// The name under which an option is known here, if it goes by several.
pub fn canonical(name: &str) -> &str {
    match name {
        "filename_fmt" => "filename_format",
        "per_job_log" => "per_job_logs",
        // Here one generator draws all.
        "allrandrepeat" => "randrepeat",
        other => ALIASES.iter().find(|(alias, _)| *alias == other).map_or(other, |(_, first)| first),
    }
}

/// Engines that there are, or that another stands for.
const ENGINES: &[&str] = &[
    "libaio", "linuxaio", "io_uring", "posixaio", "sync", "psync", "vsync", "pvsync", "pvsync2", "sg", "splice",
    "mmap", "null",
];

/// Options of engines that are not here, which stand in sections whose engine is named on fio's command line.
const OF_ENGINES: &[(&[&str], &str)] = &[
    (&["donorname", "inplace"], "e4defrag"),
    (
        &[
            "fdp",
            "fdp_pli",
            "fdp_pli_select",
            "md_per_io_size",
            "pi_act",
            "pi_chk",
            "apptag",
            "apptag_mask",
            "num_range",
        ],
        "io_uring_cmd or xnvme",
    ),
    (&["xnvme_async", "xnvme_sync", "xnvme_admin", "xnvme_dev_nsid", "xnvme_be"], "xnvme"),
];

/// True of every name that fio takes.
pub fn is_known(name: &str) -> bool {
    NAMES.contains(&canonical(name))
}

/// Refuses the first option that is none of fio's, before anything else is said of its value. Of an engine that is not
/// known here the options are not known either: it is refused itself, later.
pub(crate) fn refuse_unknown(sections: &[Section]) -> Result<(), JobError> {
    let engine = |section: &Section| {
        let given = section.options.iter().rfind(|given| given.name == "ioengine");
        given.and_then(|given| given.value.clone()).is_none_or(|name| ENGINES.contains(&name.as_str()))
    };
    let here = sections.iter().filter(|section| engine(section)).flat_map(|section| &section.options);
    let unknown = here.into_iter().find(|given| !is_known(&given.name));
    unknown.map_or(Ok(()), |given| {
        let (place, option) = (given.place.clone(), given.name.clone());
        if let Some((_, engine)) = OF_ENGINES.iter().find(|(names, _)| names.contains(&option.as_str())) {
            let why = format!("it is of the engine {engine}, which is not here");
            return Err(JobError::Unsupported { place, option, why });
        }
        Err(JobError::Unknown { place, nearest: nearest(&option), option })
    })
}

/// Options that are read. Only these can be: the reader asserts it.
pub const KEPT: &[&str] = &[
    "rw",
    "ioengine",
    "bs",
    "direct",
    "iodepth",
    "size",
    "numjobs",
    "runtime",
    "filename",
    "group_reporting",
    "time_based",
    "directory",
    "stonewall",
    "rwmixread",
    "rwmixwrite",
    "ramp_time",
    "loops",
    "filesize",
    "buffered",
    "nrfiles",
    "name",
    "end_fsync",
    "startdelay",
    "fsync_on_close",
    "ba",
    "bssplit",
    "bsrange",
    "sync",
    "randseed",
    "io_size",
    "offset",
    "offset_increment",
    "cpus_allowed",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "kb_base",
    "thinktime",
    "norandommap",
    "unlink",
    "zero_buffers",
    "new_group",
    "invalidate",
    "number_ios",
    "rate_iops",
    "rate",
    "rate_process",
    "gtod_reduce",
    "disable_clat",
    "disable_slat",
    "disable_lat",
    "disable_bw_measurement",
    "clat_percentiles",
    "slat_percentiles",
    "lat_percentiles",
    "percentile_list",
    "unified_rw_reporting",
    "write_bw_log",
    "write_iops_log",
    "write_lat_log",
    "log_avg_msec",
    "log_max_value",
    "log_offset",
    "per_job_logs",
    // Read to be refused, or noted with what it is that they are not kept for.
    "random_distribution",
    "random_sequence_stride",
    "thinktime_blocks",
    "exec_prerun",
    "verify",
    "do_verify",
    "verify_backlog",
    "verify_only",
    "verify_pattern",
    "verify_fatal",
    "read_iolog",
    "replay_no_stall",
    "replay_time_scale",
    "replay_redirect",
    "replay_align",
    "replay_scale",
    "replay_skip",
    "percentage_random",
    "zonesize",
    "zoneskip",
    "filename_format",
    "randrepeat",
    "create_only",
    "overwrite",
    "fadvise_hint",
    "fallocate",
    "wait_for",
    "exitall",
    "exit_what",
    "continue_on_error",
    "ignore_error",
    "fill_device",
    "prio",
    "prioclass",
    "cmdprio",
    "cmdprio_class",
    "cmdprio_percentage",
    "cmdprio_bssplit",
    "log_prio",
    "write_iolog",
    "refill_buffers",
    "random_generator",
    "exitall_on_error",
    "flow",
    "flow_id",
    "flow_sleep",
    "max_latency",
    "rate_min",
    "rate_iops_min",
    "rate_cycle",
    "steadystate",
    "steadystate_duration",
    "steadystate_ramp_time",
    "steadystate_check_interval",
    "latency_target",
    "latency_window",
    "latency_percentile",
    "latency_run",
    "serialize_overlap",
    "iodepth_batch_complete_min",
    "iodepth_low",
    "zonemode",
    "zonerange",
    "allow_file_create",
    "io_submit_mode",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "buffer_pattern",
    "buffer_compress_percentage",
    "buffer_compress_chunk",
    "dedupe_percentage",
    "dedupe_mode",
    "dedupe_global",
    "dedupe_working_set_percentage",
];

/// Options that have no effect while they have one of these values, mostly fio's default.
const AT_REST: &[(&str, &[&str])] = &[
    ("lockfile", &["none"]),
    ("file_service_type", &["roundrobin"]),
    ("rw_sequencer", &["sequential"]),
    ("rate_ignore_thinktime", &["0"]),
    ("thinktime_spin", &["0"]),
    ("cpus_allowed_policy", &["shared"]),
    ("mem", &["malloc", "mmap", "shm"]),
    ("trim_percentage", &["0"]),
    ("stats", &["1"]),
    ("openfiles", &["1"]),
    ("bwavgtime", &["500"]),
    ("iopsavgtime", &["500"]),
];

/// Flags of this list that are given as 0 ask for nothing.
const FLAGS: &[&str] = &[
    "hipri",
    "sqthread_poll",
    "atomic",
    "pre_read",
    "file_append",
    "unlink_each_loop",
    "bs_is_seq_rand",
    "bs_unaligned",
    "nowait",
    "uncached",
    "force_async",
    "verify_state_load",
    "trim_verify_zero",
    "read_beyond_wp",
    "write_barrier",
    "nice",
    "log_store_compressed",
    "log_unix_epoch",
    "log_alternate_epoch",
    "log_issue_time",
];

/// What becomes of an option that is not read: nothing for those that are.
pub fn fate(name: &str, value: Option<&str>) -> Option<(Fate, &'static str)> {
    if KEPT.contains(&name) {
        return None;
    }
    let no_effect = |what| Some((Fate::NoEffect, what));
    let not_kept = |what| Some((Fate::NotKept, what));
    let value = value.map(str::trim);
    let rests = AT_REST.iter().any(|(known, at)| *known == name && value.is_some_and(|value| at.contains(&value)));
    if rests || (FLAGS.contains(&name) && value == Some("0")) {
        return no_effect("this value asks for what is done in any case");
    }
    match name {
        "description" | "unit_base" => no_effect("it is about what fio prints"),
        "opendir" => not_kept("name the files one by one, with filename=a:b:c"),
        "unique_filename" => no_effect("it is for clients of a fio server, and there is none"),
        "thread" => no_effect("jobs are loaded by threads in any case"),
        "scramble_buffers" => no_effect("each write takes another part of random memory"),
        "create_on_open" | "create_serialize" | "create_fsync" => {
            no_effect("files are made and opened before the first request")
        }
        "flow_watermark" | "verifysort" | "verifysort_nr" => {
            no_effect("fio 3.33 passes over it, too: it is deprecated")
        }
        "bs_is_seq_rand" => not_kept("sizes go by read, write and trim; give jobs in order and at random their own"),
        "openfiles" => not_kept("all files of a job are open at once"),
        "file_append" => {
            not_kept("writes go where offset and size say; make a file of the size that is to be appended to")
        }
        "softrandommap" => no_effect("the order of addresses needs no map that memory could be too small for"),
        "clocksource" | "gtod_cpu" => no_effect("every request keeps its time stamps; what they cost is in the result"),
        "log_compression" | "log_compression_cpus" => {
            no_effect("logs are made when the run is over, and not kept in memory")
        }
        "write_hist_log" | "log_hist_msec" | "log_hist_coarseness" => {
            not_kept("no histograms are logged; every request is in records.parquet of the run folder")
        }
        "log_store_compressed" => not_kept("logs are text"),
        "log_unix_epoch" | "log_alternate_epoch" | "log_issue_time" => {
            not_kept("lines of logs have the time since the job began, at which their request had completed")
        }
        "bwavgtime" | "iopsavgtime" => not_kept("rates are sampled over 500 ms, as fio does without it"),
        "error_dump" => no_effect("it is about what fio prints; every failed request is in records.parquet"),
        "significant_figures" => no_effect("it is about what fio prints"),
        "disk_util" => no_effect("it is about what fio prints"),
        "stats" => not_kept("every job is in the result"),
        "profile" => not_kept("it asks for a load that is a part of fio; write its options out"),
        "hipri" | "hipri_percentage" => not_kept("completions are awaited, not polled for"),
        "cpus_allowed_policy" => not_kept("all jobs share the processors of cpus_allowed"),
        "nice" | "uid" | "gid" | "ioscheduler" | "mem" | "hugepage-size" | "iomem_align" | "lockmem" | "cgroup"
        | "cgroup_weight" | "cgroup_nodelete" | "cpumask" | "thp" => {
            not_kept("set it for the whole program, with the means of the system (nice, numactl, taskset)")
        }
        "registerfiles" | "fixedbufs" | "nonvectored" | "userspace_reap" => {
            no_effect("files and memory are registered with the ring in any case")
        }
        "sqthread_poll" | "sqthread_poll_cpu" => {
            not_kept("take `--set io.kernel-poll` with the TOML of `arraylab import`")
        }
        "sg_write_mode" | "readfua" | "writefua" => {
            not_kept("it asks for commands of the engine sg, which is not here: requests are plain reads and writes")
        }
        "cmd_type" => not_kept("it asks for commands of the engine io_uring_cmd, which is not here"),
        "uncached" | "nowait" | "force_async" | "stream_id" | "write_hint" | "atomic" => {
            not_kept("requests are plain reads and writes")
        }
        "iodepth_batch" => no_effect(
            "requests that may be made are submitted with one call; as in fio, a full queue waits for no more",
        ),
        "iodepth_batch_complete_max" => no_effect("all that has completed is taken at once"),
        "verify_dump" => no_effect("each mismatch is named in the result, and the exit code is 1"),
        "verify_async" | "verify_async_cpus" => no_effect("what is read is checked by the thread that reads it"),
        "verify_interval" | "verify_offset" => {
            no_effect("every 512 bytes that are written say what they are, in a way of our own")
        }
        "experimental_verify" => {
            no_effect("what was written where is known from a ledger; no addresses are drawn again for it")
        }
        "verify_backlog_batch" => not_kept("each block is read when it is due, and none before"),
        "verify_write_sequence" => no_effect("what is read is held against the write that was the last there"),
        "verify_state_save" => no_effect("`arraylab verify RUN` reads again what a run wrote, by its ledger"),
        "verify_state_load" => not_kept("`arraylab verify RUN` reads again what a run wrote, by its ledger"),
        "lockfile" => not_kept("jobs do not wait for each other's files"),
        "file_service_type" => not_kept("the files of a job are used in turn"),
        "thinktime_spin" | "thinktime_iotime" | "thinktime_blocks_type" | "rate_ignore_thinktime" => {
            not_kept("the pause of thinktime comes after each request, without load on the processor")
        }
        "merge_blktrace_file" | "merge_blktrace_scalars" | "merge_blktrace_iters" => {
            not_kept("`arraylab replay` takes traces, with --speed and --on")
        }
        "read_iolog_chunked" => no_effect("a trace is read before the run, so that reading it delays no request"),
        "allow_mounted_write" => no_effect("whether a device may be written is asked with --destroy-data"),
        name if NAMES.contains(&name) => not_kept("nothing here does what it asks for"),
        _ => Some((Fate::Unknown, "no option of that name is known here")),
    }
}

#[cfg(test)]
mod tests {
    use super::KEPT;

    /// One that is listed and read by nobody would be dropped without a word.
    #[test]
    fn what_is_kept_is_read() {
        let readers = [
            include_str!("section.rs"),
            include_str!("load.rs"),
            include_str!("reporting.rs"),
            include_str!("rules.rs"),
            include_str!("priority.rs"),
            include_str!("content.rs"),
        ];
        for name in KEPT {
            assert!(readers.iter().any(|text| text.contains(&format!("\"{name}\""))), "nobody reads '{name}'");
        }
    }
}
