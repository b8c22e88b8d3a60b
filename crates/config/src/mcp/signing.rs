//! Keys that sign client assertions.

use std::str::FromStr;

use jsonwebtoken::{Algorithm, EncodingKey, Header};

/// Supported algorithms.
pub(crate) const ALGORITHMS: [&str; 4] = ["RS256", "PS256", "ES256", "EdDSA"];

/// Parses a private key in PEM. Without an algorithm, the default of the key's type is used.
///
/// # Errors
/// What is wrong with the key, as text behind its name. Never contains parts of it.
pub fn key(pem: &str, algorithm: Option<&str>) -> Result<(EncodingKey, Algorithm), &'static str> {
    let pem = pem.as_bytes();
    let read = [
        (EncodingKey::from_rsa_pem(pem), Algorithm::RS256),
        (EncodingKey::from_ec_pem(pem), Algorithm::ES256),
        (EncodingKey::from_ed_pem(pem), Algorithm::EdDSA),
    ];
    let found = read.into_iter().find_map(|(key, usual)| Some((key.ok()?, usual)));
    let (key, usual) =
        found.ok_or("expected a private key in PEM (PKCS#8, or PKCS#1 of RSA) of type RSA, EC or Ed25519")?;
    let algorithm = match algorithm {
        Some(name) => Algorithm::from_str(name).map_err(|_| "does not match the algorithm")?,
        None => usual,
    };
    // Only signing shows an unsupported curve or length.
    match jsonwebtoken::encode(&Header::new(algorithm), &(), &key) {
        Ok(_) => Ok((key, algorithm)),
        Err(_) => {
            Err("cannot sign: the key does not fit the algorithm, or its curve or length is not supported")
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
    use aws_lc_rs::rsa::{KeyPair, KeySize};
    use aws_lc_rs::signature::{ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair};
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    fn pem(der: &[u8]) -> String {
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", BASE64_STANDARD.encode(der))
    }

    #[test]
    fn an_rsa_key_signs_in_two_ways_and_in_no_others() {
        let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
        let der: Pkcs8V1Der<'_> = pair.as_der().unwrap();
        let pem = pem(der.as_ref());
        assert_eq!(key(&pem, None).unwrap().1, Algorithm::RS256);
        assert_eq!(key(&pem, Some("PS256")).unwrap().1, Algorithm::PS256);
        for other in ["ES256", "EdDSA"] {
            assert!(key(&pem, Some(other)).is_err(), "{other}");
        }
    }

    #[test]
    fn a_key_on_another_curve_is_refused() {
        let rng = aws_lc_rs::rand::SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, &rng).unwrap();
        assert!(key(&pem(der.as_ref()), None).is_err());
    }
}
