//! Writing messages, for tests.

/// A varint.
fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A field that is an integer.
pub(crate) fn int(number: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(number << 3, &mut out);
    varint(value, &mut out);
    out
}

/// A field that has a length.
pub(crate) fn field(number: u64, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    varint(number << 3 | 2, &mut out);
    varint(bytes.as_ref().len() as u64, &mut out);
    out.extend_from_slice(bytes.as_ref());
    out
}

/// A field of packed integers.
pub(crate) fn packed(number: u64, values: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|value| varint(*value, &mut out));
    field(number, out)
}

/// A message in its frame.
pub(crate) fn frame(message: impl AsRef<[u8]>) -> Vec<u8> {
    let message = message.as_ref();
    let mut out = vec![0];
    out.extend((message.len() as u32).to_be_bytes());
    out.extend_from_slice(message);
    out
}
