//! The experiments that come with the program, so that it works wherever it lies; the same files lie in `experiments/`.
//!
//! Those of a study are named by it and by the figure or table: `raid-i/figure-03`. Those of `load/` show what the
//! language can say, on devices of the user's. The first line of the file says what is asked.

use std::io::ErrorKind;
use std::path::Path;

use crate::source::Source;

/// Name and text of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// What it is called.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

impl Entry {
    /// What is asked, in a line.
    pub fn title(&self) -> &'static str {
        self.text.lines().next().map_or("", |line| line.trim_start_matches('#').trim())
    }
}

macro_rules! entries {
    ($($name:literal),* $(,)?) => {
        &[$(Entry { name: $name, text: include_str!(concat!("../../../experiments/", $name, ".toml")) }),*]
    };
}

/// All of them, by name.
pub const EXPERIMENTS: &[Entry] = entries![
    "load/hot-set",
    "load/mult",
    "load/recorder",
    "load/steady-state",
    "load/verify",
    "max/figure-01",
    "max/figure-02",
    "max/figure-03",
    "max/figure-04",
    "max/figure-05",
    "max/figure-06",
    "max/figure-07",
    "max/figure-08",
    "max/figure-09",
    "max/figure-10",
    "max/figure-11",
    "max/figure-12",
    "max/figure-13",
    "max/figure-14",
    "max/figure-15",
    "max/figure-16",
    "max/figure-17",
    "max/memory",
    "max/nvme-24",
    "max/nvme-24-simultaneous",
    "max/parallel-splitting",
    "nfs/load",
    "raid-i/figure-03",
    "raid-i/figure-04",
    "raid-i/figure-05",
    "raid-i/figure-06",
    "raid-i/figure-07",
    "raid-i/figure-08",
    "raid-i/figure-09",
    "raid-i/figure-10",
    "raid-i/figure-11",
    "raid-i/figure-12",
    "raid-i/figure-13",
    "raid-i/figure-14",
    "raid-i/figure-15",
    "raid-i/figure-16",
    "raid-i/figure-17",
    "raid-i/figure-18",
    "raid-i/figure-19",
    "raid-i/figure-20",
    "raid-i/section-4.4",
    "raid-i/section-5",
    "raid-i/section-5-adapter",
    "raid-i/section-5-random",
    "raid-i/table-03",
    "raid-i/table-04",
    "raid-i/table-05",
    "raid-i/table-06",
    "raid-i/table-07",
    "raid-i/table-08",
    "raid-i/table-09",
    "raid-i/table-10",
    "raid-i/table-11",
    "raid-i/table-12",
    "raid-i/table-13",
    "raid-i/table-14",
    "raid-i/table-15",
    "raid-i/table-16",
    "raid-i/table-17",
    "raid-i/table-18",
    "raid-i/table-19",
    "raid-i/table-20",
    "raid-i/table-21",
    "raid-i/table-22",
    "raid-i/table-23",
    "raid-i/table-24",
    "raid-i/table-25",
    "raid-i/table-26",
    "raid-i/table-27",
    "raid-i/table-28",
    "raid-i/table-29",
    "raid-i/table-30",
    "raid-i/table-31",
    "raid-i/table-32",
    "raid-i/table-32-bandwidth",
    "rounds/buffered",
    "rounds/depth",
    "rounds/fence",
    "rounds/figure-2",
    "rounds/figure-3",
    "rounds/one-disk",
    "rounds/pipelining",
    "rounds/policy",
    "rounds/sequential-128",
    "rounds/small-blocks",
    "rounds/table-1",
    "rounds/table-2",
    "rounds/table-3",
    "rounds/table-4",
    "rounds/table-5",
    "scb/figure-04",
    "scb/figure-05",
    "scb/figure-06",
    "scb/figure-07",
    "scb/figure-08",
    "scb/figure-09",
    "scb/figure-10",
    "scb/figure-11",
    "scb/heavy",
    "scb/medium",
    "scb/overtake",
    "scb/university",
    "scb/very-heavy",
    "vax/4.3bsd",
    "vax/750",
    "vax/780",
    "vax/controller-queue",
    "vax/emulex",
    "vax/evolution",
    "vax/log",
    "vax/queues",
    "vax/rotational-delay",
    "vax/search-lead",
    "vax/track-buffer",
    "vax/uda50",
];

/// Why an experiment cannot be had.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum FindError {
    /// Neither a file nor a name.
    #[error(
        "there is no file '{name}', nor does an experiment of that name come with the program; `arraylab experiments` lists those that do, `arraylab help run` shows how a file is written"
    )]
    Unknown { name: String },
    /// Not a text that can be read.
    #[error("{name}: {error}; give the path of an experiment's TOML file, or a name that `arraylab experiments` lists")]
    Unreadable { name: String, error: std::io::Error },
}

/// The experiment of that path or, if there is no such file, of that name.
pub fn find(path: &Path) -> Result<Source, FindError> {
    let name = path.display().to_string();
    match std::fs::read(path) {
        Ok(bytes) => {
            // Job files may have comments and names of any bytes; TOML is UTF-8.
            let text = fio::bytes::text(&bytes);
            match std::str::from_utf8(&bytes) {
                Err(_) if !fio::is_meant(path, &text) => {
                    let error = std::io::Error::new(ErrorKind::InvalidData, "stream did not contain valid UTF-8");
                    Err(FindError::Unreadable { name, error })
                }
                _ => Ok(Source { name, text }),
            }
        }
        Err(error) => match (named(&name), error.kind()) {
            (Some(source), _) => Ok(source),
            (None, ErrorKind::NotFound) => Err(FindError::Unknown { name }),
            (None, _) => Err(FindError::Unreadable { name, error }),
        },
    }
}

/// The experiment of that name that comes with the program.
pub fn named(name: &str) -> Option<Source> {
    let entry = EXPERIMENTS.iter().find(|entry| entry.name == name)?;
    Some(Source { name: format!("experiments/{name}.toml"), text: entry.text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_comes_with_the_program_and_has_a_title_and_its_own_name() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let mut files: Vec<String> = Vec::new();
        for study in folder.read_dir().unwrap() {
            let study = study.unwrap();
            for file in study.path().read_dir().unwrap() {
                let file = file.unwrap().file_name().into_string().unwrap();
                let stem = file.strip_suffix(".toml").expect("experiments are TOML files");
                files.push(format!("{}/{stem}", study.file_name().into_string().unwrap()));
            }
        }
        files.sort();
        let names: Vec<&str> = EXPERIMENTS.iter().map(|entry| entry.name).collect();
        assert_eq!(names, files);
        for entry in EXPERIMENTS {
            assert!(entry.text.starts_with("# ") && entry.title().len() > 20, "{}", entry.name);
            assert!(entry.text.contains(&format!("name = \"{}\"", entry.name)), "{}", entry.name);
        }
    }

    #[test]
    fn a_name_that_is_none_says_where_names_are() {
        let said = find(Path::new("raid-i/figure-02")).unwrap_err().to_string();
        assert!(said.contains("no file 'raid-i/figure-02'") && said.contains("arraylab experiments"), "{said}");
        assert!(find(Path::new("raid-i/figure-03")).unwrap().text.contains("Figure 3"));
    }
}
