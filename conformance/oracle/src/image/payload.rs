//! bzImage → the kernel's ELF file followed by its relocation lists.

use crate::error::ImageError;
use std::io::Read;

/// Little-endian words out of a byte slice; `None` past its end.
pub(crate) fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(b.get(at..at.checked_add(2)?)?.try_into().ok()?))
}
pub(crate) fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(b.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

// The x86 boot protocol's setup header.
const SETUP_SECTS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

/// Unpacks a bzImage; an ELF file (an already unpacked payload) passes through.
pub(crate) fn unpack(file: Vec<u8>) -> Result<Vec<u8>, ImageError> {
    if file.starts_with(b"\x7fELF") {
        return Ok(file);
    }
    if file.get(MAGIC..MAGIC + 4) != Some(b"HdrS") {
        return Err(ImageError::NotBzImage);
    }
    let cut = ImageError::Truncated;
    let setup = match file[SETUP_SECTS] {
        0 => 4,
        n => n as usize,
    };
    let offset = u32_at(&file, PAYLOAD_OFFSET).ok_or(cut("setup header"))? as usize;
    let length = u32_at(&file, PAYLOAD_LENGTH).ok_or(cut("setup header"))? as usize;
    let start = (setup + 1) * 512 + offset;
    let packed = file.get(start..start.saturating_add(length)).ok_or(cut("payload"))?;
    if packed.len() < 8 {
        return Err(cut("payload"));
    }
    // The build appends the unpacked size (gzip has it by itself).
    let (packed, size) = packed.split_at(packed.len() - 4);
    let size = u32_at(size, 0).unwrap_or(0) as usize;
    let out = decompress(packed, size)?;
    if out.len() != size {
        return Err(ImageError::Decompress(format!("{} bytes, {size} announced", out.len())));
    }
    if !out.starts_with(b"\x7fELF") {
        return Err(ImageError::Elf("no ELF magic".into()));
    }
    Ok(out)
}

fn decompress(packed: &[u8], size: usize) -> Result<Vec<u8>, ImageError> {
    // 1 GiB: no kernel is that large, a damaged size field may be.
    if size > 1 << 30 {
        return Err(ImageError::Decompress(format!("{size} bytes announced")));
    }
    let mut out = Vec::with_capacity(size);
    let failed = |e: std::io::Error| ImageError::Decompress(e.to_string());
    match packed {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let mut d = zstd::stream::Decoder::new(packed).map_err(failed)?.single_frame();
            d.read_to_end(&mut out).map_err(failed)?;
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            lzma_rust2::XzReader::new(packed, false).read_to_end(&mut out).map_err(failed)?;
        }
        // The size word belongs to gzip's own trailer.
        [0x1f, 0x8b, ..] => {
            let mut whole = packed.to_vec();
            whole.extend_from_slice(&(size as u32).to_le_bytes());
            flate2::read::GzDecoder::new(&whole[..]).read_to_end(&mut out).map_err(failed)?;
        }
        [0x02, 0x21, 0x4c, 0x18, ..] => lz4_legacy(packed, size, &mut out)?,
        _ => {
            let mut magic = [0; 6];
            magic.copy_from_slice(packed.get(..6).ok_or(ImageError::Truncated("payload"))?);
            return Err(ImageError::Compression(magic));
        }
    }
    Ok(out)
}

/// LZ4's legacy frame: blocks of at most 8 MiB, each with its packed length in front.
fn lz4_legacy(packed: &[u8], size: usize, out: &mut Vec<u8>) -> Result<(), ImageError> {
    const BLOCK: usize = 8 << 20;
    const LEGACY: u32 = 0x184c_2102;
    let mut at = 4;
    let mut block = vec![0; BLOCK];
    while out.len() < size {
        let n = u32_at(packed, at).ok_or(ImageError::Truncated("LZ4 block"))?;
        at += 4;
        if n == LEGACY {
            continue;
        }
        let data = packed.get(at..at + n as usize).ok_or(ImageError::Truncated("LZ4 block"))?;
        let got =
            lz4_flex::block::decompress_into(data, &mut block).map_err(|e| ImageError::Decompress(e.to_string()))?;
        out.extend_from_slice(&block[..got]);
        at += n as usize;
    }
    Ok(())
}

/// A module file as shipped: plain, or packed with XZ, zstd or gzip.
pub(crate) fn unpack_module(file: Vec<u8>) -> Result<Vec<u8>, ImageError> {
    let mut out = Vec::new();
    let failed = |e: std::io::Error| ImageError::Decompress(e.to_string());
    match &file[..] {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            lzma_rust2::XzReader::new(&file[..], true).read_to_end(&mut out).map_err(failed)?;
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            zstd::stream::Decoder::new(&file[..]).map_err(failed)?.read_to_end(&mut out).map_err(failed)?;
        }
        [0x1f, 0x8b, ..] => {
            flate2::read::GzDecoder::new(&file[..]).read_to_end(&mut out).map_err(failed)?;
        }
        _ => return Ok(file),
    }
    Ok(out)
}
