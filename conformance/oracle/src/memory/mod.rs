//! Memory below 2 GiB: mappings, the kernel's heap, checked access.

mod arena;
mod map;
mod raw;

pub(crate) use arena::{Arena, Freed, H_USER, HEADER};
pub(crate) use map::Mapping;
pub(crate) use raw::Memory;
