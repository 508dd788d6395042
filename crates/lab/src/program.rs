//! The four programs of the 4.2BSD study as streams: `program = "write_8192"` in a stream says the rest of it.
//!
//! Each is a loop of calls with one buffer over 8 MiB of a file, one call at a time. The write programs make the file;
//! the others find it. What [`crate::bsd`] runs on a real directory, a stream asks of a modelled file system.

use std::borrow::Cow;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::bsd::Program;
use crate::source::{Source, SourceError};

/// The keys of a stream that a program stands for: what all have in common, the size of a call, the file.
const fn stands_for(program: Program) -> [&'static str; 3] {
    const COMMON: &str = "pattern = \"sequential\"\ndepth = 1";
    const BY_4096: &str = "size = \"4096 B\"\nlimit = { requests = 2048 }";
    const BY_8192: &str = "size = \"8192 B\"\nlimit = { requests = 1024 }";
    const NEW: &str = "operation = \"write\"\nfile = \"absent\"";
    match program {
        Program::Read8192 => [COMMON, BY_8192, "operation = \"read\"\nfile = \"there\""],
        Program::Write4096 => [COMMON, BY_4096, NEW],
        Program::Write8192 => [COMMON, BY_8192, NEW],
        Program::Rewrite8192 => [COMMON, BY_8192, "operation = \"write\"\nfile = \"there\""],
    }
}

/// Writes out what the programs of a document's streams stand for.
pub(crate) fn expand(source: &Source, document: &mut DeTable) -> Result<(), SourceError> {
    let Some(DeValue::Array(streams)) = document.get_mut("stream").map(Spanned::get_mut) else { return Ok(()) };
    for index in 0..streams.len() {
        if let Some(DeValue::Table(stream)) = streams.get_mut(index).map(Spanned::get_mut) {
            expand_stream(source, stream)?;
        }
    }
    Ok(())
}

fn expand_stream(source: &Source, stream: &mut DeTable) -> Result<(), SourceError> {
    let Some(given) = stream.remove("program") else { return Ok(()) };
    let place = given.span();
    let name = given.get_ref().as_str().unwrap_or_default();
    let Some(program) = Program::ALL.into_iter().find(|program| program.name() == name) else {
        let known = Program::ALL.map(|program| format!("\"{}\"", program.name())).join(", ");
        return Err(source.error(place, format!("the programs are {known}")));
    };
    let keys = |text| DeTable::parse(text).expect("what a program stands for is TOML").into_inner();
    for (key, value) in stands_for(program).into_iter().flat_map(keys) {
        let key = key.into_inner();
        if let Some((other, _)) = stream.get_key_value(&*key) {
            return Err(source
                .error(other.span(), format!("the program {name} says `{key}` itself"))
                .help(format!("leave out `{key}`, or `program`")));
        }
        stream.insert(Spanned::new(place.clone(), key), moved(value, &place));
    }
    Ok(())
}

/// A value at the place of the program.
fn moved<'t>(value: Spanned<DeValue<'t>>, place: &Range<usize>) -> Spanned<DeValue<'t>> {
    let value = match value.into_inner() {
        DeValue::Table(table) => {
            let entry = |(key, value): (Spanned<Cow<'t, str>>, _)| {
                (Spanned::new(place.clone(), key.into_inner()), moved(value, place))
            };
            DeValue::Table(table.into_iter().map(entry).collect())
        }
        plain => plain,
    };
    Spanned::new(place.clone(), value)
}
