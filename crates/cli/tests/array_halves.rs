//! Two halves of an array that were used without each other, as their user meets them.

mod common;
#[path = "common/served.rs"]
mod served;

use common::Desk;
use device::{Buffer, Data, Device, Request};
use nbd::{Client, Uri};
use served::{Server, done, say};
use units::Bytes;
use uring::{Live, LiveOptions};

fn block(value: u8) -> Data {
    let mut buffer = Buffer::zeroed(Bytes::kib(4));
    buffer.bytes_mut().unwrap().fill(value);
    buffer.freeze()
}

/// Writes to a served array.
fn write(server: &Server, at: Bytes, value: u8) {
    let live = Live::start(&LiveOptions::default());
    let uri: Uri = server.uri().parse().unwrap();
    let client = live.runtime().block_on(Client::connect(&live, &uri)).unwrap();
    assert_eq!(live.runtime().block_on(client.submit(Request::write(at, block(value)))).result, Ok(()));
}

/// An array whose halves were each written to without the other; `None`, and said, where there is no ring.
fn halves(create: &str, halves: [&str; 2]) -> Option<Desk> {
    let desk = Desk::new("");
    done(&desk, &format!("array create --size 16MiB {create} {} {}", halves[0], halves[1]));
    for (half, at) in halves.into_iter().zip([0, 9]) {
        let server = Server::start(&desk, half)?;
        write(&server, Bytes::mib(at), at as u8 + 1);
        assert_eq!(server.stop().0.code, 0);
    }
    Some(desk)
}

#[test]
fn a_half_comes_back_only_if_what_it_holds_may_be_lost() {
    for (create, [one, other]) in
        [("--level 1", ["x", "y"]), ("--level 1 --consistency resync", ["x", "y"]), ("--level 6", ["x z", "y w"])]
    {
        let Some(desk) = halves(create, [one, other]) else { return };
        let held = || std::fs::read(desk.path().join("y")).unwrap();
        let before = held();
        let order = format!("array add --device y {one}");
        let refused = say(&desk, &order);
        let words = format!("y went on without {}, so each may hold writes", one.replace(' ', " and "));
        assert!(refused.code == 2 && refused.stderr.contains(&words), "{create}: {}{}", refused.stdout, refused.stderr);
        let next = "`arraylab array add --destroy-data --device y --device y`";
        assert!(refused.stderr.contains(next), "{create}: {}", refused.stderr);
        let server = Server::start(&desk, one).unwrap();
        let refused = say(&desk, &order);
        assert!(refused.code == 2 && refused.stderr.contains("went on without"), "{create}: {}", refused.stderr);
        assert!(held() == before, "{create}: y is as it was");
        for device in other.split(' ') {
            done(&desk, &format!("array add --destroy-data --device {device} --device {device} {one}"));
        }
        assert_eq!(server.stop().0.code, 0);
        done(&desk, &format!("array scrub {one} {other}"));
        let text = done(&desk, &format!("array status {one} {other}"));
        assert!(text.contains("  state         clean\n"), "{create}: {text}");
    }
    // At rest.
    let Some(desk) = halves("--level 1", ["x", "y"]) else { return };
    done(&desk, "array add --destroy-data --device x --device x y");
    done(&desk, "array scrub x y");
}

#[test]
fn two_halves_are_called_so_in_any_order_and_by_every_command() {
    let Some(desk) = halves("--level 1", ["x", "y"]) else { return };
    for members in ["x y", "y x"] {
        let text = done(&desk, &format!("array status {members}"));
        for words in [
            "state         two halves went on without each other, and each may hold writes that the other lacks",
            "x says that member 1 failed, after ",
            "y says that member 0 failed, after ",
            "member 0      half        x: it says that member 1 failed",
            "member 1      half        y: it says that member 0 failed",
            "`arraylab array add --destroy-data --device ",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("clean") && !text.contains("brings it back"), "{text}");
        let json = say(&desk, &format!("array status --json {members}")).json();
        assert!(json["split"].is_string() && json["broken"] == false, "{json}");
        for order in ["serve --nbd unix:s.sock", "scrub", "rebuild", "stop"] {
            let said = say(&desk, &format!("array {order} {members}"));
            assert!(said.code == 2 && said.stderr.contains("two halves went on"), "{order}: {}", said.stderr);
            assert!(!said.stderr.contains("brings it back"), "{order}: {}", said.stderr);
        }
    }
    let one = done(&desk, "array status x");
    assert!(one.contains("1 of 2 members not whole"), "{one}");
}

/// What is suggested is to be copied into a shell.
#[test]
fn names_with_spaces_are_one_word_of_the_command_that_is_suggested() {
    let Some(desk) = halves("--level 1", ["x", "y"]) else { return };
    for (name, other) in [("x", "half x"), ("y", "it's y")] {
        std::fs::rename(desk.path().join(name), desk.path().join(other)).unwrap();
    }
    let said = desk.arraylab(&["array", "stop", "half x", "it's y"]);
    let device = r"'it'\''s y'";
    let commands = [
        format!("`arraylab array add --destroy-data --device {device} --device {device} 'half x'`"),
        format!("`arraylab array add --destroy-data --device 'half x' --device 'half x' {device}`"),
    ];
    assert!(said.code == 2 && commands.iter().any(|command| said.stderr.contains(command)), "{}", said.stderr);
    let refused = desk.arraylab(&["array", "add", "--device", "it's y", "half x"]);
    let command = format!("`arraylab array add --destroy-data --device {device} --device {device}`");
    assert!(refused.code == 2 && refused.stderr.contains(&command), "{}", refused.stderr);
}
