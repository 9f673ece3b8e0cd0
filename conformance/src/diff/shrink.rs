//! Makes a sequence that shows a difference as short as it can, by leaving steps out.

use super::case::Case;

/// Tries at most this many shorter sequences.
const TRIES: usize = 3000;

/// The shortest case found for which `shows` still holds. `until` is the step that showed it: later ones go first.
pub fn shrink(case: &Case, until: usize, mut shows: impl FnMut(&Case) -> bool) -> Case {
    let mut best = case.clone();
    best.steps.truncate(until + 1);
    let mut tries = 0;
    let mut chunk = best.steps.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let mut removed = false;
        while at < best.steps.len() && tries < TRIES {
            let end = (at + chunk).min(best.steps.len());
            let mut shorter = best.clone();
            // Time still passes where steps are left out.
            let gone: u64 = shorter.steps.drain(at..end).map(|step| step.advance_ns).sum();
            if let Some(next) = shorter.steps.get_mut(at) {
                next.advance_ns += gone;
            }
            tries += 1;
            if !shorter.steps.is_empty() && shows(&shorter) {
                best = shorter;
                removed = true;
            } else {
                at = end;
            }
        }
        if tries >= TRIES || (chunk == 1 && !removed) {
            return best;
        }
        if chunk > 1 {
            chunk = chunk.div_ceil(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::{Device, Op, OptionSet, Step};
    use super::*;

    #[test]
    fn the_two_steps_that_matter_stay() {
        let step = |advance_ns| Step { advance_ns, clock_step_ns: 0, op: Op::Dequeue };
        let case = Case {
            device: Device { mtu_bytes: 1500, link_header_bytes: 14, tx_queue_len: 1000, handle: 0, is_root: true },
            options: OptionSet::default(),
            start_ns: 0,
            draw_seed: 0,
            steps: (0..100).map(step).collect(),
        };
        let time = |case: &Case| case.steps.iter().map(|step| step.advance_ns).sum::<u64>();
        let short = shrink(&case, 80, |case| case.steps.len() >= 2 && time(case) >= 3000);
        assert_eq!(short.steps.len(), 2);
        assert_eq!(time(&short), (0..=80).sum::<u64>());
    }
}
