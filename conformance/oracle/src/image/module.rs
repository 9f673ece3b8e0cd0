//! Loading a module: a relocatable ELF file placed in the arena and bound to the image.

use super::btf::Btf;
use super::symbols::{Named, Section, SymbolTable};
use crate::error::{Error, Result};
use crate::memory::{Arena, Memory};
use object::{
    Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionFlags, SymbolSection, elf,
};
use std::collections::HashMap;
use std::rc::Rc;

/// A module in place; `init_module` has not run yet.
#[derive(Debug)]
pub(crate) struct LoadedModule {
    pub(crate) name: String,
    /// All its named symbols.
    pub(crate) symbols: HashMap<String, u64>,
    /// What other modules may use.
    pub(crate) exports: HashMap<String, u64>,
    pub(crate) named: Named,
    pub(crate) bugs: Option<Section>,
    /// `__param`: its parameters.
    pub(crate) params: Option<Section>,
    /// Its own types on top of the image's.
    pub(crate) btf: Option<Rc<Btf>>,
}

struct Loader<'a> {
    mem: &'a Memory,
    name: &'a str,
    sections: HashMap<usize, u64>,
    symbols: HashMap<usize, (u64, String)>,
}

/// Calls that are patched out instead of bound.
const FENTRY: &str = "__fentry__";
const RETURN_THUNK: &str = "__x86_return_thunk";

/// Places `file` in the arena. `resolve` gives the address of an imported symbol.
pub(crate) fn load(
    file: &[u8],
    name: &str,
    arena: &Arena,
    mem: &Memory,
    base: &Rc<Btf>,
    resolve: &mut dyn FnMut(&str) -> u64,
) -> Result<LoadedModule> {
    let fail = |reason: String| Error::Module { module: name.into(), reason };
    let elf = object::File::parse(file).map_err(|e| fail(e.to_string()))?;
    let mut loader = Loader { mem, name, sections: HashMap::new(), symbols: HashMap::new() };
    let start = arena.carve(0, 4096);
    let (mut bugs, mut params) = (None, None);
    let mut btf = None;
    for s in elf.sections() {
        let SectionFlags::Elf { sh_flags } = s.flags() else {
            continue;
        };
        let section_name = s.name().unwrap_or_default();
        if section_name == ".BTF" {
            let data = s.data().map_err(|e| fail(e.to_string()))?;
            btf = Some(Rc::new(Btf::parse(Some(base.clone()), data)?));
        }
        if sh_flags & u64::from(elf::SHF_ALLOC) == 0 {
            continue;
        }
        let at = arena.carve(s.size(), s.align().max(16));
        if at == 0 {
            return Err(Error::ArenaFull { size: mem.arena().end - mem.arena().start });
        }
        mem.zero(at, s.size());
        mem.write_bytes(at, s.data().map_err(|e| fail(e.to_string()))?);
        loader.sections.insert(s.index().0, at);
        let section = Some(Section { start: at, end: at + s.size() });
        match section_name {
            "__bug_table" => bugs = section,
            "__param" => params = section,
            _ => {}
        }
    }
    let mut own = HashMap::new();
    for s in elf.symbols() {
        let n = s.name().unwrap_or_default();
        let value = match s.section() {
            SymbolSection::Section(i) => match loader.sections.get(&i.0) {
                Some(at) => at + s.address(),
                None => continue,
            },
            SymbolSection::Undefined if n.is_empty() => continue,
            SymbolSection::Undefined if n == FENTRY || n == RETURN_THUNK => 0,
            SymbolSection::Undefined => resolve(n),
            SymbolSection::Absolute => s.address(),
            _ => continue,
        };
        if !n.is_empty() && !s.is_undefined() {
            own.insert(n.to_owned(), value);
        }
        loader.symbols.insert(s.index().0, (value, n.to_owned()));
    }
    for s in elf.sections() {
        let Some(at) = loader.sections.get(&s.index().0).copied() else {
            continue;
        };
        for (offset, r) in s.relocations() {
            loader.relocate(at + offset, &r)?;
        }
    }
    // __ksymtab_NAME marks an export.
    let exports = own
        .keys()
        .filter_map(|k| k.strip_prefix("__ksymtab_"))
        .filter_map(|n| own.get(n).map(|a| (n.to_owned(), *a)))
        .collect();
    let end = arena.carve(0, 4096).max(start);
    let mut table = SymbolTable::default();
    for (n, at) in &own {
        table.push(*at, n.as_bytes());
    }
    let named = Named::new(name, start..end, table);
    Ok(LoadedModule { name: name.into(), symbols: own, exports, named, bugs, params, btf })
}

impl Loader<'_> {
    fn fail(&self, reason: String) -> Error {
        Error::Module { module: self.name.into(), reason }
    }

    fn relocate(&self, at: u64, r: &object::Relocation) -> Result<()> {
        let mem = self.mem;
        let RelocationFlags::Elf { r_type } = r.flags() else {
            return Err(self.fail("not ELF".into()));
        };
        let RelocationTarget::Symbol(index) = r.target() else {
            return Err(self.fail("relocation without symbol".into()));
        };
        let (value, symbol) =
            self.symbols.get(&index.0).ok_or_else(|| self.fail(format!("relocation against symbol {}", index.0)))?;
        let opcode = mem.read::<u8>(at - 1);
        match (symbol.as_str(), opcode) {
            // call __fentry__ → nopl 0(%rax,%rax): tracing is off.
            (FENTRY, 0xe8) => return self.patch(at - 1, [0x0f, 0x1f, 0x44, 0x00, 0x00]),
            (RETURN_THUNK, 0xe9) => return self.patch(at - 1, [0xc3, 0xcc, 0xcc, 0xcc, 0xcc]),
            (FENTRY | RETURN_THUNK, _) => {
                return Err(self.fail(format!("{symbol} used by opcode {opcode:#04x}")));
            }
            _ => {}
        }
        let absolute = (*value as i64).wrapping_add(r.addend());
        let relative = absolute.wrapping_sub(at as i64);
        let overflow = || self.fail(format!("relocation against `{symbol}` does not fit"));
        match r_type {
            elf::R_X86_64_64 => mem.write(at, absolute),
            elf::R_X86_64_PC64 => mem.write(at, relative),
            elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => {
                mem.write(at, i32::try_from(relative).map_err(|_| overflow())?);
            }
            elf::R_X86_64_32S => mem.write(at, i32::try_from(absolute).map_err(|_| overflow())?),
            elf::R_X86_64_32 => mem.write(at, u32::try_from(absolute).map_err(|_| overflow())?),
            other => return Err(self.fail(format!("relocation type {other} against `{symbol}`"))),
        }
        Ok(())
    }

    fn patch(&self, at: u64, code: [u8; 5]) -> Result<()> {
        self.mem.write_bytes(at, &code);
        Ok(())
    }
}

/// Names of the modules that this one needs, from its `.modinfo`.
pub(crate) fn depends(file: &[u8], name: &str) -> Result<Vec<String>> {
    let fail = |e: object::Error| Error::Module { module: name.into(), reason: e.to_string() };
    let elf = object::File::parse(file).map_err(fail)?;
    let Some(info) = elf.section_by_name(".modinfo") else {
        return Ok(Vec::new());
    };
    let info = info.data().map_err(fail)?;
    let list = info.split(|c| *c == 0).find_map(|entry| entry.strip_prefix(b"depends="));
    let list = String::from_utf8_lossy(list.unwrap_or(&[])).into_owned();
    Ok(list.split(',').filter(|n| !n.is_empty()).map(|n| n.replace('-', "_")).collect())
}
