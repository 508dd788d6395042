//! The invariants of ARCHITECTURE.md, executed.
//!
//! A test that fails here says that code and map disagree. Often the code is wrong; where the map proves wrong, change
//! ARCHITECTURE.md first, then the tables here, then the code, in one commit that says why.

use std::collections::BTreeSet;

use tests::{Breach, TextFile, circles, files, hold, metadata, without_source};

/// What each crate may build on, of ours. Data flows down this list and back up as records; nothing points up.
const LAYERS: [(&str, &[&str]); 22] = [
    ("units", &[]),
    ("runtime", &["units"]),
    ("device", &["units", "runtime"]),
    ("record", &["units", "device"]),
    ("workload", &["units", "runtime", "device", "record"]),
    ("fio", &["units"]),
    ("parity", &["units"]),
    ("array", &["units", "runtime", "device", "record", "parity"]),
    ("storm", &["units", "runtime", "device", "array"]),
    ("host", &["units"]),
    // For tests and benches only.
    ("scratch", &["units"]),
    ("uring", &["units", "runtime", "device", "host", "scratch"]),
    ("filesystem", &["units"]),
    ("machine", &["units", "runtime", "device", "record", "array", "filesystem"]),
    ("nbd", &["units", "runtime", "device", "host", "uring"]),
    ("analysis", &["units", "record"]),
    ("report", &["units", "record", "analysis"]),
    ("raid", &["units", "runtime", "device", "array", "host", "uring", "nbd", "report"]),
    (
        "lab",
        &[
            "units", "runtime", "device", "record", "workload", "fio", "array", "uring", "host", "machine", "nbd",
            "analysis", "report",
        ],
    ),
    ("studies", &["units", "runtime", "record", "workload", "machine", "analysis", "lab"]),
    (
        "cli",
        &[
            "units", "runtime", "device", "record", "workload", "fio", "array", "storm", "uring", "host", "machine",
            "nbd", "analysis", "report", "raid", "lab", "studies",
        ],
    ),
    // Not a crate of the product, but it measures all of them.
    (
        "benchsuite",
        &[
            "units", "runtime", "device", "record", "workload", "parity", "array", "uring", "host", "scratch",
            "machine", "nbd", "analysis", "report", "lab",
        ],
    ),
];

/// Crates through which the kernel is reached; std has no io_uring, no `O_DIRECT`, no `sched_setaffinity`.
const KERNEL: [&str; 5] = ["io-uring", "rustix", "libc", "nix", "procfs"];

/// Sources of one crate's product, without its tests.
fn product<'f>(files: &'f [TextFile], names: &'f [&str]) -> impl Iterator<Item = &'f TextFile> {
    let of = |file: &&TextFile| file.is_rust() && file.product_of().is_some_and(|name| names.contains(&name));
    files.iter().filter(of)
}

fn paths_into(names: &[&str], modules: &[&str]) -> Vec<Breach> {
    let files = files();
    let breach = |file: &TextFile| {
        let found = file.code().paths_into(modules);
        found.into_iter().map(|(line, path)| Breach::new(&file.path, line, path)).collect::<Vec<_>>()
    };
    product(&files, names).flat_map(breach).collect()
}

/// Dependencies (not those of tests) on one of `others`, in crates that are not among `allowed`.
fn dependencies_on(others: &[&str], allowed: &[&str]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for package in metadata().packages {
        for dependency in &package.dependencies {
            let for_tests = dependency.kind == cargo_metadata::DependencyKind::Development;
            if !for_tests && others.contains(&dependency.name.as_str()) && !allowed.contains(&package.name.as_str()) {
                breaches.push(Breach::new(package.name.as_str(), 0, format!("depends on {}", dependency.name)));
            }
        }
    }
    breaches
}

#[test]
fn crates_depend_only_on_those_below_them() {
    let packages = metadata().packages;
    let ours: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let mut breaches = Vec::new();
    for package in packages.iter().filter(|package| package.name.as_str() != "tests") {
        let name = package.name.as_str();
        let Some((_, below)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
            breaches.push(Breach::new(name, 0, "is not in LAYERS of tests/architecture.rs"));
            continue;
        };
        for dependency in &package.dependencies {
            let other = dependency.name.as_str();
            let for_tests = dependency.kind == cargo_metadata::DependencyKind::Development;
            if ours.contains(&other) && !for_tests && !below.contains(&other) {
                breaches.push(Breach::new(name, 0, format!("depends on {other}")));
            }
        }
    }
    hold(
        breaches,
        "pass what is needed in through an interface of a lower crate, or change the map in ARCHITECTURE.md and LAYERS",
    );
}

