//! The operation model behind libFuzzer and bolero: any bytes steer the same cases that campaigns draw.

use std::cell::RefCell;

use debloat_aqm::Linux;
use debloat_aqm::net::testing::Dice;
use debloat_oracle::{World, WorldOptions, find};

use super::campaign::{CampaignReport, CaseEnd, run_case};
use super::case::Case;
use super::kernel::Session;
use super::{solo, targets};

/// Operations of a fuzzed case.
const STEPS: usize = 120;

/// A case on the port alone, checked after every call.
///
/// # Panics
///
/// When an invariant is broken, or `kind` is none that can be compared.
pub fn port(kind: &str, data: &[u8]) {
    let target = targets::find(kind).expect("a target of this kind");
    let (version, data) = data.split_first().map_or((0, data), |(first, rest)| (*first, rest));
    let case = Case::draw(target, &mut Dice::steered(data), STEPS);
    solo::run(kind, &case, Linux::ALL[usize::from(version) % 3], kind == "cake");
}

/// A case on the newest kernel found and on the port. False: there is no kernel.
///
/// # Panics
///
/// When they differ.
pub fn against_kernel(kind: &str, data: &[u8]) -> bool {
    thread_local! {
        // One world per process; it lives as long as the fuzzer.
        static WORLD: RefCell<Option<&'static World>> = const { RefCell::new(None) };
    }
    let target = targets::find(kind).expect("a target of this kind");
    let world = WORLD.with_borrow_mut(|slot| {
        if slot.is_none() {
            let world = World::load(&find("newest").ok()?, WorldOptions::default()).ok()?;
            *slot = Some(Box::leak(Box::new(world)));
        }
        *slot
    });
    let Some(world) = world else { return false };
    let case = Case::draw(target, &mut Dice::steered(data), STEPS);
    let mut session = Session::new(world, target).expect("the kernel makes a socket");
    match run_case(&mut session, &case, &mut CampaignReport::default(), &mut None) {
        Ok(CaseEnd::Same | CaseEnd::Refused) => true,
        Ok(CaseEnd::Differs(step, divergence)) => panic!("step {step} of {}: {divergence}", case.options.text),
        Err(error) => panic!("{}: {error}", case.options.text),
    }
}
