//! The modelled machine that an experiment runs on, where it names one.
//!
//! The machine is described by files (`systems/`, `parts/`); an experiment says the way in, which disks are used, and what is changed
//! about the parts. All of it is tried when the experiment is read: the machine is put together once, so that what does not fit is
//! found before anything runs, with its place.

use machine::entry::{NoWay, Spot, Way, described};
use machine::part::PartError;
use machine::system::{Kit, Machine};
use machine::trace::Trace;
use serde::Deserialize;
use toml::Spanned;

use crate::changes::Changes;
use crate::source::{Source, SourceError};
use crate::target::Target;

/// A modelled machine and how requests enter it.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    /// Its description: one that comes with the program, or the path of a file.
    pub name: String,
    /// The way in.
    pub way: Way,
    /// Its disks that are used. Never empty.
    pub disks: Vec<Spot>,
    /// Changed values: `PART.VALUE` and the text of the new one.
    pub parts: Vec<(String, String)>,
    /// Whether the spans of requests are kept.
    pub spans: bool,
}

impl System {
    /// The description with the changes applied.
    pub fn kit(&self) -> Result<Kit, PartError> {
        let mut kit = Kit::load(&self.name)?;
        for (key, value) in &self.parts {
            kit.set(key, value)?;
        }
        Ok(kit)
    }

    /// What the load goes to: each disk, or the array of all.
    pub fn targets(&self) -> Vec<Target> {
        let target = |device: String| Target::Modelled { device };
        match self.way {
            Way::NoCopy | Way::Raw | Way::Asynchronous => {
                self.disks.iter().map(|spot| target(format!("disk-{spot}"))).collect()
            }
            Way::Array => vec![target("array".to_owned())],
        }
    }
}

/// `[system]` as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FileSystem {
    name: Spanned<String>,
    way: Spanned<String>,
    disks: Option<Spanned<FileDisks>>,
    strings: Option<Spanned<Vec<usize>>>,
    spans: Option<bool>,
    #[serde(default)]
    parts: Changes,
}

/// The keys of `[system]`.
pub(crate) const KEYS: [&str; 6] = ["name", "way", "disks", "strings", "spans", "parts"];

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "how many disks, or a list of places such as [\"0.0\", \"0.1\"]: string and disk, from 0"
)]
enum FileDisks {
    Count(usize),
    Places(Vec<String>),
}

impl FileSystem {
    /// The system, and a machine made of it.
    pub fn check(self, source: &Source) -> Result<(System, Machine), SourceError> {
        let name_place = self.name.span();
        let mut kit =
            Kit::load(self.name.get_ref()).map_err(|error| source.error(name_place.clone(), error.to_string()))?;
        for (key, place, value) in self.parts.list() {
            kit.set(key, value).map_err(|error| source.error(place.clone(), error.to_string()))?;
        }
        let build = kit.build(&runtime::Runtime::simulated(), 1, &Trace::default());
        let machine = build.map_err(|error| {
            // One of the changes, or the description itself.
            let changes: Vec<_> = self.parts.list().collect();
            let place = if let [(_, place, _)] = changes[..] { place.clone() } else { name_place };
            source.error(place, error.to_string())
        })?;
        let way_place = self.way.span();
        let way: Way =
            self.way.get_ref().parse().map_err(|error: NoWay| source.error(way_place.clone(), error.to_string()))?;
        let own =
            machine.array.as_ref().filter(|_| way == Way::Array && self.disks.is_none() && self.strings.is_none());
        let disks = match own {
            Some(array) => array.members.clone(),
            None => self.disks(source, &machine)?,
        };
        if way == Way::Array {
            described(&machine, &disks).map_err(|error| source.error(way_place, error.to_string()))?;
        }
        let parts = self.parts.list().map(|(key, _, value)| (key.to_owned(), value.to_owned())).collect();
        let system = System { name: self.name.into_inner(), way, disks, parts, spans: self.spans.unwrap_or(true) };
        Ok((system, machine))
    }

    fn disks(&self, source: &Source, machine: &Machine) -> Result<Vec<Spot>, SourceError> {
        let strings: Vec<usize> = match &self.strings {
            None => (0..machine.strings.len()).collect(),
            Some(given) => {
                let known = |string: &usize| *string < machine.strings.len();
                if let Some(unknown) = given.get_ref().iter().find(|string| !known(string)) {
                    let message =
                        format!("there is no string {unknown}; strings are 0 to {}", machine.strings.len() - 1);
                    return Err(source.error(given.span(), message));
                }
                given.get_ref().clone()
            }
        };
        let dealt = deal(machine, &strings);
        let disks = match self.disks.as_ref().map(|disks| (disks.span(), disks.get_ref())) {
            None => dealt,
            Some((place, FileDisks::Count(count))) => {
                if *count == 0 || *count > dealt.len() {
                    let message = format!("these strings have 1 to {} disks to use", dealt.len());
                    return Err(source.error(place, message));
                }
                dealt[..*count].to_vec()
            }
            Some((place, FileDisks::Places(places))) => {
                let mut spots: Vec<Spot> = Vec::new();
                for text in places {
                    let spot = text.parse().ok().filter(|spot: &Spot| {
                        machine.strings.get(spot.string).is_some_and(|string| spot.disk < string.units.len())
                    });
                    let Some(spot) = spot else {
                        let ways = machine.strings.iter().enumerate().map(|(n, string)| match string.units.len() {
                            0 => format!("none on string {n}"),
                            count => format!("{n}.0 to {n}.{}", count - 1),
                        });
                        let known = ways.collect::<Vec<_>>().join(", ");
                        return Err(source.error(place, format!("there is no disk '{text}'; there are: {known}")));
                    };
                    if spots.contains(&spot) {
                        return Err(source.error(place, format!("disk {spot} is named twice; name it once")));
                    }
                    spots.push(spot);
                }
                spots
            }
        };
        match disks.is_empty() {
            true => Err(source.error(self.name.span(), "no disk is used; a load needs at least one")),
            false => Ok(disks),
        }
    }
}

/// The disks of these strings, dealt out: the first of each string, then the second of each, and so on.
fn deal(machine: &Machine, strings: &[usize]) -> Vec<Spot> {
    let most = strings.iter().map(|string| machine.strings[*string].units.len()).max().unwrap_or(0);
    let round = |disk: usize| {
        strings
            .iter()
            .filter(move |string| disk < machine.strings[**string].units.len())
            .map(move |string| Spot { string: *string, disk })
    };
    (0..most).flat_map(round).collect()
}
