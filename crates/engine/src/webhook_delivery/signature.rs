//! Signatures of Standard Webhooks: HMAC-SHA256 of the notice's id, the time and the body.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// The version of the scheme, which precedes a signature.
const VERSION: &str = "v1";

/// The value of `webhook-signature`.
pub(super) fn sign(key: &hmac::Key, id: &str, timestamp: i64, body: &str) -> String {
    let mut context = hmac::Context::with_key(key);
    for part in [id, ".", &timestamp.to_string(), ".", body] {
        context.update(part.as_bytes());
    }
    format!("{VERSION},{}", BASE64_STANDARD.encode(context.sign()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's own libraries.
    #[test]
    fn a_signature_is_that_of_the_specification() {
        let secret = BASE64_STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        let signature = sign(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
