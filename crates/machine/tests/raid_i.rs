//! The description of the machine: what does not fit is refused with its place.

use machine::system::Kit;
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
        ("system.adapter.0.string.0.disks", "[mg10-20tb]", "parts/mg10-20tb.toml:", "between one block"),
        ("wren-iv.zone.1.first-cylinder", "100", "parts/wren-iv.toml:", "overlap"),
        ("scsi-1.devices", "9", "parts/scsi-1.toml:", "2 to 8"),
        ("scsi-1.byte-time", "250", "parts/scsi-1.toml:", "has no unit"),
        ("jaguar.buffers-per-transfer", "100", "parts/jaguar.toml:", "at most 16"),
        ("system.adapter.1.slot", "9", "systems/raid-i.toml:", "0 to 3"),
        ("system.adapter.1.slot", "0", "systems/raid-i.toml:", "taken by another adapter"),
        ("system.memory", "wren-iv", "parts/wren-iv.toml:", "one of kind 'memory' is wanted"),
        (
            "system.backplane",
            "unibus",
            "systems/raid-i.toml:",
            "which is no part; write esp, flash-nvme-3.84tb, jaguar",
        ),
        ("wren-iv.buffer.fill", "1", "wren-iv.buffer.fill", "there is no 'fill'; there are: segments, segment-blocks"),
        (
            "wren-v.buffer",
            "1",
            "wren-v.buffer",
            "there is no part 'wren-v'; there are: system, esp, flash-nvme-3.84tb, jaguar",
        ),
    ];
    for (key, value, place, accepted) in cases {
        let message = refusal(key, value);
        assert!(message.contains(place) && message.contains(accepted), "{key} = {value}: {message}");
    }
}

#[test]
fn a_string_takes_seven_disks_and_no_eighth() {
    let with = |disks: usize| {
        let list = vec!["\"wren-iv\""; disks].join(", ");
        let text = format!(
            "kind = \"system\"\nname = \"x\"\nstatus = \"test\"\nsource = \"test\"\nprocessor = \"sun4-280\"\nmemory = \"sun4-280-memory\"\nbackplane = \"vme\"\noperating-system = \"sprite\"\n[[adapter]]\npart = \"jaguar\"\nslot = 0\n[[adapter.string]]\npart = \"scsi-1\"\ndisks = [{list}]\n"
        );
        let mut kit = Kit::load("raid-i").unwrap();
        kit.system = machine::part::Part::parse("systems/x.toml", &text).unwrap();
        kit.build(&Runtime::simulated(), 1, &Trace::default()).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(with(7), Ok(()));
    assert!(
        with(8)
            .unwrap_err()
            .contains("systems/x.toml:14:9: adapter.0.string.0.disks: is out of range; write at most 7 disks"),
        "{:?}",
        with(8)
    );
}
