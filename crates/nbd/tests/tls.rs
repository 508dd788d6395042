//! Certificates that are not valid now, by a program that makes any; and how an encrypted conversation ends.

mod common;

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use common::{export, memory};
use device::{Buffer, Device, Request};
use futures_util::future::join;
use nbd::{Client, ClientTls, Exports, House, Limits, Pipe, ServerTls, Wire, converse};
use runtime::Runtime;
use units::{Bytes, Duration};
use uring::Parcel;

/// From and to, as `openssl ca` writes them.
type Dates = (&'static str, &'static str);

const PAST: Dates = ("20010203040506Z", "20020203040506Z");
const FUTURE: Dates = ("20450203040506Z", "20460203040506Z");
const NOW: Dates = ("20010203040506Z", "20460203040506Z");

/// A folder with an authority, and certificates of both sides by it, that are valid between these dates; what is wrong
/// if there is none.
fn certificates(folder: &Path, authority: Dates, own: Dates) -> Result<(), String> {
    let script = format!(
        "set -e
        mkdir new && touch index && echo 01 > serial
        printf '[ca]\\ndefault_ca=it\\n[it]\\ndatabase=index\\nserial=serial\\nnew_certs_dir=new\\ndefault_md=sha256\\npolicy=any\\nunique_subject=no\\n[any]\\ncommonName=supplied\\n' > ca.conf
        printf 'subjectAltName=DNS:localhost' > own.ext
        printf 'basicConstraints=critical,CA:TRUE' > ca.ext
        key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
        by='-batch -notext -config ca.conf -keyfile ca-key.pem'
        openssl req $key -subj /CN=authority -keyout ca-key.pem -out ca.csr
        openssl ca $by -selfsign -startdate {} -enddate {} -extfile ca.ext -in ca.csr -out ca-cert.pem
        for side in server client; do
            openssl req $key -subj /CN=localhost -keyout $side-key.pem -out $side.csr
            openssl ca $by -cert ca-cert.pem -startdate {} -enddate {} -extfile own.ext -in $side.csr -out $side-cert.pem
        done",
        authority.0, authority.1, own.0, own.1
    );
    let made = Command::new("sh").args(["-c", &script]).current_dir(folder).output();
    let made = made.map_err(|error| error.to_string())?;
    if made.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&made.stderr).into_owned()) }
}

/// What is wrong with a folder for a server, and for a client.
fn faults(folder: &Path) -> [(&'static str, Option<String>); 2] {
    [
        ("server-cert.pem", ServerTls::from_folder(folder).err().map(|error| error.to_string())),
        ("client-cert.pem", ClientTls::from_folder(folder).err().map(|error| error.to_string())),
    ]
}

#[test]
fn a_certificate_of_ones_own_that_is_not_valid_now_is_refused_with_its_date() {
    for (dates, said) in [
        (PAST, Some("expired at 2002-02-03T04:05:06Z; put one")),
        (FUTURE, Some("is valid from 2045-02-03T04:05:06Z on; is the clock")),
        (NOW, None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        if let Err(why) = certificates(folder.path(), NOW, dates) {
            return println!("skipped: no certificates, by openssl: {why}");
        }
        for (file, error) in faults(folder.path()) {
            match said {
                Some(said) => {
                    let error = error.unwrap_or_default();
                    assert!(error.contains(said) && error.contains(file), "{file}: {error}");
                }
                None => assert_eq!(error, None, "{file}"),
            }
        }
    }
}

#[test]
fn an_authority_that_is_not_valid_now_is_refused_with_its_date_unless_another_one_is() {
    let sound = tempfile::tempdir().unwrap();
    if let Err(why) = certificates(sound.path(), NOW, NOW) {
        return println!("skipped: no certificates, by openssl: {why}");
    }
    let authority = |folder: &Path| std::fs::read_to_string(folder.join("ca-cert.pem")).unwrap();
    for (dates, said) in [(PAST, "expired at 2002-02-03T04:05:06Z"), (FUTURE, "is valid from 2045-02-03T04:05:06Z on")]
    {
        let folder = tempfile::tempdir().unwrap();
        certificates(folder.path(), dates, NOW).unwrap();
        for (_, error) in faults(folder.path()) {
            let error = error.unwrap_or_default();
            assert!(error.contains(said) && error.contains("ca-cert.pem"), "{error}");
        }
        let both = authority(folder.path()) + &authority(sound.path());
        std::fs::write(sound.path().join("ca-cert.pem"), both).unwrap();
        assert!(faults(sound.path()).iter().all(|(_, error)| error.is_none()), "the other one is valid");
    }
}

/// A wire of which is kept what was sent into it.
struct Overheard(Pipe, Rc<RefCell<Vec<u8>>>);

impl Wire for Overheard {
    async fn receive(&self, into: Buffer) -> (Buffer, io::Result<usize>) {
        self.0.receive(into).await
    }
    async fn send(&self, parcels: Vec<Parcel>) -> (Vec<Parcel>, io::Result<()>) {
        self.1.borrow_mut().extend(parcels.iter().flat_map(Parcel::parts).flatten());
        self.0.send(parcels).await
    }
    fn stop_receiving(&self) {
        self.0.stop_receiving();
    }
    fn stop_sending(&self) {
        self.0.stop_sending();
    }
}

#[test]
fn both_sides_end_with_the_last_word_of_tls() {
    let folder = tempfile::tempdir().unwrap();
    if let Err(why) = certificates(folder.path(), NOW, NOW) {
        return println!("skipped: no certificates, by openssl: {why}");
    }
    let runtime = Runtime::simulated();
    let exports = Exports::new(export(memory(&runtime, Bytes::mib(1)))).unwrap();
    let tls = Some(ServerTls::from_folder(folder.path()).unwrap());
    let house = House::new(&runtime, exports, tls, Limits::default());
    let tls = ClientTls::from_folder(folder.path()).unwrap();
    let said: [Rc<RefCell<Vec<u8>>>; 2] = Default::default();
    let (ours, theirs) = Pipe::pair();
    let visiting = async {
        let wire = Overheard(ours, Rc::clone(&said[0]));
        let client = Client::over(&runtime, wire, "served", "", Some((&tls, "localhost"))).await.unwrap();
        client.submit(Request::flush()).await.result.unwrap();
        drop(client);
        runtime.sleep(Duration::millis(1)).await;
    };
    let serving = converse(Rc::new(house), Rc::new(Overheard(theirs, Rc::clone(&said[1]))));
    runtime.block_on(join(visiting, serving)).1.unwrap();
    for (side, said) in ["client", "server"].iter().zip(&said) {
        // A record of TLS 1.3 looks like data; this is the length of no message of NBD, but of an alert: two bytes, one
        // for its type, and 16 that seal it.
        let said = said.borrow();
        assert_eq!(said[said.len() - 24..][..5], [23, 3, 3, 0, 2 + 1 + 16], "the {side}'s last record is an alert");
    }
}
