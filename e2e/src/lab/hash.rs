//! Takes bytes, gives their SHA-256 as hexadecimal text; must never shorten it by itself.

use sha2::{Digest, Sha256};

/// SHA-256 as 64 hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// The first `digits` digits of [`sha256`]: for names of things that only have to differ.
pub(super) fn short(bytes: &[u8], digits: usize) -> String {
    sha256(bytes).chars().take(digits).collect()
}
