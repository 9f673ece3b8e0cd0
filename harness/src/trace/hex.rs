//! Bytes as hex text, for JSON.

use serde::{Deserialize, Deserializer, Serializer, de::Error};
use std::fmt::Write;

pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(bytes))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.len() % 2 != 0 {
        return Err(D::Error::custom("hex text of odd length"));
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(|| D::Error::custom("not a hex digit"));
    text.as_bytes().chunks_exact(2).map(|pair| Ok((digit(pair[0])? << 4 | digit(pair[1])?) as u8)).collect()
}

pub(super) fn text(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
