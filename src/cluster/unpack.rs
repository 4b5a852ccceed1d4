//! Decompressing readers: gzip within limits, and UTF-16.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

/// The most bytes to which a compressed file may unpack: more than the dump of any cluster.
pub(super) const UNPACKED_LIMIT: u64 = 16 << 30;

/// The highest ratio to which a file may unpack. Gzip makes dumps of real clusters up to 50 times smaller.
const RATIO_LIMIT: u64 = 200;

/// Number of bytes that may be unpacked regardless of the ratio.
const RATIO_FREE: u64 = 64 << 20;

/// Unpacks gzip up to a limit.
pub(super) struct Gunzip<R> {
    decoder: MultiGzDecoder<Counted<R>>,
    length: u64,
}

/// Counts the bytes that are read.
struct Counted<R> {
    reader: R,
    length: u64,
}

impl<R: Read> Gunzip<R> {
    pub(super) fn new(reader: R) -> Self {
        Gunzip { decoder: MultiGzDecoder::new(Counted { reader, length: 0 }), length: 0 }
    }
}

impl<R: Read> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(buffer)?;
        self.length += read as u64;
        let too_large = |problem| Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
        if self.length > RATIO_FREE + RATIO_LIMIT * self.decoder.get_ref().length {
            return too_large("unpacks to more than 200 times its size: it looks like a gzip bomb");
        }
        if self.length > UNPACKED_LIMIT {
            return too_large("unpacks to more than 16 GiB");
        }
        Ok(read)
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.length += read as u64;
        Ok(read)
    }
}

/// Returns whether a text starts with the byte order mark of UTF-16, which `>` of Windows PowerShell writes.
pub(super) fn is_utf16(bytes: &[u8]) -> bool {
    matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
}

/// Converts UTF-16 with a byte order mark to UTF-8, and keeps the mark.
pub(super) struct Utf16<R> {
    reader: R,
    /// How two bytes are combined, once the mark has been read.
    unit: Option<fn([u8; 2]) -> u16>,
    /// The beginning of a character whose end has not arrived yet.
    bytes: Vec<u8>,
    /// The decoded text, and how much of it was returned.
    text: String,
    given: usize,
}

impl<R: Read> Utf16<R> {
    pub(super) fn new(reader: R) -> Self {
        Utf16 { reader, unit: None, bytes: Vec::new(), text: String::new(), given: 0 }
    }

    /// Decodes the next characters; none at the end.
    fn decode(&mut self) -> io::Result<()> {
        self.text.clear();
        self.given = 0;
        while self.text.is_empty() {
            let mut chunk = [0; 1 << 14];
            let read = self.reader.read(&mut chunk)?;
            if read == 0 {
                let is_truncated = !self.bytes.is_empty();
                let truncated =
                    || io::Error::new(io::ErrorKind::UnexpectedEof, "the UTF-16 text ends within a character");
                return if is_truncated { Err(truncated()) } else { Ok(()) };
            }
            self.bytes.extend_from_slice(&chunk[..read]);
            let Some(first) = self.bytes.first() else { continue };
            let unit = *self.unit.get_or_insert(if *first == 0xff { u16::from_le_bytes } else { u16::from_be_bytes });
            let mut units: Vec<u16> = self.bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
            // The second half of a pair may be in the next chunk.
            units.pop_if(|last| (0xd800..0xdc00).contains(last));
            self.bytes.drain(..units.len() * 2);
            let decoded: Result<String, _> = char::decode_utf16(units).collect();
            self.text = decoded.map_err(|error| {
                let problem =
                    format!("the UTF-16 text is broken: unpaired surrogate 0x{:04x}", error.unpaired_surrogate());
                io::Error::new(io::ErrorKind::InvalidData, problem)
            })?;
        }
        Ok(())
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.text.len() {
            self.decode()?;
        }
        let rest = &self.text.as_bytes()[self.given..];
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.given += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::{Utf16, is_utf16};

    fn decode(bytes: &[u8]) -> Result<String, String> {
        let mut text = String::new();
        Utf16::new(bytes).read_to_string(&mut text).map(|_| text).map_err(|error| error.to_string())
    }

    #[test]
    fn utf_16_is_read_in_both_byte_orders() {
        let text = format!("\u{feff}{}", "a: äöü 日本 😀\r\n".repeat(3_000));
        let bytes = |unit: fn(u16) -> [u8; 2]| -> Vec<u8> { text.encode_utf16().flat_map(unit).collect() };
        for bytes in [bytes(u16::to_le_bytes), bytes(u16::to_be_bytes)] {
            assert!(is_utf16(&bytes));
            assert_eq!(decode(&bytes).unwrap(), text);
            assert_eq!(decode(&bytes[..bytes.len() - 1]).unwrap_err(), "the UTF-16 text ends within a character");
        }
        assert_eq!(
            decode(b"\xff\xfea\0\0\xdcb\0").unwrap_err(),
            "the UTF-16 text is broken: unpaired surrogate 0xdc00"
        );
    }
}
