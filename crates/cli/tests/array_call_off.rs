//! A replacement that is called off, as its user meets it.

mod common;
#[path = "common/served.rs"]
mod served;

use common::Desk;
use serde_json::json;
use served::{Server, arraylab, done, say};

const REPLACE: &str = "array replace --member a --onto e --size 32MiB --rate 2MB/s a b c";

fn begin(desk: &Desk) -> common::Running {
    let mut replace = arraylab(desk, REPLACE);
    let replace = common::Running::of(
        replace.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap(),
    );
    common::wait_for("the copy has begun", || {
        let status = say(desk, "array status --json a b c e");
        status.code == 0 && status.stdout.contains("\"state\": \"replacing\"")
    });
    replace
}

fn is_as_before(desk: &Desk, members: &str) {
    let status = say(desk, &format!("array status --json {members}")).json();
    assert_eq!((&status["not_whole"], &status["members"][0]["path"]), (&json!([]), &json!("a")), "{status}");
    assert!(!status.to_string().contains("replacing"), "{status}");
}

#[test]
fn a_replacement_at_rest_is_called_off_and_the_member_stays() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --size 32MiB a b c");
    let replace = begin(&desk);
    common::signal(&replace, "INT");
    assert_eq!(common::of(replace.wait_with_output().unwrap()).code, 3);
    let text = done(&desk, "array fail --member ./e a b c e");
    assert!(
        text.starts_with("./e replaces member 0 no more; that stays as it was") && text.ends_with("clean\n"),
        "{text}"
    );
    is_as_before(&desk, "a b c");
    is_as_before(&desk, "a b c e");
    done(&desk, "array scrub a b c");
    // Another may take the place.
    done(&desk, "array replace --member a --onto f --size 32MiB a b c");
}

#[test]
fn a_replacement_under_way_in_a_server_is_called_off() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --size 32MiB a b c");
    let Some(server) = Server::start(&desk, "a b c") else { return };
    let replace = begin(&desk);
    let said = say(&desk, "array fail --json --member e a b c").json();
    assert_eq!((&said["called_off"], &said["not_whole"]), (&json!(0), &json!([])), "{said}");
    let said = common::of(replace.wait_with_output().unwrap());
    assert!(said.code == 2 && said.stderr.contains("was called off"), "{}: {}", said.code, said.stderr);
    let status = say(&desk, "array status --json a b c").json();
    assert_eq!((&status["not_whole"], &status["served"]["replacing"]), (&json!([]), &json!(null)), "{status}");
    done(&desk, "array scrub a b c");
    let (said, events) = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    let ended = events.iter().find(|event| event["event"] == "replace-failed").unwrap();
    assert_eq!((&ended["member"], &ended["cause"]), (&json!(0), &json!("it was called off")));
    assert!(!events.iter().any(|event| event["event"] == "member-failed"), "{events:?}");
    is_as_before(&desk, "a b c e");
}
