//! See the crate description.
#![no_std]

pub mod net;
