//! The six measured drives: the model must stay at least as close to them as it is.

use crate::common;
use machine::disk::diskspecs::import_files;
use machine::disk::drive::Drive;
use machine::disk::parameters::Parameters;
use machine::disk::{trace, validate};

/// Trace; the highest demerits, in ms, that are accepted: pooled, reads, writes.
const BOUNDS: [(&str, [f64; 3]); 6] = [
    ("barracuda", [0.32, 0.45, 0.24]),
    ("cheetah4LP", [0.29, 0.31, 0.315]),
    ("atlas10k", [0.10, 0.12, 0.135]),
    ("hp_c2247a", [0.10, 0.15, 0.15]),
    ("hp_c3323a", [0.22, 0.22, 0.26]),
    ("dec_rz26", [0.345, 0.22, 0.75]),
];

#[test]
fn the_six_drives() {
    let Some(drives) = common::drives() else { return };
    for ((name, specs), (bound, limits)) in common::DRIVES.into_iter().zip(BOUNDS) {
        assert_eq!(name, bound);
        let imported = import_files(&drives.join("parameters").join(specs), None, None).unwrap();
        let parameters = Parameters::read(&imported.part).unwrap();
        let text = std::fs::read_to_string(drives.join("traces").join(format!("{name}.trace"))).unwrap();
        let requests = trace::parse(name, &text, parameters.mechanism.geometry.blocks()).unwrap();
        let replayed = validate::replay(&mut Drive::new(parameters), &requests);
        let scores = validate::scores(&requests, &replayed);
        let found = [Some(scores.pooled), scores.reads, scores.writes].map(|score| score.unwrap().demerit.as_millis());
        println!("{name:12} pooled {:.3} reads {:.3} writes {:.3} ms", found[0], found[1], found[2]);
        for (found, limit) in found.into_iter().zip(limits) {
            assert!(found <= limit, "{name}: a demerit of {found:.3} ms, at most {limit} is accepted");
        }
    }
}
