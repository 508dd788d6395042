//! A TOML text that errors can point into.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::experiment::LANGUAGE;

/// A text and where it came from.
#[derive(Debug, Clone)]
pub struct Source {
    /// What to call it in messages: a path, or `--set`.
    pub name: String,
    /// All of it.
    pub text: String,
}

/// Something wrong at a place in a text. Displays as the message, the line, and what would be accepted.
#[derive(Debug, Clone)]
pub struct SourceError {
    source: Source,
    place: Option<Range<usize>>,
    message: String,
    help: Option<String>,
}

impl Source {
    /// An error about the bytes at `place`; without a place it is about the whole text.
    pub fn error(&self, place: impl Into<Option<Range<usize>>>, message: impl Into<String>) -> SourceError {
        SourceError { source: self.clone(), place: place.into(), message: message.into(), help: None }
    }

    /// The error of the TOML reader, in our words where its own help nobody.
    pub fn toml_error(&self, error: &toml::de::Error) -> SourceError {
        let message = error.message();
        // "invalid type: integer `4`, expected ..." comes from serde; the sentence before the first line break is
        // enough.
        let said = self.error(error.span(), message.lines().collect::<Vec<_>>().join("; "));
        match message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
            Some(key) => said.help(how_to_say(key)),
            None => said,
        }
    }
}

/// How a key is written: its line in the language's example.
fn how_to_say(key: &str) -> String {
    let all = "`arraylab help run` shows all keys";
    let line = LANGUAGE.lines().find(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(" =")));
    line.map_or_else(|| format!("add it; {all}"), |line| format!("add a line such as\n{line}\n{all}"))
}

impl SourceError {
    /// The same error with a hint below the line.
    pub fn help(mut self, help: impl Into<String>) -> SourceError {
        self.help = Some(help.into());
        self
    }

    /// The same fault, found in another text: message and hint stay.
    pub(crate) fn moved_to(self, source: Source, place: Range<usize>) -> SourceError {
        SourceError { source, place: Some(place), ..self }
    }

    /// The bytes it is about.
    pub(crate) fn place(&self) -> Option<Range<usize>> {
        self.place.clone()
    }

    /// Line and column of the place, counted from 1.
    pub fn line_and_column(&self) -> Option<(usize, usize)> {
        let start = self.place.as_ref()?.start.min(self.source.text.len());
        let before = &self.source.text[..start];
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        Some((before.matches('\n').count() + 1, column))
    }

    /// The message alone.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl std::fmt::Display for SourceError {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let mut report = Level::ERROR.primary_title(&*self.message).elements(None::<annotate_snippets::Origin>);
        if let Some(place) = &self.place {
            // A place at the very end of the text still needs a character to stand under.
            let end = self.source.text.len();
            let place = place.start.min(end)..place.end.min(end);
            let annotation = AnnotationKind::Primary.span(place);
            report =
                report.element(Snippet::source(&*self.source.text).path(&*self.source.name).annotation(annotation));
        } else {
            report = report.element(annotate_snippets::Origin::path(&*self.source.name));
        }
        if let Some(help) = &self.help {
            report = report.element(Level::HELP.message(&**help));
        }
        f.write_str(&Renderer::plain().render(&[report]))
    }
}

impl std::error::Error for SourceError {}