/// The table above is itself in order: each crate stands below all that may build on it.
#[test]
fn layers_point_down() {
    let mut breaches = Vec::new();
    for (place, (name, below)) in LAYERS.iter().enumerate() {
        let lower = &LAYERS[..place];
        let up = below.iter().filter(|other| !lower.iter().any(|(layer, _)| layer == *other));
        breaches.extend(up.map(|other| Breach::new(*name, 0, format!("may depend on {other}, which is not below it"))));
    }
    hold(breaches, "order LAYERS from the bottom up");
}

/// Circles of modules that stood when the rule was made, each with its crate. The list only shrinks.
const CIRCLES: [(&str, &str); 24] = [
    ("units", "bytes rate"),
    ("runtime", "executor timer"),
    ("record", "files folder index"),
    ("record", "keeper log recording"),
    ("workload", "behind generator priority stream"),
    ("workload", "context control rules"),
    ("fio", "content job load priority rules"),
    ("parity", "avx2 avx512 gfni kernel lanes scalar sse2 ssse3"),
    (
        "array",
        "areas array bad copies creation format gather grow integrity intent journal md member open pace ppl \
         readd room roster settings spare standing state stripe toll twin unreadable unsynced upkeep",
    ),
    ("storm", "client disk growth outage recovery returned shortage storm world"),
    ("host", "claim guard refusal"),
    ("uring", "engine options target"),
    ("uring", "flight ring"),
    ("uring", "listener socket"),
    (
        "machine",
        "adapter backplane component controller cpu disk disk_array driver endpoint filesystem flash joined \
         kinds load massbus memory mscp network os packet raid scsi server system system_bus unbuffered \
         volume",
    ),
    ("nbd", "around carry"),
    ("nbd", "tls wire"),
    ("raid", "alias given halves label members upkeep"),
    ("raid", "control keeper newcomer orders"),
    ("lab", "advice document gain hosts jobs live modelled replay runner simulated timeline"),
    ("lab", "copies described experiment file offered pattern slow source steady system target written"),
    ("lab", "explain kept"),
    ("lab", "journal verification"),
    ("cli", "abreast args compare explain hosts jobs model page resume run search survey sweep watch"),
];

#[test]
fn modules_of_a_crate_stand_in_no_circle() {
    let files = files();
    let mut found = Vec::new();
    for (name, _) in LAYERS {
        let words = |circle: BTreeSet<String>| circle.into_iter().collect::<Vec<_>>().join(" ");
        found.extend(circles(product(&files, &[name])).into_iter().map(|circle| (name, words(circle))));
    }
    let listed = |circle: &(&str, String)| CIRCLES.contains(&(circle.0, &circle.1));
    let new = found.iter().filter(|circle| !listed(circle));
    let new = new.map(|(name, modules)| Breach::new(*name, 0, format!("a circle of {modules}")));
    let gone = CIRCLES.iter().filter(|(name, modules)| !found.contains(&(*name, (*modules).to_owned())));
    let gone = gone.map(|(name, modules)| Breach::new(*name, 0, format!("no circle of {modules} any more")));
    hold(
        new.chain(gone),
        "move what both need into a module below them; a circle that became smaller is written into CIRCLES",
    );
}

#[test]
fn workload_and_array_name_no_clock_no_file_no_thread_no_socket() {
    hold(
        paths_into(
            &["workload", "array"],
            &["std::time", "std::fs", "std::thread", "std::net", "std::process", "std::io"],
        ),
        "these crates run unchanged in real and in virtual time: ask the Runtime for time and tasks, and a Device for storage",
    );
}

#[test]
fn machine_names_no_clock_no_thread() {
    hold(
        paths_into(&["machine"], &["std::time", "std::thread", "std::net", "std::process"]),
        "a modelled machine has no time but the Runtime's",
    );
}

#[test]
fn analysis_is_pure() {
    let world = ["std::time", "std::fs", "std::thread", "std::net", "std::process", "std::io", "std::env"];
    let mut breaches = paths_into(&["analysis"], &world);
    for file in product(&files(), &["analysis"]) {
        let prints = file.code().macros(&["print", "println", "eprint", "eprintln"]);
        breaches.extend(prints.into_iter().map(|(line, what)| Breach::new(&file.path, line, what)));
    }
    hold(breaches, "take what is needed as an argument, and return what is found");
}

