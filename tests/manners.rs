//! The manners of STYLE.md, as far as a program can decide them.

use std::io::Write;
use std::path::Path;

use tests::{Breach, Manifest, TextFile, files, hold, metadata, root};

/// Past this a file holds two nouns.
const MOST_LINES: usize = 800;
/// Past this it is worth a look for the seam.
const MANY_LINES: usize = 350;

fn sources() -> Vec<TextFile> {
    files().into_iter().filter(TextFile::is_rust).collect()
}

#[test]
fn files_are_single_nouns() {
    let mut breaches = Vec::new();
    for file in sources() {
        let lines = file.text.lines().count();
        if lines > MOST_LINES {
            breaches.push(Breach::new(&file.path, 0, format!("{lines} lines")));
        } else if lines > MANY_LINES {
            // Not through `eprintln!`, which the test harness keeps to itself when a test passes.
            let _ = writeln!(std::io::stderr(), "worth a look: {} has {lines} lines", file.path);
        }
    }
    hold(breaches, "find the seam and split the file in two, each with a noun for a name");
}

#[test]
fn every_file_opens_with_what_it_is_about() {
    let silent = |file: &TextFile| !file.text.starts_with("//!");
    let breaches = sources().into_iter().filter(silent).map(|file| Breach::new(file.path, 1, "no `//!`"));
    hold(breaches, "open the file with `//!`: what it holds; its theory, formula and source; what was rejected");
}

#[test]
fn nothing_is_left_for_later() {
    let mut breaches = Vec::new();
    for file in sources() {
        let code = file.code();
        let open = code.macros(&["todo", "unimplemented", "dbg"]);
        breaches.extend(open.into_iter().map(|(line, what)| Breach::new(&file.path, line, what)));
        let ignored = code.ignored_tests();
        breaches.extend(ignored.into_iter().map(|line| Breach::new(&file.path, line, "a test that is switched off")));
    }
    hold(
        breaches,
        "build it, or leave it out and say so in LIMITS.md; a test that needs root or a tool prints that it was skipped",
    );
}

/// Where documentation opens a block of Rust, which rustdoc would run.
fn examples(text: &str) -> Vec<usize> {
    let fence = |(index, line): (usize, &str)| {
        let line = line.trim_start();
        let said = line.strip_prefix("///").or(line.strip_prefix("//!"))?;
        Some((index + 1, said.trim().strip_prefix("```")?.to_owned()))
    };
    let fences: Vec<_> = text.lines().enumerate().filter_map(fence).collect();
    let rust = |language: &str| ["", "rust", "no_run", "should_panic", "compile_fail"].contains(&language);
    // They open and close by turns.
    let opening = fences.iter().step_by(2);
    opening.filter(|(_, said)| rust(said.split(',').next().unwrap_or(""))).map(|(line, _)| *line).collect()
}

#[test]
fn tests_stand_where_cargo_looks_for_them() {
    let (files, mut breaches, mut silent) = (sources(), Vec::new(), 0);
    let metadata = metadata();
    for target in metadata.packages.iter().flat_map(|package| &package.targets) {
        let folder = target.src_path.parent().expect("a source is in a folder").as_std_path();
        let folder = folder.strip_prefix(root()).expect("a crate is in the repository").to_str().unwrap();
        let product = |file: &&TextFile| folder.ends_with("/src") && file.path.starts_with(&format!("{folder}/"));
        silent += usize::from(!target.test);
        for file in files.iter().filter(product) {
            let mut look = |lines: Vec<usize>, what: &str| {
                breaches.extend(lines.into_iter().map(|line| Breach::new(&file.path, line, what)));
            };
            if !target.test {
                look(file.code().tests(), "a test that cargo does not build, as the manifest says `test = false`");
            }
            if !target.doctest && target.is_lib() {
                look(examples(&file.text), "an example that nobody runs, as the manifest says `doctest = false`");
            }
        }
    }
    assert!(silent > 0, "some crates have no tests inside");
    hold(breaches, "take that line out of the crate's manifest, or put the test into its folder `tests`");
}

#[test]
fn every_file_of_tests_is_a_program_or_a_module_of_one() {
    let (files, mut breaches, mut modules) = (sources(), Vec::new(), 0);
    for package in &metadata().packages {
        let folder = package.manifest_path.parent().expect("a manifest is in a folder").as_std_path();
        let folder = folder.strip_prefix(root()).expect("a crate is in the repository").to_str().unwrap();
        let prefix = format!("{folder}/tests/");
        let is_program = |file: &&TextFile| {
            package.targets.iter().any(|target| target.src_path.as_std_path() == root().join(&file.path))
        };
        let is_here = |file: &&TextFile| file.path.strip_prefix(&prefix).is_some_and(|name| !name.contains('/'));
        let (programs, others): (Vec<_>, Vec<_>) = files.iter().filter(is_here).partition(is_program);
        for file in others {
            let name = file.path[prefix.len()..].trim_end_matches(".rs");
            let line = format!("mod {name};");
            match programs.iter().any(|program| program.text.lines().any(|found| found == line)) {
                true => modules += 1,
                false => breaches.push(Breach::new(&file.path, 1, "no program of tests knows this file")),
            }
        }
    }
    assert!(modules > 0, "the tests of arrays are modules of one program");
    hold(breaches, "write `mod NAME;` into the program that lies beside it, as `crates/array/tests/main.rs`");
}

