//! How congestion-control state is laid out in kernels ([`private`]) and named in traces ([`names`]).

pub mod names;
pub mod private;
