//! Machines as trees: what fits is built, what does not is refused with its line and what would be accepted, and
//! nothing panics.

use machine::kit::Kit;
use machine::part::Part;
use machine::system::Machine;
use machine::trace::Trace;
use proptest::prelude::*;
use runtime::Runtime;

const HEAD: &str = "kind = \"system\"\nname = \"x\"\nstatus = \"made up\"\nsource = \"made up\"\n";

/// A host, an adapter and a string.
const HOST: &str = r#"
[[node]]
name = "memory"
part = "sun4-280-memory"
[[node]]
name = "processor"
part = "sun4-280"
on = "memory"
[[node]]
name = "os"
part = "sprite"
on = "processor"
[[node]]
name = "bus"
part = "vme"
on = "memory"
[[node]]
name = "board"
part = "jaguar"
on = "bus"
[[node]]
name = "string"
part = "scsi-1"
on = "board"
"#;

fn build(nodes: &str) -> Result<Machine, String> {
    let mut kit = Kit::load("raid-i").unwrap();
    kit.system = Part::parse("x.toml", &format!("{HEAD}{nodes}")).map_err(|error| error.to_string())?;
    kit.build(&Runtime::simulated(), 1, &Trace::default()).map_err(|error| error.to_string())
}

fn node(lines: &[&str]) -> String {
    format!("[[node]]\n{}\n", lines.join("\n"))
}

#[test]
fn nodes_may_stand_in_any_order_and_drives_are_named_by_their_nodes() {
    let disks = node(&["name = \"wren\"", "part = \"wren-iv\"", "on = \"string\"", "count = 3"]);
    let machine = build(&format!("{disks}{HOST}")).unwrap();
    let names: Vec<&str> = machine.drives().iter().map(|drive| &*drive.name).collect();
    assert_eq!(names, ["wren-0", "wren-1", "wren-2"]);
    let up: Vec<&str> = machine.up(machine.drives()[1].node).map(|node| &*machine.nodes()[node].name).collect();
    assert_eq!(up, ["wren-1", "string", "board", "bus", "memory"]);
}

#[test]
fn what_does_not_fit_is_refused_with_its_line() {
    let disk = |lines: &[&str]| node(&[&["name = \"d\"", "part = \"wren-iv\""], lines].concat());
    let cases = [
        (String::new(), "node: is missing; write [[node]]"),
        (
            disk(&[]),
            "a part of kind 'disk' stands on one of kind 'scsi-string' or 'scsi-adapter' or 'sas-hba' or 'sas-expander' or",
        ),
        (
            disk(&["on = \"strings\""]),
            "'strings', which is no node; write board, bus, d, memory, os, processor, string",
        ),
        (disk(&["on = \"bus\""]), "'bus' is of kind 'backplane', and a part of kind 'disk' stands on one of kind"),
        (disk(&["on = \"d\""]), "stands on itself: d on d"),
        (disk(&["on = \"string\"", "target = 0"]), "place 0 of 'string' is its own; take another"),
        (disk(&["on = \"string\"", "target = 8"]), "write 0 to 7: 'string' has 8 places (target)"),
        (disk(&["on = \"string\"", "slot = 1"]), "places on 'string' are given as target"),
        (disk(&["on = \"string\"", "slot = 1", "target = 1"]), "a node has one place, and slot is given"),
        (disk(&["on = \"string\"", "count = 0"]), "1 to 4090: a machine has at most 4096 nodes"),
        (disk(&["on = \"string\"", "count = 8"]), "there is no place for d-7: 'string' has 8 places (target)"),
        (disk(&["on = \"string\"", "target = 6", "count = 3"]), "write 0 to 7: 'string' has 8 places"),
        (disk(&["on = \"string\"", "id = 1"]), "node.6.id: is not known here; known are name, part, on, count, slot"),
        (disk(&["on = \"string\"", "target = 4294967295", "count = 2"]), "places go up to 4294967295"),
        (format!("{}{}", disk(&["on = \"string\""]), disk(&["on = \"string\""])), "there are two nodes called 'd'"),
        (
            format!(
                "{}{}",
                disk(&["on = \"string\"", "target = 2"]),
                disk(&["on = \"string\"", "target = 2"]).replace("\"d\"", "\"e\"")
            ),
            "place 2 of 'string' is taken by another node",
        ),
        (
            format!(
                "{}{}",
                node(&["name = \"a\"", "part = \"vme\"", "on = \"b\""]),
                node(&["name = \"b\"", "part = \"vme\"", "on = \"a\""])
            ),
            "stands on itself: a on b on a",
        ),
        (node(&["name = \"m\"", "part = \"sparc20-memory\"", "on = \"memory\""]), "of kind 'memory' stands on nothing"),
        (node(&["name = \"m\"", "part = \"sparc20-memory\"", "slot = 1"]), "has no meaning here"),
        (node(&["name = \"system\"", "part = \"sparc20-memory\""]), "means the system's own values"),
        (node(&["name = \"a b\"", "part = \"sparc20-memory\""]), "'a b'; write a letter, then letters"),
        (node(&["name = \"9\"", "part = \"sparc20-memory\""]), "'9'; write a letter, then letters"),
        (
            node(&["name = \"m\"", "part = \"sparc\""]),
            "'sparc', which is no part; write 4.2bsd, 4.2bsd-files, challenge-memory",
        ),
        (node(&["name = \"m\""]), "node.6.part: is missing"),
        (node(&["name = \"b2\"", "part = \"vme\"", "on = \"memory\"", "port = 1"]), "has no meaning here"),
    ];
    for (nodes, said) in cases {
        let host = if nodes.is_empty() { "" } else { HOST };
        let message = build(&format!("{host}{nodes}")).err().unwrap_or_else(|| panic!("accepted: {nodes}"));
        assert!(message.contains(said), "{nodes}\n{message}");
        let line = message.strip_prefix("x.toml:").and_then(|rest| rest.split(':').next()?.parse::<u32>().ok());
        assert!(line.is_some_and(|line| line > 0), "a line: {message}");
    }
}

