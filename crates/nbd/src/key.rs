//! Private keys that cannot be used, told before rustls says only that it cannot parse one.
//!
//! ring signs with RSA keys of 2048, 3072 and 4096 bits: each prime is of a multiple of 512 (`ring::rsa::KeyPair`).
//! certtool's security parameters make keys of 2432 and 3248 bits among others. The provider aws-lc-rs takes some of
//! them; it needs cmake and a C compiler where arraylab is built, and was left for that. The size is that of the
//! modulus, the second number of a PKCS #1 key (RFC 8017, A.1.2), which PKCS #8 wraps in an octet string (RFC 5958).
//! Peers' certificates may be of any size: only signing has steps.

use rustls::pki_types::PrivateKeyDer;

/// The size of an RSA key in bits, if it is one that cannot sign.
pub(crate) fn unusable_rsa_bits(key: &PrivateKeyDer) -> Option<usize> {
    let bits = match key {
        PrivateKeyDer::Pkcs1(key) => pkcs1_bits(key.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(key) => {
            let inside = element(key.secret_pkcs8_der(), 0x30)?.0;
            let (_version, rest) = element(inside, 0x02)?;
            let (algorithm, rest) = element(rest, 0x30)?;
            // rsaEncryption, 1.2.840.113549.1.1.1
            let is_rsa = element(algorithm, 0x06)?.0 == [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
            if is_rsa { pkcs1_bits(element(rest, 0x04)?.0) } else { None }
        }
        _ => None,
    }?;
    let is_usable = (2048..=4096).contains(&bits) && bits.is_multiple_of(1024);
    (!is_usable).then_some(bits)
}

fn pkcs1_bits(der: &[u8]) -> Option<usize> {
    let inside = element(der, 0x30)?.0;
    let (_version, rest) = element(inside, 0x02)?;
    let modulus = element(rest, 0x02)?.0;
    let first = modulus.iter().position(|byte| *byte != 0)?;
    Some((modulus.len() - first) * 8 - modulus[first].leading_zeros() as usize)
}

/// The contents of the first element, which has this tag, and what follows it (ITU-T X.690, 8.1).
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        short @ 0..=0x7f => (usize::from(*short), rest),
        long => {
            let (bytes, rest) = rest.split_at_checked(usize::from(*long & 0x7f))?;
            let length =
                (bytes.len() <= 4).then(|| bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)));
            (length?, rest)
        }
    };
    (*found == tag).then(|| rest.split_at_checked(length)).flatten()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    #[test]
    fn keys_of_sizes_that_cannot_sign_are_told_by_their_size() {
        let keys = [
            ("RSA", 2432, Some(2432)),
            ("RSA", 3248, Some(3248)),
            ("RSA", 1024, Some(1024)),
            ("RSA", 2560, Some(2560)),
            ("RSA", 2048, None),
            ("RSA", 3072, None),
        ];
        for (algorithm, bits, expected) in keys {
            for form in [&["genpkey", "-algorithm", algorithm, "-pkeyopt"][..], &["genrsa", "-traditional"]] {
                let size = if form[0] == "genpkey" { format!("rsa_keygen_bits:{bits}") } else { bits.to_string() };
                let Ok(made) = Command::new("openssl").args(form).arg(size).output() else {
                    eprintln!("skipped: there is no openssl; it would make keys of several sizes");
                    return;
                };
                assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
                let key = PrivateKeyDer::from_pem_slice(&made.stdout).unwrap();
                assert_eq!(unusable_rsa_bits(&key), expected, "{form:?}");
                let provider = rustls::crypto::ring::default_provider();
                assert_eq!(provider.key_provider.load_private_key(key).is_ok(), expected.is_none(), "{bits}");
            }
        }
        let other = Command::new("openssl").args(["genpkey", "-algorithm", "ED25519"]).output().unwrap();
        assert_eq!(unusable_rsa_bits(&PrivateKeyDer::from_pem_slice(&other.stdout).unwrap()), None);
    }

    #[test]
    fn what_is_cut_off_has_no_size() {
        for length in 0..32 {
            let der: Vec<u8> =
                [0x30, 0x82, 0xff, 0xff, 0x02, 0x01, 0x00, 0x02, 0x84, 0xff].into_iter().cycle().take(length).collect();
            assert_eq!(pkcs1_bits(&der), None);
        }
    }
}
