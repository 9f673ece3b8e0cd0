//! The kernel image: unpacked, mapped below 2 GiB, relocated, and its symbols and types read.

mod btf;
mod field;
mod kallsyms;
mod module;
mod payload;
mod relocate;
mod symbols;

pub use btf::{Btf, MemberInfo};
pub use field::Field;
pub(crate) use module::{LoadedModule, depends as module_depends, load as load_module};
pub(crate) use payload::{unpack, unpack_module};
pub(crate) use symbols::{Bugs, Named, Section};

use crate::error::{Error, ImageError, Result};
use crate::memory::Mapping;
use object::LittleEndian as LE;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use std::collections::HashMap;
use std::rc::Rc;

/// Where the compiler believed the kernel's text to be.
const LINK_BASE: u64 = 0xffff_ffff_8100_0000;
/// Link addresses below this are the zero-based per-cpu segment (absent on 7.x).
const PERCPU_LIMIT: u64 = 0x1000_0000;

/// A mapped and relocated kernel.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) mapping: Mapping,
    /// `__ksymtab`: what modules may use.
    pub(crate) exports: HashMap<String, u64>,
    /// kallsyms: everything, by name and by address.
    pub(crate) named: Named,
    pub(crate) bugs: Option<Section>,
    pub(crate) btf: Rc<Btf>,
    /// Initial per-cpu data and its full size, when per-cpu addresses are zero-based.
    pub(crate) percpu: Option<(Vec<u8>, u64)>,
}

fn elf_error(e: object::read::Error) -> ImageError {
    ImageError::Elf(e.to_string())
}

impl Image {
    /// Maps an unpacked payload with its text at `base`.
    pub(crate) fn load(payload: &[u8], base: u64) -> Result<Self> {
        let header = FileHeader64::<LE>::parse(payload).map_err(elf_error)?;
        let endian = header.endian().map_err(elf_error)?;
        if header.e_machine(endian) != object::elf::EM_X86_64 {
            return Err(ImageError::Elf("not for x86-64".into()).into());
        }
        let delta = base.wrapping_sub(LINK_BASE);
        let (mut end, mut file_end, mut percpu) = (0, 0, None);
        let mut segments = Vec::new();
        for p in header.program_headers(endian, payload).map_err(elf_error)? {
            if p.p_type(endian) != object::elf::PT_LOAD {
                continue;
            }
            let data = p.data(endian, payload).map_err(|()| ImageError::Truncated("segment"))?;
            let (va, len) = (p.p_vaddr(endian), p.p_memsz(endian));
            file_end = file_end.max(p.p_offset(endian) + p.p_filesz(endian));
            if va < PERCPU_LIMIT {
                percpu = Some((data.to_vec(), len));
            } else if va < LINK_BASE {
                return Err(ImageError::Elf(format!("segment at {va:#x}")).into());
            } else {
                end = end.max(va.wrapping_add(len));
                segments.push((va, data));
            }
        }
        let mut mapping = Mapping::fixed(base, end.wrapping_sub(LINK_BASE))?;
        for (va, data) in segments {
            let at = (va - LINK_BASE) as usize;
            mapping.bytes_mut()[at..at + data.len()].copy_from_slice(data);
        }
        let sections = header.sections(endian, payload).map_err(elf_error)?;
        let table_end =
            header.e_shoff(endian) + u64::from(header.e_shentsize(endian)) * u64::from(header.e_shnum(endian));
        relocate::apply(mapping.bytes_mut(), payload, file_end.max(table_end) as usize, LINK_BASE, delta)?;

        let mut found = Found::default();
        for s in sections.iter() {
            let name = sections.section_name(endian, s).map_err(elf_error)?;
            let (va, len) = (s.sh_addr(endian).wrapping_add(delta), s.sh_size(endian));
            let section = Section { start: va, end: va.wrapping_add(len) };
            match name {
                b".BTF" => found.btf = Some(s.data(endian, payload).map_err(elf_error)?),
                b"__ksymtab" | b"__ksymtab_gpl" => found.exports.push(section),
                b".return_sites" => found.return_sites = Some(section),
                b"__bug_table" => found.bugs = Some(section),
                _ => {}
            }
        }
        let btf = Btf::parse(None, found.btf.ok_or(ImageError::NoBtf)?)?;
        if let Some(sites) = &found.return_sites {
            relocate::plain_returns(mapping.bytes_mut(), base, sites)?;
        }
        let exports = symbols::exports(mapping.bytes(), base, &found.exports)?;
        let table = kallsyms::parse(mapping.bytes(), base, &exports)?;
        let named = Named::new("vmlinux", base..mapping.end(), table);
        Ok(Self { mapping, exports, named, bugs: found.bugs, btf: Rc::new(btf), percpu })
    }

    /// Any symbol, exported or not.
    pub(crate) fn symbol(&self, name: &str) -> Option<u64> {
        self.exports.get(name).copied().or_else(|| self.named.find(name))
    }
}

#[derive(Default)]
struct Found<'a> {
    btf: Option<&'a [u8]>,
    exports: Vec<Section>,
    return_sites: Option<Section>,
    bugs: Option<Section>,
}

/// Reads and unpacks a kernel file.
pub(crate) fn read(path: &std::path::Path) -> Result<Vec<u8>> {
    let file = std::fs::read(path).map_err(|source| Error::Io { path: path.into(), source })?;
    Ok(unpack(file)?)
}