#[test]
fn a_drive_that_nobody_can_ask_is_refused() {
    let without_os = HOST.replace("name = \"os\"\npart = \"sprite\"\non = \"processor\"\n[[node]]\n", "");
    let disk = node(&["name = \"d\"", "part = \"wren-iv\"", "on = \"string\""]);
    let message = build(&format!("{without_os}{disk}")).err().unwrap();
    assert!(message.contains("x.toml:") && message.contains("its machine has no operating system"), "{message}");
}

#[test]
fn two_hosts_are_two_trees_each_with_its_own_drives() {
    let second = HOST.replace("name = \"", "name = \"other-").replace("on = \"", "on = \"other-");
    let disks: String = ["string", "other-string"]
        .iter()
        .map(|on| node(&[&format!("name = \"{on}-d\""), "part = \"wren-iv\"", &format!("on = \"{on}\""), "count = 2"]))
        .collect();
    let machine = build(&format!("{HOST}{second}{disks}")).unwrap();
    let [first, .., last] = machine.drives() else { panic!("there are four") };
    assert!(!std::rc::Rc::ptr_eq(&first.os, &last.os), "each host has its operating system");
    let array = "[array]\nlevel = 0\nstripe-unit = \"32 KiB\"\nmembers = [\"string-d-*\", \"other-string-d-*\"]\nconsistency = \"none\"\n";
    let machine = std::rc::Rc::new(build(&format!("{array}{HOST}{second}{disks}")).unwrap());
    let members = machine.array.as_ref().unwrap().members.clone();
    assert_eq!(members.len(), 4);
    let refused = machine::entry::entries(&machine, &members, machine::entry::Way::Array).err().unwrap().to_string();
    assert!(refused.contains("'other-string-d-0' is a drive of another host"), "{refused}");
}

#[test]
fn a_value_of_one_node_is_changed_and_the_others_keep_theirs() {
    let mut kit = Kit::load("raid-i").unwrap();
    kit.set("disk-0.1.overhead.request", "77 ms").unwrap();
    let value = |kit: &Kit, node: &str| kit.value(node, "overhead.request").unwrap().unwrap();
    assert_eq!(value(&kit, "disk-0.1"), "77 ms");
    assert_ne!(value(&kit, "disk-0.0"), "77 ms");
    assert_eq!(kit.current("disk-0.1.overhead.request").unwrap().unwrap(), "77 ms");
    let refused = kit.set("disk-0.9.overhead.request", "1 ms").unwrap_err().to_string();
    assert!(
        refused.contains("there is no part or node 'disk-0'") && refused.contains("disk-0.0 to disk-0.3, "),
        "{refused}"
    );
    let refused = kit.set("disk-0.1.overhead.requests", "1 ms").unwrap_err().to_string();
    assert!(refused.contains("there is no 'requests'"), "{refused}");
}

proptest! {
    /// Whatever nodes a file has, the end is a machine or a message with a line.
    #[test]
    fn any_tree_ends_in_a_machine_or_a_message(
        nodes in proptest::collection::vec((0..12usize, 0..10usize, 0..12usize, 0..6u32, 0..12u32), 0..12)
    ) {
        let names = ["memory", "processor", "os", "bus", "board", "string", "d", "e", "f", "g", "h", "memory-2"];
        let parts = [
            "sun4-280-memory", "sun4-280", "sprite", "vme", "jaguar", "scsi-1", "wren-iv", "wren-7", "flash-nvme-3.84tb", "esp",
        ];
        let mut text = String::new();
        for (name, part, on, count, place) in nodes {
            let on = if on < 9 { format!("on = \"{}\"", names[on]) } else { String::new() };
            let count = if count < 3 { String::new() } else { format!("count = {}", count - 2) };
            let place = match place {
                0..=3 => format!("{} = {place}", ["slot", "channel", "target", "port"][place as usize]),
                _ => String::new(),
            };
            let (name, part) = (format!("name = \"{}\"", names[name]), format!("part = \"{}\"", parts[part]));
            text.push_str(&node(&[&name, &part, &on, &count, &place]));
        }
        for text in [text.clone(), format!("{HOST}{text}")] {
            if let Err(message) = build(&text) {
                prop_assert!(message.contains(".toml:"), "{}", message);
            }
        }
    }
}

/// Names of parts have dots as well.
#[test]
fn a_value_of_a_part_whose_name_has_a_dot_can_be_changed() {
    let mut kit = Kit::load("nvme-24").unwrap();
    assert_eq!(kit.current("flash-nvme-3.84tb.flash.read").unwrap().as_deref(), Some("60 us"));
    kit.set("flash-nvme-3.84tb.flash.read", "90 us").unwrap();
    assert_eq!(kit.current("flash-nvme-3.84tb.flash.read").unwrap().as_deref(), Some("90 us"));
    let refused = kit.set("flash-nvme-3.84tb.no-such", "7").unwrap_err().to_string();
    assert!(refused.contains("there is no 'no-such'; there are: "), "{refused}");
}
