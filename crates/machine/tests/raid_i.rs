//! The description of the machine: what does not fit is refused with its place.

use machine::kit::Kit;
use machine::trace::Trace;
use runtime::Runtime;

fn refusal(key: &str, value: &str) -> String {
    let mut kit = Kit::load("raid-i").unwrap();
    match kit.set(key, value) {
        Err(error) => error.to_string(),
        Ok(()) => kit
            .build(&Runtime::simulated(), 1, &Trace::default())
            .err()
            .map_or_else(|| "accepted".to_owned(), |error| error.to_string()),
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    let cases = [
        ("wren-iv.buffer.read-fill", "0 %", "parts/wren-iv.toml:", "between one block of it (1.6 %) and the whole"),
        ("wren-iv.buffer.write-empty", "1 %", "parts/wren-iv.toml:", "between one block"),
        ("system.node.6.part", "mg10-20tb", "parts/mg10-20tb.toml:", "between one block"),
        ("wren-iv.zone.1.first-cylinder", "100", "parts/wren-iv.toml:", "overlap"),
        ("scsi-1.devices", "9", "parts/scsi-1.toml:", "2 to 8"),
        ("scsi-1.byte-time", "250", "parts/scsi-1.toml:", "has no unit"),
        ("jaguar.buffers-per-transfer", "100", "parts/jaguar.toml:", "at most 16"),
        ("system.node.9.slot", "9", "systems/raid-i.toml:", "0 to 3: 'backplane' has 4 places (slot)"),
        ("system.node.9.slot", "0", "systems/raid-i.toml:", "place 0 of 'backplane' is taken by another node"),
        ("system.node.0.part", "wren-iv", "systems/raid-i.toml:", "kind 'disk' stands on one of kind 'scsi-string'"),
        (
            "system.node.3.part",
            "multibus",
            "systems/raid-i.toml:",
            "which is no part; write 4.2bsd, 4.2bsd-files, challenge-memory",
        ),
        ("wren-iv.buffer.fill", "1", "wren-iv.buffer.fill", "there is no 'fill'; there are: segments, segment-blocks"),
        (
            "wren-v.buffer",
            "1",
            "wren-v.buffer",
            "there is no part or node 'wren-v'; parts of this machine are: system, jaguar, scsi-1, sprite, sun4-280, sun4-280-memory, vme, wren-iv; nodes are: adapter-0 to adapter-3, backplane, disk-0.0 to disk-0.3, disk-1.0 to disk-1.3,",
        ),
    ];
    for (key, value, place, accepted) in cases {
        let message = refusal(key, value);
        assert!(message.contains(place) && message.contains(accepted), "{key} = {value}: {message}");
    }
}

#[test]
fn a_string_takes_seven_disks_and_no_eighth() {
    let with = |disks: &str| {
        let mut kit = Kit::load("raid-i").unwrap();
        kit.set("system.node.6.count", disks).unwrap();
        kit.build(&Runtime::simulated(), 1, &Trace::default()).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(with("7"), Ok(()));
    let said = with("8").unwrap_err();
    let there = "node.6.on: there is no place for disk-0.7: 'string-0' has 8 places (target), and place 0 is its own";
    assert!(said.starts_with("systems/raid-i.toml:") && said.ends_with(there), "{said}");
}
