//! What an executable says of itself: for which processor it is, and which loader it needs. One that needs none is static.

/// The processor that this program runs on, as ELF numbers it.
pub(crate) const HOST: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
/// `PT_INTERP`, the program header that names a loader.
const INTERPRETER: u32 = 3;

/// Of a 64-bit little-endian ELF file.
#[derive(Debug, PartialEq)]
pub(crate) struct Linked {
    pub(crate) machine: u16,
    pub(crate) interpreter: Option<String>,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Reads the head and the program headers; `None`: it is no such file.
pub(crate) fn read(bytes: &[u8]) -> Option<Linked> {
    if !bytes.starts_with(&[0x7f, b'E', b'L', b'F', 2, 1]) {
        return None;
    }
    let machine = u16::from_le_bytes(number(bytes, 18)?);
    let table = usize::try_from(u64::from_le_bytes(number(bytes, 32)?)).ok()?;
    let size = usize::from(u16::from_le_bytes(number(bytes, 54)?));
    let count = usize::from(u16::from_le_bytes(number(bytes, 56)?));
    let mut interpreter = None;
    for header in (0..count).map(|i| table + i * size) {
        if u32::from_le_bytes(number(bytes, header)?) == INTERPRETER {
            let from = usize::try_from(u64::from_le_bytes(number(bytes, header + 8)?)).ok()?;
            let length = usize::try_from(u64::from_le_bytes(number(bytes, header + 32)?)).ok()?;
            let path = bytes.get(from..from.checked_add(length)?)?;
            interpreter = Some(String::from_utf8_lossy(path).trim_end_matches('\0').to_owned());
        }
    }
    Some(Linked { machine, interpreter })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_of_the_usual_kind_asks_for_a_loader() {
        let own = std::env::current_exe().and_then(std::fs::read).expect("this test");
        let linked = read(&own).expect("ELF");
        assert_eq!(linked.machine, HOST);
        assert!(linked.interpreter.is_some_and(|loader| loader.contains("ld-")));
    }

    #[test]
    fn what_is_no_elf_file_or_is_cut_off_is_told_apart() {
        assert_eq!(read(b"#!/bin/sh"), None);
        assert_eq!(read(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0]), None);
    }
}
