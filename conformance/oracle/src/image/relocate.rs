//! Relocation of the image: the lists that the kernel itself uses for address randomisation.

use super::payload::u32_at;
use super::symbols::Section;
use crate::error::ImageError;

fn bad(what: impl Into<String>) -> ImageError {
    ImageError::Relocation(what.into())
}

/// Applies the lists at the payload's tail to the image.
///
/// The lists lie behind the ELF file and are read backwards: 32-bit addresses, inverse 32-bit (only with
/// zero-based per-cpu data, absent on 7.x), 64-bit addresses; each ends with a zero. Every entry is the
/// link address of a word, sign-extended from 32 bits.
pub(super) fn apply(
    image: &mut [u8],
    payload: &[u8],
    elf_end: usize,
    link_base: u64,
    delta: u64,
) -> Result<(), ImageError> {
    let mut lists: Vec<Vec<u32>> = Vec::new();
    let mut at = payload.len().checked_sub(4).ok_or_else(|| bad("empty payload"))?;
    while at >= elf_end {
        let mut list = Vec::new();
        while at >= elf_end {
            match u32_at(payload, at).ok_or_else(|| bad("truncated"))? {
                0 => break,
                entry => list.push(entry),
            }
            at -= 4;
        }
        lists.push(list);
        at = at.checked_sub(4).ok_or_else(|| bad("no end"))?;
    }
    let (narrow, inverse, wide) = match &lists[..] {
        [a, b] => (a, None, b),
        [a, b, c] => (a, Some(b), c),
        other => return Err(bad(format!("{} lists, 2 or 3 expected", other.len()))),
    };
    let place = |entry: &u32| -> Result<usize, ImageError> {
        let link = i64::from(*entry as i32) as u64;
        let at = link.wrapping_sub(link_base) as usize;
        if at.saturating_add(8) > image.len() { Err(bad(format!("entry {link:#x} outside the image"))) } else { Ok(at) }
    };
    let places = |list: &[u32]| list.iter().map(place).collect::<Result<Vec<_>, _>>();
    let (narrow, wide) = (places(narrow)?, places(wide)?);
    let inverse = inverse.map(|l| places(l)).transpose()?.unwrap_or_default();
    for (list, by) in [(narrow, delta as u32), (inverse, (delta as u32).wrapping_neg())] {
        for at in list {
            let old = u32_at(image, at).unwrap_or(0);
            image[at..at + 4].copy_from_slice(&old.wrapping_add(by).to_le_bytes());
        }
    }
    for at in wide {
        let mut old = [0; 8];
        old.copy_from_slice(&image[at..at + 8]);
        image[at..at + 8].copy_from_slice(&u64::from_le_bytes(old).wrapping_add(delta).to_le_bytes());
    }
    Ok(())
}

/// Turns `jmp __x86_return_thunk` into `ret`: the thunks are meant to be patched at boot.
pub(super) fn plain_returns(image: &mut [u8], base: u64, sites: &Section) -> Result<(), ImageError> {
    for entry in (sites.start..sites.end).step_by(4) {
        let off = u32_at(image, (entry - base) as usize).ok_or(ImageError::Truncated("return sites"))?;
        let at = entry.wrapping_add(off as i32 as i64 as u64).wrapping_sub(base) as usize;
        let site = image.get_mut(at..at + 5).ok_or(ImageError::Truncated("return site"))?;
        if site[0] == 0xe9 {
            site.copy_from_slice(&[0xc3, 0xcc, 0xcc, 0xcc, 0xcc]);
        }
    }
    Ok(())
}
