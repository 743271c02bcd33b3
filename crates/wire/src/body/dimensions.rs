//! Width and height of a picture from the first bytes of its file: PNG, JPEG, GIF and WebP.

/// Size in pixels, when `head` is the beginning of a picture that says so.
pub(super) fn dimensions(head: &[u8]) -> Option<(u32, u32)> {
    png(head).or_else(|| gif(head)).or_else(|| webp(head)).or_else(|| jpeg(head)).filter(|&(w, h)| w > 0 && h > 0)
}

fn be16(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 2).map(|b| u32::from(b[0]) << 8 | u32::from(b[1]))
}

fn le16(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 2).map(|b| u32::from(b[1]) << 8 | u32::from(b[0]))
}

fn png(head: &[u8]) -> Option<(u32, u32)> {
    if !head.starts_with(b"\x89PNG\r\n\x1a\n") || head.get(12..16)? != b"IHDR" {
        return None;
    }
    let word = |at: usize| head.get(at..)?.first_chunk().copied().map(u32::from_be_bytes);
    Some((word(16)?, word(20)?))
}

fn gif(head: &[u8]) -> Option<(u32, u32)> {
    if !head.starts_with(b"GIF87a") && !head.starts_with(b"GIF89a") {
        return None;
    }
    Some((le16(head, 6)?, le16(head, 8)?))
}

fn webp(head: &[u8]) -> Option<(u32, u32)> {
    if !head.starts_with(b"RIFF") || head.get(8..12)? != b"WEBP" {
        return None;
    }
    match head.get(12..16)? {
        // Lossy: a key frame's start code, then 14 bits each.
        b"VP8 " if head.get(23..26)? == b"\x9d\x01\x2a" => Some((le16(head, 26)? & 0x3fff, le16(head, 28)? & 0x3fff)),
        // Lossless: 14 bits each, less one.
        b"VP8L" if head.get(20)? == &0x2f => {
            let bits = u32::from_le_bytes(*head.get(21..)?.first_chunk()?);
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        // Extended: 24 bits each, less one.
        b"VP8X" => {
            let word = |at: usize| Some(le16(head, at)? | u32::from(*head.get(at + 2)?) << 16);
            Some((word(24)? + 1, word(27)? + 1))
        }
        _ => None,
    }
}

fn jpeg(head: &[u8]) -> Option<(u32, u32)> {
    if !head.starts_with(b"\xff\xd8") {
        return None;
    }
    let mut at = 2;
    loop {
        if *head.get(at)? != 0xff {
            return None;
        }
        match *head.get(at + 1)? {
            // Fill bytes.
            0xff => at += 1,
            // Markers that stand alone.
            0x01 | 0xd0..=0xd7 => at += 2,
            // A frame header; the others of this range are tables.
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Some((be16(head, at + 7)?, be16(head, at + 5)?));
            }
            // Pixels before any frame header, or the end.
            0xda | 0xd9 => return None,
            _ => at += 2 + be16(head, at + 2)?.max(2) as usize,
        }
    }
}

/// Decodes base64 (the standard or the URL alphabet), stopping at the first byte that is none.
pub(super) fn base64(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut bits, mut have) = (0u32, 0);
    for &b in text {
        let six = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => break,
        };
        bits = bits << 6 | u32::from(six);
        have += 6;
        if have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_format_tells_its_size() {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        png.extend([0, 0, 4, 0, 0, 0, 3, 0, 8, 2]);
        assert_eq!(dimensions(&png), Some((1024, 768)));

        assert_eq!(dimensions(b"GIF89a\x40\x01\xf0\x00\xf7"), Some((320, 240)));

        let mut jpeg = b"\xff\xd8\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0".to_vec();
        jpeg.extend(b"\xff\xfe\x00\x06note\xff\xff\xc2\x00\x11\x08\x02\xd0\x05\x00\x03");
        assert_eq!(dimensions(&jpeg), Some((1280, 720)));

        let riff = |chunk: &[u8]| [b"RIFF\0\0\0\0WEBP", chunk].concat();
        assert_eq!(dimensions(&riff(b"VP8 \0\0\0\0\x30\x01\0\x9d\x01\x2a\x80\x02\x68\x01")), Some((640, 360)));
        assert_eq!(dimensions(&riff(b"VP8L\0\0\0\0\x2f\x7f\xc2\x59\x00")), Some((640, 360)));
        assert_eq!(dimensions(&riff(b"VP8X\x0a\0\0\0\0\0\0\0\x7f\x02\0\x67\x01\0")), Some((640, 360)));
    }

    #[test]
    fn what_says_no_size_has_none() {
        for head in [
            &b""[..],
            b"\x89PNG\r\n\x1a\n",
            b"\xff\xd8\xff\xda\0\0",
            b"\xff\xd8\xff\xe0\x00\x00",
            b"GIF89a\0\0\0\0",
            b"BM",
        ] {
            assert_eq!(dimensions(head), None, "{head:?}");
        }
    }

    #[test]
    fn base64_stops_at_what_is_none() {
        assert_eq!(base64(b"SGVsbG8="), b"Hello");
        assert_eq!(base64(b"-_-_"), [0xfb, 0xff, 0xbf]);
        assert_eq!(base64(b""), b"");
    }

    proptest! {
        #[test]
        fn any_bytes_end(mut bytes in prop::collection::vec(any::<u8>(), 0..64), start in 0usize..5) {
            let magic = [&b"\xff\xd8"[..], b"\x89PNG\r\n\x1a\n", b"GIF87a", b"RIFF\0\0\0\0WEBPVP8X", b""][start];
            bytes.splice(0..0, magic.iter().copied());
            let _ = dimensions(&bytes);
        }
    }
}
