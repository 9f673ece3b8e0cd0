use debloat_aqm::Host;
use debloat_aqm::net::testing::Dice;
use debloat_harness::trace::{Call, Field, Schema};

use super::case::{Draft, OptionSet};
use super::coverage::Coverage;

/// What one qdisc adds to the differential runs.
pub trait Target: Sync + std::panic::RefUnwindSafe {
    /// The tc name.
    fn kind(&self) -> &'static str;

    /// Draws options, for creation or for a change while running. Options that the kernel refuses are welcome now
    /// and then: the port must refuse them too.
    fn options(&self, dice: &mut Dice<'_>, change: bool) -> OptionSet;

    /// Private state to compare after each call.
    fn schemas(&self) -> Vec<StateSchema>;

    /// The objects of a schema to look at after a call: the keys, pushed into `keys`. `turn` counts the calls, for
    /// looking at a few of many in turn.
    fn keys(&self, schema: usize, options: &OptionSet, turn: u64, keys: &mut Vec<u64>) {
        let _ = (schema, options, turn);
        keys.push(0);
    }

    /// Shapes a drawn packet, where the qdisc needs more than the common mix.
    fn shape(&self, dice: &mut Dice<'_>, draft: &mut Draft) {
        let _ = (dice, draft);
    }

    /// Should most draws of the next case be high? See [`Case::high_draws`](super::Case::high_draws).
    fn high_draws(&self, dice: &mut Dice<'_>) -> bool {
        let _ = dice;
        false
    }

    /// Does the qdisc have a jiffy timer that the operations should fire?
    fn has_timer(&self) -> bool {
        false
    }

    /// The device; a random one by default.
    fn host(&self, dice: &mut Dice<'_>) -> Host {
        let mtu_bytes = dice.pick(&[1500, 1500, 1500, 576, 9000]);
        Host { mtu_bytes, handle: 0x1_0000, is_root: dice.below(2) == 0, ..Host::default() }
    }

    /// The branches of the specification which a campaign must reach, by name.
    fn branches(&self) -> &'static [&'static str];

    /// Counts the branches that a call reached.
    fn cover(&self, seen: &Seen<'_>, coverage: &mut Coverage);
}

/// A kind of private state: the trace schema, and where each field stands in the kernel's structure.
#[derive(Clone, Debug)]
pub struct StateSchema {
    /// Schema of the trace; its names are those of the port's probe.
    pub schema: Schema,
    /// One path per field; `{}` stands for the key. A path that begins with `qdisc:` is one of `struct Qdisc`.
    pub paths: Vec<&'static str>,
}

impl StateSchema {
    /// From (field, bits, signed, path) rows.
    pub fn new(name: &str, object: &str, rows: &[(&str, u8, bool, &'static str)]) -> Self {
        let field = |&(name, bits, signed, _): &(&str, u8, bool, _)| Field { name: name.into(), bits, signed };
        Self {
            schema: Schema { name: name.into(), object: object.into(), fields: rows.iter().map(field).collect() },
            paths: rows.iter().map(|row| row.3).collect(),
        }
    }
}

/// One call with the state before and after, for counting branches.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// The call.
    pub call: &'a Call,
    pub(super) schemas: &'a [StateSchema],
    pub(super) before: &'a super::kernel::Known,
}

impl Seen<'_> {
    /// A value after the call, if it was looked at.
    pub fn after(&self, schema: usize, key: u64, field: &str) -> Option<u64> {
        let at = self.schemas[schema].schema.index_of(field)?;
        let mut snapshots = self.call.snapshots.iter();
        let snapshot = snapshots.find(|snapshot| usize::from(snapshot.schema) == schema && snapshot.key == key)?;
        snapshot.values.get(at).copied()
    }

    /// The value when it was last looked at before the call.
    pub fn before(&self, schema: usize, key: u64, field: &str) -> Option<u64> {
        let at = self.schemas[schema].schema.index_of(field)?;
        self.before.get(&(schema, key))?.get(at).copied()
    }

    /// Both, if the value was looked at before and after.
    pub fn both(&self, schema: usize, key: u64, field: &str) -> Option<(u64, u64)> {
        Some((self.before(schema, key, field)?, self.after(schema, key, field)?))
    }

    /// Did the value grow in this call (modulo its width)?
    pub fn grew(&self, schema: usize, key: u64, field: &str) -> bool {
        self.both(schema, key, field).is_some_and(|(before, after)| after != before)
    }
}
