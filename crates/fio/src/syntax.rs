//! Sections and options, line by line.
//!
//! A line is a section `[name]`, an option `name=value`, a bare `name`, or `include FILE`. What follows a `;` or `#` is
//! a comment wherever it stands: fio cuts there, too, even within a value. `${NAME}` is a variable of the environment,
//! empty if it is not set. `$ncpus`, `$pagesize` and `$mb_memory` are the machine's, and a value that had one of them
//! is a formula. Options of `[global]` (and of any section whose name begins so, as in fio) are for all jobs after it;
//! a later `[global]` adds to it and replaces.

use crate::{JobError, Place, Unset, arithmetic};

/// What a job file may ask for outside of itself.
pub struct Surroundings<'s> {
    /// A variable of the environment.
    pub variable: &'s dyn Fn(&str) -> Option<String>,
    /// What a keyword stands for: `$ncpus`, `$pagesize`, `$mb_memory`.
    pub keyword: &'s dyn Fn(&str) -> Option<u64>,
    /// A file to include, by its name and that of the file that includes it; or why it cannot be had.
    pub include: &'s dyn Fn(&str, &str) -> Result<Included, String>,
}

/// A file that another one includes: its text, and the name under which it was found.
pub type Included = (String, String);

/// One option of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// As it is written; fio tells large letters from small ones.
    pub name: String,
    /// What stands behind the `=`; nothing of a bare word.
    pub value: Option<String>,
    /// Where.
    pub place: Place,
    /// Variables that it uses and that are not set.
    pub unset: Unset,
}

/// A job with its options, those of `[global]` first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// What stands in brackets.
    pub name: String,
    /// Where.
    pub place: Place,
    /// The options in order; of two with one name the later holds.
    pub options: Vec<Given>,
    /// How many of them are those of `[global]`.
    pub inherited: usize,
}

/// Deeper nesting of includes is a circle.
const MOST_INCLUDES: usize = 8;

/// Reads the sections of a text that are jobs.
pub fn read(name: &str, text: &str, surroundings: &Surroundings) -> Result<Vec<Section>, JobError> {
    let mut reader = Reader { surroundings, global: Vec::new(), sections: Vec::new(), at: At::Nothing };
    reader.file(name, text, 0)?;
    Ok(reader.sections)
}

struct Reader<'s> {
    surroundings: &'s Surroundings<'s>,
    global: Vec<Given>,
    sections: Vec<Section>,
    at: At,
}

/// To what the next option belongs.
enum At {
    Nothing,
    Global,
    Job,
}

impl Reader<'_> {
    fn file(&mut self, name: &str, text: &str, depth: usize) -> Result<(), JobError> {
        for (number, line) in (1..).zip(text.lines()) {
            let place = Place { file: name.to_owned(), line: number };
            let line = line.split([';', '#']).next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if let Some(rest) = line.strip_prefix('[') {
                let Some(title) = rest.strip_suffix(']') else {
                    return Err(JobError::Unclosed { place, line: line.to_owned() });
                };
                self.section(title.trim(), place);
            } else if let Some(file) = line.strip_prefix("include ") {
                self.include(file.trim(), place, depth)?;
            } else {
                self.option(line, place)?;
            }
        }
        Ok(())
    }

    fn section(&mut self, title: &str, place: Place) {
        if title.starts_with("global") {
            self.at = At::Global;
            return;
        }
        self.at = At::Job;
        let (options, inherited) = (self.global.clone(), self.global.len());
        self.sections.push(Section { name: title.to_owned(), place, options, inherited });
    }

    fn include(&mut self, file: &str, place: Place, depth: usize) -> Result<(), JobError> {
        if depth >= MOST_INCLUDES {
            return Err(JobError::Circle { place, most: MOST_INCLUDES });
        }
        let found = (self.surroundings.include)(file, &place.file);
        let (found, text) = found.map_err(|error| JobError::Include { place, error })?;
        self.file(&found, &text, depth + 1)
    }

    fn option(&mut self, line: &str, place: Place) -> Result<(), JobError> {
        let mut unset = Unset::default();
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim(), Some(self.expand(value.trim(), &mut unset))),
            None => (line, None),
        };
        let given = Given { name: name.to_owned(), value, place, unset };
        match (&self.at, self.sections.last_mut()) {
            (At::Global, _) => self.global.push(given),
            (At::Job, Some(section)) => section.options.push(given),
            _ => return Err(JobError::NoSection { place: given.place, line: line.to_owned() }),
        }
        Ok(())
    }

    /// `${NAME}` by the environment's value, and keywords by the machine's. What is not closed stays as it is.
    fn expand(&self, text: &str, unset: &mut Unset) -> String {
        let (mut expanded, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, behind)) = after.split_once('}') else { break };
            expanded.push_str(before);
            match (self.surroundings.variable)(name) {
                Some(value) => expanded.push_str(&value),
                None => unset.0.push(name.to_owned()),
            }
            rest = behind;
        }
        expanded.push_str(rest);
        let mut formula = false;
        for keyword in ["$pagesize", "$mb_memory", "$ncpus"] {
            if expanded.contains(keyword)
                && let Some(value) = (self.surroundings.keyword)(keyword)
            {
                expanded = expanded.replace(keyword, &value.to_string());
                formula = true;
            }
        }
        let value = if formula { arithmetic::value(&expanded) } else { None };
        value.map_or(expanded, |value| value.to_string())
    }
}