#[test]
fn examples_are_told_from_drawings() {
    let text = "//! ```text\n//! a | b\n//! ```\n/// ```no_run,ignore\n/// f();\n/// ```\n    /// ```\n    /// g();\n    /// ```\n// ```";
    assert_eq!(examples(text), [4, 7]);
}

/// The targets of links in Markdown that are paths: `[text](path)`, without what follows a `#`.
fn linked_paths(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().enumerate();
    let targets = lines.flat_map(|(index, line)| {
        line.split("](").skip(1).filter_map(move |rest| Some((index + 1, rest.split_once(')')?.0)))
    });
    let path = |target: &str| !target.is_empty() && !target.contains("://");
    targets.map(|(line, target)| (line, target.split('#').next().unwrap_or(""))).filter(|(_, t)| path(t)).collect()
}

#[test]
fn links_lead_somewhere() {
    let files = files();
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        let folder = Path::new(&file.path).parent().expect("a file is in a folder");
        let broken = linked_paths(&file.text).into_iter().filter(|(_, path)| !root().join(folder).join(path).exists());
        breaches.extend(broken.map(|(line, path)| Breach::new(&file.path, line, format!("links to {path}"))));
    }
    hold(breaches, "mend the link, or write what it leads to");
}

#[test]
fn links_are_found() {
    let text = "see [a](A.md) and [b](b/c.rs#L3)\n[web](https://x.org) [here](#top)";
    assert_eq!(linked_paths(text), [(1, "A.md"), (1, "b/c.rs")]);
}

#[test]
fn the_integration_run_tests_what_the_readme_says() {
    let files = files();
    let text = |path: &str| &files.iter().find(|file| file.path == path).expect("the file is there").text;
    let says = text("README.md").lines().any(|line| line.starts_with("cargo test --workspace"));
    let runs = text(".ci/run").lines().any(|line| line == "cargo test --workspace");
    assert!(says && runs, "README.md and .ci/run name the same command: says {says}, runs {runs}");
}

/// Absolute paths of one machine: places where nobody else's repository is. Examples may speak of the home of `user`.
fn foreign_paths(text: &str) -> Vec<(usize, String)> {
    // Put together here, so that this file does not break its own rule.
    let foreign: Vec<String> =
        ["work", "tmp/wt", "home", "root", "Users"].iter().map(|name| format!("/{name}/")).collect();
    let example = "/home/user";
    let begins = |before: &str| !before.ends_with(|c: char| c.is_alphanumeric() || "._-/}$".contains(c));
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for path in &foreign {
            found.extend(
                line.match_indices(path.as_str())
                    .filter(|(at, _)| begins(&line[..*at]) && !line[*at..].starts_with(example))
                    .map(|(at, _)| {
                        (index + 1, line[at..].split([' ', '"', '`', ')']).next().unwrap_or(path).to_owned())
                    }),
            );
        }
    }
    found
}

#[test]
fn no_file_names_a_place_of_one_machine() {
    let breaches = files().into_iter().flat_map(|file| {
        let found = foreign_paths(&file.text);
        found.into_iter().map(move |(line, path)| Breach::new(&file.path, line, path))
    });
    hold(breaches, "name the place from the root of the repository, or ask the environment for it");
}

#[test]
fn places_of_one_machine_are_seen() {
    let found = foreign_paths(
        &["see /ho", "me/ann/x\nfn a() {} // \"/wo", "rk/main\"\n../ho", "me/x lib/ho", "me/ /ho", "me/user/y"]
            .concat(),
    );
    assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn every_dependency_has_a_reason_and_a_user() {
    let files = files();
    let root = files.iter().find(|file| file.path == "Cargo.toml").expect("there is a root manifest");
    let manifest = Manifest::read(&root.text);
    let unexplained = manifest.without_reason();
    let mut breaches: Vec<Breach> =
        unexplained.iter().map(|d| Breach::new(&root.path, d.line, format!("{} has no reason", d.name))).collect();
    let used: Vec<String> = metadata()
        .packages
        .into_iter()
        .flat_map(|package| package.dependencies)
        .map(|dependency| dependency.rename.unwrap_or(dependency.name))
        .collect();
    let idle = manifest.workspace_dependencies().into_iter().filter(|d| !d.own && !used.contains(&d.name));
    breaches.extend(idle.map(|d| Breach::new(&root.path, d.line, format!("no crate uses {}", d.name))));
    hold(breaches, "write one line of reason above a dependency (and its companions); take out what no crate uses");
}

#[test]
fn crates_inherit_dependencies_and_lints() {
    let mut breaches = Vec::new();
    for file in files().iter().filter(|file| file.path.ends_with("/Cargo.toml") && !file.path.starts_with("fuzz/")) {
        let manifest = Manifest::read(&file.text);
        let own_way = manifest.crate_dependencies().into_iter().filter(|dependency| !dependency.inherited);
        breaches.extend(own_way.map(|d| Breach::new(&file.path, d.line, format!("{} names its own version", d.name))));
        if !manifest.inherits_lints() {
            breaches.push(Breach::new(&file.path, 0, "has no `[lints] workspace = true`"));
        }
    }
    hold(breaches, "put versions and reasons into the root manifest, and take them over with `NAME.workspace = true`");
}
