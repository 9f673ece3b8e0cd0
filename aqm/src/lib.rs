//! See the crate description.
#![no_std]
