//! A congestion control's hooks as events (see the record of types 17 and 18).

use debloat_harness::trace::Trace;

use super::bad;
use crate::error::Error;
use crate::raw::Raw;
use crate::recording::Recording;

pub(super) fn trace(_: &Raw, _: &Recording, _: &str) -> Result<Trace, Error> {
    bad(0, "not yet")
}
