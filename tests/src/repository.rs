//! The files of the repository: those that git tracks, and those that it would take if they were added now.

use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{Metadata, MetadataCommand};

use crate::Code;

/// A text file of the repository.
#[derive(Debug, Clone)]
pub struct TextFile {
    /// From the root, with `/` between its parts.
    pub path: String,
    /// All of it.
    pub text: String,
}

impl TextFile {
    /// True for Rust sources.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The crate it belongs to, if it is one of those under `crates/`.
    pub fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// The crate whose product it is part of: under `src/`, so neither a test nor a benchmark.
    pub fn product_of(&self) -> Option<&str> {
        let name = self.crate_name()?;
        self.path["crates/".len() + name.len()..].starts_with("/src/").then_some(name)
    }

    /// The tokens of a Rust source.
    ///
    /// # Panics
    /// If it is not Rust.
    pub fn code(&self) -> Code {
        Code::read(&self.text).unwrap_or_else(|error| panic!("{}: {error}", self.path))
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package is a folder of the repository").to_owned()
}

/// All text files, in the order of their paths. Files that are not UTF-8 (images, traces) are passed over.
///
/// # Panics
/// If git cannot list them: these tests are about a repository.
pub fn files() -> Vec<TextFile> {
    let root = root();
    // A clone that belongs to another user (a container, a CI machine) is no reason for git to refuse a list of names.
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.current_dir(&root).output().expect("git runs; install it, or run the tests of single crates");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git lists the files of {}; it said: {said}", root.display());
    let names = String::from_utf8(output.stdout).expect("file names of the repository are UTF-8");
    let mut paths: Vec<&str> = names.split_terminator('\0').collect();
    paths.sort_unstable();
    let read = |path: &str| {
        // Deleted in the working tree, but not yet in the index; or no text.
        let text = std::fs::read_to_string(root.join(path)).ok()?;
        Some(TextFile { path: path.to_owned(), text })
    };
    let files: Vec<TextFile> = paths.into_iter().filter_map(read).collect();
    assert!(files.iter().any(TextFile::is_rust), "there are sources in {}", root.display());
    files
}

/// The workspace as cargo sees it, without the crates of others (which would need the network, or a lock file that
/// fits).
///
/// # Panics
/// If cargo refuses the manifests.
pub fn metadata() -> Metadata {
    let manifest = root().join("Cargo.toml");
    MetadataCommand::new().manifest_path(manifest).no_deps().exec().expect("cargo reads the workspace's manifests")
}

#[test]
fn a_file_knows_whose_product_it_is() {
    let product = |path: &str| {
        let file = TextFile { path: path.into(), text: String::new() };
        (file.crate_name().map(str::to_owned), file.product_of().map(str::to_owned))
    };
    let array = Some("array".to_owned());
    assert_eq!(product("crates/array/src/write/full.rs"), (array.clone(), array.clone()));
    assert_eq!(product("crates/array/tests/degraded.rs"), (array, None));
    assert_eq!(product("tests/src/code.rs"), (None, None));
}
