//! Certificates that are not valid now, by a program that makes any.

use std::path::Path;
use std::process::Command;

use nbd::{ClientTls, ServerTls};

/// A folder with an authority, and certificates of both sides that are valid between these dates; what is wrong if there is none.
fn certificates(folder: &Path, from: &str, to: &str) -> Result<(), String> {
    let script = format!(
        "set -e
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority -keyout ca-key.pem -out ca-cert.pem
        mkdir new && touch index && echo 01 > serial
        printf '[ca]\\ndefault_ca=it\\n[it]\\ndatabase=index\\nserial=serial\\nnew_certs_dir=new\\ndefault_md=sha256\\npolicy=any\\nunique_subject=no\\n[any]\\ncommonName=supplied\\n' > ca.conf
        printf 'subjectAltName=DNS:localhost' > own.ext
        for side in server client; do
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -keyout $side-key.pem -out $side.csr
            openssl ca -batch -notext -config ca.conf -cert ca-cert.pem -keyfile ca-key.pem -startdate {from} -enddate {to} -extfile own.ext -in $side.csr -out $side-cert.pem
        done"
    );
    let made = Command::new("sh").args(["-c", &script]).current_dir(folder).output();
    let made = made.map_err(|error| error.to_string())?;
    if made.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&made.stderr).into_owned()) }
}

#[test]
fn a_certificate_of_ones_own_that_is_not_valid_now_is_refused_with_its_date() {
    for (from, to, said) in [
        ("20010203040506Z", "20020203040506Z", Some("expired at 2002-02-03T04:05:06Z; put one")),
        ("20450203040506Z", "20460203040506Z", Some("is valid from 2045-02-03T04:05:06Z on; is the clock")),
        ("20010203040506Z", "20460203040506Z", None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        if let Err(why) = certificates(folder.path(), from, to) {
            return println!("skipped: no certificates, by openssl: {why}");
        }
        let sides = [
            ("server-cert.pem", ServerTls::from_folder(folder.path()).err().map(|error| error.to_string())),
            ("client-cert.pem", ClientTls::from_folder(folder.path()).err().map(|error| error.to_string())),
        ];
        for (file, error) in sides {
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
