//! A section while it is read: its options by name, their values with their places.

use std::collections::BTreeMap;

use units::{Bytes, Duration};

use crate::JobError;
use crate::option::{Fate, KEPT, Note, canonical, fate};
use crate::syntax::{Given, Section};
use crate::value::{self, Amount, Base};

/// A section while it is read.
pub(crate) struct Reader<'s> {
    pub section: &'s Section,
    /// By name, the last of each.
    given: BTreeMap<&'s str, &'s Given>,
    pub base: Base,
    notes: &'s mut Vec<Note>,
}

impl<'s> Reader<'s> {
    pub fn new(section: &'s Section, notes: &'s mut Vec<Note>) -> Reader<'s> {
        let given: BTreeMap<&str, &Given> =
            section.options.iter().map(|given| (canonical(&given.name), given)).collect();
        let mut reader = Reader { section, given, base: Base::Binary, notes };
        for given in &section.options {
            if let Some((fate, what)) = fate(canonical(&given.name), given.value.as_deref()) {
                reader.note(given, fate, what);
            }
            if !given.unset.0.is_empty() {
                reader.note(given, Fate::Unset, "what stands there is replaced by nothing, as fio does");
            }
        }
        reader
    }

    /// An option as it was given.
    ///
    /// # Panics
    /// If the name is missing from [`KEPT`]: what is read would be said to be unknown.
    pub fn given(&self, name: &str) -> Option<&'s Given> {
        assert!(KEPT.contains(&name), "'{name}' is read, and stands in no list of what is");
        self.given.get(name).copied()
    }

    /// Every option of this name in order, those of `[global]` first.
    pub fn each_given(&self, name: &str) -> impl Iterator<Item = &'s Given> {
        assert!(KEPT.contains(&name), "'{name}' is read, and stands in no list of what is");
        self.section.options.iter().filter(move |given| canonical(&given.name) == name)
    }

    /// The section's own option, none of `[global]`.
    pub fn own(&self, name: &str) -> Option<&'s Given> {
        self.each_given(name)
            .last()
            .filter(|given| self.section.options[self.section.inherited..].iter().any(|own| std::ptr::eq(own, *given)))
    }

    /// A value for reads, writes and trims each: `a,b,c`. Of `a` all three are that, of `a,b` trims are as writes; an
    /// empty place leaves that one as it is, by an earlier line or by default. So does one at the end: `a,` is for
    /// reads alone.
    pub fn each_way<T: Clone>(
        &self,
        name: &str,
        accepted: &'static str,
        one: impl Fn(&str) -> Option<T>,
    ) -> Result<[Option<T>; 3], JobError> {
        let mut ways: [Option<T>; 3] = [None, None, None];
        for given in self.each_given(name) {
            let (place, option, unset) = (given.place.clone(), given.name.clone(), given.unset.clone());
            let Some(text) = given.value.as_deref().filter(|text| !text.is_empty()) else {
                return Err(JobError::NoValue { place, option, unset, accepted });
            };
            let parts: Vec<&str> = text.split(',').map(str::trim).collect();
            let wrong = || JobError::Value { place, option, value: text.to_owned(), unset, accepted };
            if parts.len() > 3 || parts.iter().all(|part| part.is_empty()) {
                return Err(wrong());
            }
            let read = parts.iter().map(|part| if part.is_empty() { Some(None) } else { one(part).map(Some) });
            let Some(read) = read.collect::<Option<Vec<Option<T>>>>() else { return Err(wrong()) };
            for (index, way) in ways.iter_mut().enumerate() {
                if let Some(Some(value)) = read.get(index).or(read.last()) {
                    *way = Some(value.clone());
                }
            }
        }
        Ok(ways)
    }

    fn note(&mut self, given: &Given, fate: Fate, what: &'static str) {
        let note = Note { place: given.place.clone(), option: given.name.clone(), fate, what };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Notes an option of this name if it is given.
    pub fn not_kept(&mut self, name: &str, what: &'static str) {
        if let Some(given) = self.given(name) {
            self.note(given, Fate::NotKept, what);
        }
    }

    pub fn cannot(&self, option: &str, what: impl Into<String>, next: &'static str) -> JobError {
        let place = self.given(option).map_or(&self.section.place, |given| &given.place).clone();
        JobError::Cannot { place, job: self.section.name.clone(), what: what.into(), next }
    }

    /// The value of an option by `read`, or what would be accepted.
    pub fn read<T>(
        &self,
        name: &str,
        accepted: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, JobError> {
        let Some(given) = self.given(name) else { return Ok(None) };
        let (place, option, unset) = (given.place.clone(), given.name.clone(), given.unset.clone());
        match given.value.as_deref().filter(|value| !value.is_empty()) {
            None => Err(JobError::NoValue { place, option, unset, accepted }),
            Some(value) => match read(value) {
                Some(read) => Ok(Some(read)),
                None => Err(JobError::Value { place, option, value: value.to_owned(), unset, accepted }),
            },
        }
    }

    pub fn flag(&self, name: &str) -> Result<Option<bool>, JobError> {
        let Some(given) = self.given(name) else { return Ok(None) };
        value::flag(given.value.as_deref()).map(Some).ok_or_else(|| JobError::Value {
            place: given.place.clone(),
            option: given.name.clone(),
            value: given.value.clone().unwrap_or_default(),
            unset: given.unset.clone(),
            accepted: "0 or 1, or the bare word for 1",
        })
    }

    pub fn size(&self, name: &str) -> Result<Option<Bytes>, JobError> {
        self.read(name, "a size such as 4k, 1m or 10g", |text| value::size(text, self.base))
    }

    pub fn amount(&self, name: &str) -> Result<Option<Amount>, JobError> {
        self.read(name, "a size such as 1g, or a share such as 20%", |text| value::amount(text, self.base))
    }

    pub fn time(&self, name: &str, unit: Duration) -> Result<Option<Duration>, JobError> {
        self.read(name, "a whole time such as 30, 30s, 1500ms, 5m or 1h", |text| value::time(text, unit))
    }

    pub fn number(&self, name: &str, most: u64) -> Result<Option<u64>, JobError> {
        let number = |text: &str| value::number(text, self.base).filter(|number| (1..=most).contains(number));
        self.read(name, "a whole number from 1 on, and none absurdly large", number)
    }

    /// A number that fio takes as not given where it is 0.
    pub fn none_at_zero(&self, name: &str, most: u64) -> Result<Option<u64>, JobError> {
        let number = |text: &str| value::number(text, self.base).filter(|number| *number <= most);
        Ok(self.read(name, "a whole number, and none absurdly large; 0 for none", number)?.filter(|number| *number > 0))
    }

    pub fn text(&self, name: &str) -> Result<Option<String>, JobError> {
        self.read(name, "a text", |text| Some(text.to_owned()))
    }
}
