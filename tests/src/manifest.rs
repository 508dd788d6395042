//! A `Cargo.toml` as a person reads it: which dependencies it names, how, and with what reason beside them.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The text of a manifest, and what it says.
#[derive(Debug)]
pub struct Manifest<'t> {
    text: &'t str,
    table: Spanned<DeTable<'t>>,
}

/// One line of a table of dependencies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// The name it goes by in this workspace.
    pub name: String,
    /// Its line, counted from 1.
    pub line: usize,
    /// One of our own: it has a path.
    pub own: bool,
    /// Taken over from the workspace.
    pub inherited: bool,
}

/// One reason may cover so many lines: a crate and its companions.
const COMPANIONS: usize = 3;

impl<'t> Manifest<'t> {
    /// Reads a manifest.
    ///
    /// # Panics
    /// If it is no TOML; cargo would have refused it before.
    pub fn read(text: &'t str) -> Manifest<'t> {
        Manifest { text, table: DeTable::parse(text).expect("a manifest is TOML") }
    }

    /// What the crates of the workspace may depend on: `[workspace.dependencies]`.
    pub fn workspace_dependencies(&self) -> Vec<Dependency> {
        let workspace = self.table.get_ref().get("workspace").map(Spanned::get_ref);
        let Some(DeValue::Table(workspace)) = workspace else { return Vec::new() };
        self.dependencies(workspace.get("dependencies"))
    }

    /// What a crate depends on, for whatever purpose.
    pub fn crate_dependencies(&self) -> Vec<Dependency> {
        let table = self.table.get_ref();
        ["dependencies", "dev-dependencies", "build-dependencies"]
            .into_iter()
            .flat_map(|kind| self.dependencies(table.get(kind)))
            .collect()
    }

    /// True if the crate keeps the lints of the workspace.
    pub fn inherits_lints(&self) -> bool {
        inherited(self.table.get_ref().get("lints"))
    }

    /// Dependencies of others without a comment that says what they are for.
    pub fn without_reason(&self) -> Vec<Dependency> {
        let lines: Vec<&str> = self.text.lines().collect();
        let others: Vec<_> = self.workspace_dependencies().into_iter().filter(|dependency| !dependency.own).collect();
        let has_reason = |dependency: &&Dependency| {
            let above = lines[..dependency.line - 1].iter().rev().take(COMPANIONS);
            // Between the comment and this line stand only other dependencies of others.
            above.enumerate().find(|(_, line)| line.trim().starts_with('#')).is_some_and(|(distance, _)| {
                (1..=distance).all(|back| others.iter().any(|other| other.line == dependency.line - back))
            })
        };
        others.iter().filter(|dependency| !has_reason(dependency)).cloned().collect()
    }

    fn dependencies(&self, table: Option<&Spanned<DeValue>>) -> Vec<Dependency> {
        let Some(DeValue::Table(table)) = table.map(Spanned::get_ref) else { return Vec::new() };
        let mut dependencies: Vec<Dependency> = table
            .iter()
            .map(|(name, value)| Dependency {
                name: name.get_ref().to_string(),
                line: self.text[..name.span().start].matches('\n').count() + 1,
                own: matches!(value.get_ref(), DeValue::Table(keys) if keys.contains_key("path")),
                inherited: inherited(Some(value)),
            })
            .collect();
        dependencies.sort_by_key(|dependency| dependency.line);
        dependencies
    }
}

fn inherited(value: Option<&Spanned<DeValue>>) -> bool {
    let Some(DeValue::Table(keys)) = value.map(Spanned::get_ref) else { return false };
    matches!(keys.get("workspace").map(Spanned::get_ref), Some(DeValue::Boolean(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dependencies: &[Dependency]) -> Vec<&str> {
        dependencies.iter().map(|dependency| dependency.name.as_str()).collect()
    }

    #[test]
    fn a_dependency_without_reason_is_found() {
        let text = r#"
[workspace.dependencies]
# our own
units = { path = "crates/units" }
naked = "1"
# text and numbers
serde = { version = "1", features = ["derive"] }
serde_json = "1"
toml = "1"
stowaway = "1"

after_a_gap = "1"
# errors
thiserror = "2"
"#;
        let manifest = Manifest::read(text);
        assert_eq!(names(&manifest.without_reason()), ["naked", "stowaway", "after_a_gap"]);
        assert_eq!(manifest.workspace_dependencies().iter().filter(|dependency| dependency.own).count(), 1);
    }

    #[test]
    fn what_is_not_inherited_is_found() {
        let text = r#"
[dependencies]
units.workspace = true
serde = { workspace = true, optional = true }
rand = "0.10"
[dev-dependencies]
proptest = { version = "1", default-features = false }
"#;
        let manifest = Manifest::read(text);
        let own_way: Vec<_> = manifest.crate_dependencies().into_iter().filter(|d| !d.inherited).collect();
        assert_eq!(names(&own_way), ["rand", "proptest"]);
        assert!(!manifest.inherits_lints());
        assert!(Manifest::read("[lints]\nworkspace = true").inherits_lints());
    }
}
