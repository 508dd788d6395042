//! The text format of Prometheus, version 0.0.4: families of samples, each with its help and its type.
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>

use std::fmt::Write;

/// A document that grows by one family at a time.
#[derive(Default)]
pub struct Exposition(String);

impl Exposition {
    /// Adds a family. What stands behind its name in each line, labels and value, are the samples; a family without any
    /// is left out.
    pub fn family(&mut self, name: &str, kind: &str, help: &str, samples: impl IntoIterator<Item = String>) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_some() {
            let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
            samples.for_each(|sample| self.0.push_str(&format!("{name}{sample}\n")));
        }
    }

    /// All of it.
    pub fn text(self) -> String {
        self.0
    }
}

/// A label's value, as it stands between its quotes.
pub fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
