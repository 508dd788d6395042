//! Which options there are, and what becomes of each.
//!
//! The classes are those of a count over 411 public job files: some forty options change what is asked of the device and are kept; others change how
//! fio goes about it, or what it prints, and have nothing to act on here. For each of these a sentence says what is done instead, and
//! whether that is the same.

use crate::Place;

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
    /// No option of fio that is known here.
    Unknown,
    /// It would change nothing that matters, or only what fio prints.
    NoEffect,
}

impl Fate {
    /// In words that go before the list.
    pub fn title(self) -> &'static str {
        match self {
            Fate::NotKept => "not kept, so that results may differ from fio's",
            Fate::Unknown => "not known",
            Fate::NoEffect => "without effect here",
        }
    }
}

/// The name under which an option is known here, if it goes by several.
pub fn canonical(name: &str) -> &str {
    match name {
        "blocksize" => "bs",
        "readwrite" => "rw",
        "wait_for_previous" => "stonewall",
        "timeout" => "runtime",
        "start_delay" => "startdelay",
        "io_limit" => "io_size",
        "blockalign" => "ba",
        "blocksize_range" => "bsrange",
        "blocksize_unaligned" => "bs_unaligned",
        "filename_fmt" => "filename_format",
        "iodepth_batch_submit" => "iodepth_batch",
        other => other,
    }
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
    // Read to be refused, or noted with what it is that they are not kept for.
    "random_distribution",
    "thinktime_blocks",
    "exec_prerun",
    "verify",
    "do_verify",
    "verify_backlog",
    "verify_only",
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
];