#[test]
fn only_record_knows_parquet() {
    hold(
        dependencies_on(&["parquet", "arrow"], &["record"]),
        "read and write records through the `record` crate, so that there is one schema",
    );
}

#[test]
fn only_uring_host_and_runtime_know_the_kernel() {
    hold(
        // The benchsuite, which is no part of the product, asks for the processor time of its thread.
        dependencies_on(&KERNEL, &["uring", "host", "runtime", "benchsuite"]),
        "ask `host` (topology, accounting, limits) or `uring` (devices, engines); the rest of the project is portable Rust",
    );
}

#[test]
fn only_the_command_line_gives_up_on_kinds_of_errors() {
    hold(
        dependencies_on(&["anyhow", "eyre", "color-eyre"], &["cli", "benchsuite"]),
        "return one thiserror enum for each operation, whose sentences say the next step; only a program's end may erase the kind",
    );
}

#[test]
fn only_report_knows_html() {
    const TAGS: [&str; 10] =
        ["<!doctype", "<html", "<head", "<body", "<div", "<span", "<table", "<script", "<style", "<svg"];
    let mut breaches = Vec::new();
    for file in files().iter().filter(|file| file.is_rust()) {
        if matches!(file.product_of(), None | Some("report")) {
            continue;
        }
        for (line, text) in file.code().strings() {
            if let Some(tag) = TAGS.iter().find(|tag| text.to_lowercase().contains(*tag)) {
                breaches.push(Breach::new(&file.path, line, format!("writes {tag}")));
            }
        }
    }
    hold(breaches, "hand `report` the numbers, and let it make the page");
}

#[test]
fn unsafe_code_stands_only_where_it_must() {
    let mut breaches = Vec::new();
    for file in files().iter().filter(|file| file.is_rust()) {
        let allowed =
            matches!(file.crate_name(), Some("runtime" | "uring" | "parity")) || file.path == "benchsuite/src/isal.rs";
        let code = file.code();
        let lines = if allowed { code.unexplained_unsafes() } else { code.unsafes() };
        let what = if allowed { "unsafe without a SAFETY comment" } else { "unsafe" };
        breaches.extend(lines.into_iter().map(|line| Breach::new(&file.path, line, what)));
    }
    hold(
        breaches,
        "only runtime, uring, parity and the call of ISA-L in benchsuite hold unsafe code, and every block and implementation says in `// SAFETY: ` why it is sound",
    );
}

#[test]
fn every_value_of_a_part_or_system_has_a_source() {
    let mut breaches = Vec::new();
    for file in files() {
        let described = file.path.starts_with("parts/") || file.path.starts_with("systems/");
        if described && file.path.ends_with(".toml") {
            let found = without_source(&file.text);
            breaches.extend(found.into_iter().map(|(line, path)| Breach::new(&file.path, line, path)));
        }
    }
    hold(
        breaches,
        "write { value = …, source = \"…\" }, or a `source` in the table: a published row, a data sheet, or what it was fitted on",
    );
}

/// The table of crates in ARCHITECTURE.md has a row for every crate, and none for a crate that is not there.
#[test]
fn the_map_shows_the_crates_that_stand() {
    let files = files();
    let map = files.iter().find(|file| file.path == "ARCHITECTURE.md").expect("there is a map");
    let shown: Vec<(usize, &str)> = map
        .text
        .lines()
        .enumerate()
        .filter_map(|(index, line)| Some((index + 1, line.strip_prefix("| `crates/")?.split('`').next()?)))
        .collect();
    let mut standing: Vec<&str> = files.iter().filter_map(TextFile::crate_name).collect();
    standing.dedup();
    let gone = shown.iter().filter(|(_, name)| !standing.contains(name));
    let mut breaches: Vec<Breach> = gone
        .map(|(line, name)| Breach::new(&map.path, *line, format!("shows crates/{name}, which is not there")))
        .collect();
    let missing = standing.iter().filter(|name| !shown.iter().any(|(_, row)| row == *name));
    breaches.extend(missing.map(|name| Breach::new(format!("crates/{name}"), 0, "is not on the map")));
    hold(breaches, "give each crate one row `| `crates/NAME` | what it holds |` in ARCHITECTURE.md");
}
