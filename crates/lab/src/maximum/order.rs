//! The order in which devices are added: so that two share a link as late as possible.
//!
//! Paths of this machine are dealt over the tree of what they stand on, as the survey does ([`host::level`]). Of
//! exports over NBD only the server is known: each server is a link of its own.

use host::level::{group, round_robin};
use host::topology::Target as Topology;

use crate::target::Target;

/// The targets, ordered. `topology` is that of those that are paths, in their order.
pub fn order(targets: &[Target], topology: &[Topology]) -> Vec<Target> {
    let paths: Vec<&Target> = targets.iter().filter(|target| matches!(target, Target::Path(_))).collect();
    let mut links: Vec<Vec<Target>> = Vec::new();
    if !paths.is_empty() {
        links.push(group(topology).order().into_iter().map(|path| paths[path].clone()).collect());
    }
    let mut servers: Vec<(&nbd::Place, Vec<Target>)> = Vec::new();
    for target in targets {
        let Target::Nbd(uri) = target else { continue };
        match servers.iter_mut().find(|(place, _)| **place == uri.place) {
            Some((_, exports)) => exports.push(target.clone()),
            None => servers.push((&uri.place, vec![target.clone()])),
        }
    }
    links.extend(servers.into_iter().map(|(_, exports)| exports));
    round_robin(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_are_dealt_over_their_servers() {
        let targets: Vec<Target> = ["a/1", "a/2", "b/1", "b/2", "c/1"]
            .map(|name| {
                let (server, export) = name.split_once('/').unwrap();
                format!("nbd+unix:///{export}?socket={server}").parse().unwrap()
            })
            .to_vec();
        let names = |targets: &[Target]| targets.iter().map(Target::to_string).collect::<Vec<_>>();
        let expected = [0, 2, 4, 1, 3].map(|place| targets[place].to_string());
        assert_eq!(names(&order(&targets, &[])), expected);
    }
}
