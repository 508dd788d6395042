//! Circles of modules: several of one crate, each of which needs the others, so that none can be read, tested or moved
//! by itself.
//!
//! A module here is one that stands in the crate's root, with all that is below it. It needs another one if it names a
//! path into it (`crate::other::Thing`), or something that the root passes on from it (`crate::Thing`).

use std::collections::{BTreeMap, BTreeSet};

use crate::TextFile;

/// The circles of a crate whose product are these files: each circle's modules in the order of their names.
pub fn circles<'f>(files: impl Iterator<Item = &'f TextFile>) -> Vec<BTreeSet<String>> {
    let mut needs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut passed_on = BTreeMap::new();
    for file in files {
        let paths: Vec<Vec<String>> =
            file.code().paths().into_iter().map(|(_, path)| path.split("::").map(str::to_owned).collect()).collect();
        match module_of(&file.path) {
            Some(module) => {
                let named = paths.into_iter().filter(|path| path[0] == "crate").map(|path| path[1].clone());
                needs.entry(module).or_default().extend(named);
            }
            None => passed_on.extend(paths.into_iter().map(|path| (path[path.len() - 1].clone(), path[0].clone()))),
        }
    }
    let modules: BTreeSet<String> = needs.keys().cloned().collect();
    for (module, needed) in &mut needs {
        // A module may have the name of something that is passed on: then the module is meant.
        let of_module =
            |name| if modules.contains(&name) { name } else { passed_on.get(&name).cloned().unwrap_or(name) };
        let others = std::mem::take(needed).into_iter().map(of_module);
        *needed = others.filter(|other| other != module && modules.contains(other)).collect();
    }
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        modules.iter().map(|from| (from, reach(from, &needs))).collect();
    let circle = |of: &String| -> BTreeSet<String> {
        modules.iter().filter(|other| reached[of].contains(other) && reached[*other].contains(of)).cloned().collect()
    };
    let found: BTreeSet<BTreeSet<String>> = modules.iter().map(circle).filter(|circle| circle.len() > 1).collect();
    found.into_iter().collect()
}

/// All that a module needs, and what that needs.
fn reach<'n>(from: &'n String, needs: &'n BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&'n String> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        open.extend(needs[module].iter().filter(|other| reached.insert(*other)));
    }
    reached
}

/// The module of the root that a source belongs to; nothing for the root itself.
fn module_of(path: &str) -> Option<String> {
    let (_, inside) = path.split_once("/src/")?;
    let module = inside.split('/').next()?.trim_end_matches(".rs");
    (!matches!(module, "lib" | "main")).then(|| module.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_need_each_other_are_a_circle() {
        let file = |path: &str, text: &str| TextFile { path: format!("crates/lab/src/{path}"), text: text.to_owned() };
        let files = [
            file("lib.rs", "mod a; mod b; mod c; mod d; pub use c::Thing; pub use c::d; pub use std::path::Path;"),
            file("a.rs", "use crate::b::{One, Two}; fn f() { b::g(); std::mem::drop(1); }"),
            file("b.rs", "mod deep;"),
            file("b/deep.rs", "use crate::Thing;"),
            file("c.rs", "fn f() { crate::a::f(); crate::Path; } pub struct Thing;"),
            file("d.rs", "use crate::a; /// [`crate::d`]\nfn f() { crate::d::f() }"),
        ];
        let names = |circle: &BTreeSet<String>| circle.iter().cloned().collect::<Vec<_>>().join(" ");
        let found: Vec<String> = circles(files.iter()).iter().map(names).collect();
        assert_eq!(found, ["a b c"], "d needs the circle, and none of it needs d");
        assert!(circles(files[..4].iter()).is_empty());
    }
}