/// What becomes of an option that is not read: nothing for those that are.
pub fn fate(name: &str) -> Option<(Fate, &'static str)> {
    if KEPT.contains(&name) {
        return None;
    }
    let no_effect = |what| Some((Fate::NoEffect, what));
    let not_kept = |what| Some((Fate::NotKept, what));
    match name {
        "description" | "unit_base" => no_effect("it is about what fio prints"),
        "overwrite" => no_effect("files that are made are filled before the first request"),
        "randrepeat" | "allrandrepeat" => {
            no_effect("the seed is 1 unless randseed says otherwise, so that a run can be repeated")
        }
        "filename_format" => not_kept("files without a name are called JOB.COPY.NUMBER"),
        "opendir" => not_kept("files are named one by one"),
        "thread" => no_effect("jobs are loaded by threads in any case"),
        "fallocate" => no_effect("files that are made are filled, so their blocks are there"),
        "refill_buffers" => no_effect("each write takes another part of random memory"),
        "scramble_buffers" => no_effect("each write takes another part of random memory"),
        "create_on_open" | "create_serialize" | "create_fsync" | "openfiles" | "file_append" => {
            no_effect("files are made and opened before the first request")
        }
        "random_generator" => {
            no_effect("the order of addresses is a permutation of our own: every block once, without a map")
        }
        "gtod_reduce"
        | "disable_clat"
        | "disable_slat"
        | "disable_lat"
        | "disable_bw_measurement"
        | "clocksource"
        | "gtod_cpu" => no_effect("every request keeps its time stamps; what they cost is in the result"),
        "write_bw_log"
        | "write_iops_log"
        | "write_lat_log"
        | "write_hist_log"
        | "log_avg_msec"
        | "log_hist_msec"
        | "log_offset"
        | "log_max_value"
        | "per_job_logs"
        | "log_compression"
        | "log_store_compressed"
        | "log_unix_epoch"
        | "log_prio"
        | "write_iolog"
        | "log_issue_time"
        | "log_hist_coarseness"
        | "per_job_log"
        | "iopsavgtime"
        | "bwavgtime" => no_effect("every request is in records.parquet of the run folder"),
        "clat_percentiles" | "percentile_list" | "slat_percentiles" | "lat_percentiles" | "significant_figures" => {
            no_effect("the usual percentiles are given, of all three times")
        }
        "disk_util"
        | "unified_rw_reporting"
        | "clientname"
        | "eta"
        | "status_interval"
        | "minimal"
        | "output"
        | "output-format"
        | "eta-newline"
        | "eta_newline"
        | "stats"
        | "profile"
        | "max_latency_report" => no_effect("it is about what fio prints"),
        "hipri" | "hipri_percentage" => not_kept("completions are awaited, not polled for"),
        "fadvise_hint" => no_effect("the kernel is left to see by itself how a file is read"),
        "cpus_allowed_policy" => no_effect("all threads of the run share the processors"),
        "exitall" | "exitall_on_error" | "exit_what" => not_kept("each job ends at its own limits"),
        "nice" | "prio" | "prioclass" | "uid" | "gid" | "ioprio" | "ioscheduler" | "numa_cpu_nodes"
        | "numa_mem_policy" | "mem" | "iomem" | "hugepage-size" | "iomem_align" | "lockmem" | "cgroup"
        | "cgroup_weight" => no_effect("set it for the whole program, with the means of the system"),
        "registerfiles" | "fixedbufs" | "sqthread_poll" | "sqthread_poll_cpu" | "nonvectored" | "uncached"
        | "nowait" | "userspace_reap" => no_effect(
            "files and memory are registered with the ring in any case; `io.kernel-poll` in TOML has a kernel thread submit",
        ),
        "iodepth_batch"
        | "iodepth_batch_complete"
        | "iodepth_batch_complete_min"
        | "iodepth_batch_complete_max"
        | "iodepth_low" => not_kept(
            "requests are submitted as places become free; `io.gather` in TOML awaits several completions at a time",
        ),
        "io_submit_mode" => {
            no_effect("in an open loop, times count from the intended arrival whatever the device does")
        }
        "verify_dump" | "verify_fatal" => no_effect("each mismatch is named in the result, and the exit code is 1"),
        "verify_async"
        | "verify_async_cpus"
        | "verify_backlog_batch"
        | "verifysort"
        | "verify_sort"
        | "verifysort_nr" => no_effect("what is read is checked by the thread that reads it"),
        "verify_pattern" | "verify_interval" | "verify_offset" | "experimental_verify" => {
            no_effect("every 512 bytes that are written say what they are, in a way of our own")
        }
        "verify_state_save" | "verify_state_load" => {
            no_effect("`arraylab verify RUN` reads again what a run wrote, by its ledger")
        }
        "buffer_compress_percentage"
        | "buffer_compress_chunk"
        | "dedupe_percentage"
        | "buffer_pattern"
        | "dedupe_mode" => not_kept("what is written is random bytes, or zeroes with zero_buffers=1"),
        "lockfile" => no_effect("what is written is locked against other programs"),
        "file_service_type" => not_kept("the files of a job are used in turn"),
        "latency_target" | "latency_window" | "latency_percentile" | "latency_run" | "max_latency" => {
            not_kept("no rate or depth is searched for by a latency")
        }
        "steadystate"
        | "steadystate_check_interval"
        | "steadystate_duration"
        | "steadystate_ramp_time"
        | "ss"
        | "ss_dur"
        | "ss_ramp" => not_kept("the job ends at its limits, not when its rate is steady"),
        "rate_min"
        | "rate_iops_min"
        | "rate_cycle"
        | "thinktime_spin"
        | "thinktime_iotime"
        | "thinktime_blocks_type" => not_kept("rates are kept by arrivals, and not checked for a minimum"),
        "merge_blktrace_file" | "merge_blktrace_scalars" | "merge_blktrace_iters" => {
            not_kept("`arraylab replay` takes traces, with --speed and --on")
        }
        "zonemode"
        | "zonerange"
        | "zonecapacity"
        | "max_open_zones"
        | "job_max_open_zones"
        | "read_beyond_wp"
        | "zone_reset_threshold"
        | "zone_reset_frequency"
        | "ignore_zone_limits" => not_kept("zones of devices are not seen"),
        "flow"
        | "flow_id"
        | "flow_watermark"
        | "flow_sleep"
        | "sync_file_range"
        | "softrandommap"
        | "bs_is_seq_rand"
        | "bs_unaligned"
        | "rw_sequencer"
        | "unlink_each_loop"
        | "pre_read"
        | "write_barrier"
        | "exec_postrun"
        | "trim_percentage"
        | "trim_verify_zero"
        | "trim_backlog"
        | "trim_backlog_batch"
        | "continue_on_error"
        | "ignore_error"
        | "error_dump"
        | "size_range"
        | "fill_device"
        | "fill_fs"
        | "readonly"
        | "allow_file_create"
        | "allow_mounted_write"
        | "serialize_overlap"
        | "offset_align"
        | "io_size_range"
        | "ignore_zero"
        | "random_seed" => not_kept("it is known, and nothing here does it"),
        _ => Some((Fate::Unknown, "no option of that name is known here")),
    }
}

#[cfg(test)]
mod tests {
    use super::KEPT;

    /// One that is listed and read by nobody would be dropped without a word.
    #[test]
    fn what_is_kept_is_read() {
        let readers = [include_str!("section.rs"), include_str!("load.rs")];
        for name in KEPT {
            assert!(readers.iter().any(|text| text.contains(&format!("\"{name}\""))), "nobody reads '{name}'");
        }
    }
}
