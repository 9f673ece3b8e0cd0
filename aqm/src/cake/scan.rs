//! The tins' round robin of an unlimited cake (spec/cake.md §15.2).

use super::qdisc::Cake;
use super::storage::Storage;
use super::tin::Tin;
use crate::Packet;

impl<P: Packet, S: Storage> Cake<P, S> {
    /// The tin whose turn it is: it keeps it while its deficit lasts. `None` if no tin has anything.
    #[inline]
    pub(super) fn tin_in_turn(&mut self) -> Option<u16> {
        let (mut wrapped, mut none) = (false, true);
        loop {
            // The position can be a tin that is not in use, or was never made; those have nothing to give.
            if let Some(tin) = self.tins.as_mut().get_mut(usize::from(self.current_tin)) {
                if tin.deficit >= 0 && tin.is_active() {
                    return Some(self.current_tin);
                }
                if tin.deficit <= 0 {
                    tin.deficit = tin.deficit.wrapping_add(tin.quantum.into());
                }
                none &= !tin.is_active();
            }
            self.current_tin += 1;
            if self.current_tin >= self.layout.tins {
                self.current_tin = 0;
                if wrapped {
                    if none {
                        return None;
                    }
                    skip_rounds(&mut self.tins.as_mut()[..self.layout.tins.into()]);
                }
                wrapped = true;
            }
        }
    }
}

/// A shaper charges the deficits too and never refills them. When it is switched off, they can be gigabytes behind:
/// the rounds in which no tin could be served are taken at once.
fn skip_rounds<S: Storage>(tins: &mut [Tin<S>]) {
    let rounds = |tin: &Tin<S>| match (tin.deficit, u32::from(tin.quantum)) {
        (0.., _) | (_, 0) => 0,
        (behind, quantum) => (behind.unsigned_abs() - 1) / quantum,
    };
    let skipped = tins.iter().filter(|tin| tin.is_active()).map(rounds).min().unwrap_or(0);
    for tin in tins {
        // A tin without packets collects until it is above 0.
        let quantum = u32::from(tin.quantum);
        let collects = match tin.deficit {
            1.. => 0,
            behind if quantum != 0 => skipped.min(behind.unsigned_abs() / quantum + 1),
            _ => 0,
        };
        tin.deficit = tin.deficit.wrapping_add(collects.wrapping_mul(quantum) as i32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cake::{Config, Diffserv};
    use crate::{Descriptor, Heap, SplitMix64};
    use std::vec::Vec;

    type Queue = Cake<Descriptor>;

    /// The loop as the specification has it.
    fn plain(queue: &mut Queue) -> Option<u16> {
        let (mut wrapped, mut none) = (false, true);
        loop {
            let tins = queue.layout.tins;
            if let Some(tin) = queue.tins.get_mut(usize::from(queue.current_tin)) {
                if !(tin.deficit < 0 || !tin.is_active()) {
                    return Some(queue.current_tin);
                }
                if tin.deficit <= 0 {
                    tin.deficit += i32::from(tin.quantum);
                }
                if tin.is_active() {
                    none = false;
                }
            }
            queue.current_tin += 1;
            if queue.current_tin >= tins {
                queue.current_tin = 0;
                if wrapped && none {
                    return None;
                }
                wrapped = true;
            }
        }
    }

    #[test]
    fn skipping_changes_nothing() {
        let mut random = SplitMix64(7);
        let mut draw = |below: u64| random.next_u64() % below;
        for _ in 0..1000 {
            let mode = [Diffserv::Diffserv3, Diffserv::Diffserv4, Diffserv::Diffserv8][draw(3) as usize];
            let make = || Cake::new(Config { diffserv: Some(mode), ..Config::default() }).unwrap();
            let (mut ours, mut theirs): (Queue, Queue) = (make(), make());
            let reach = [10, 3000, 50_000][draw(3) as usize];
            for tin in 0..ours.made_tins {
                let (deficit, active) = (draw(2 * reach) as i32 - reach as i32 * 3 / 2, u16::from(draw(3) > 0));
                for queue in [&mut ours, &mut theirs] {
                    (queue.tins[tin].deficit, queue.tins[tin].sparse) = (deficit, active);
                }
            }
            let start = draw(8) as u16;
            (ours.current_tin, theirs.current_tin) = (start, start);
            assert_eq!(ours.tin_in_turn(), plain(&mut theirs));
            assert_eq!(ours.current_tin, theirs.current_tin);
            let deficits = |queue: &Queue| queue.tins.iter().map(|tin: &Tin<Heap>| tin.deficit).collect::<Vec<_>>();
            assert_eq!(deficits(&ours), deficits(&theirs));
        }
    }

    /// A shaped qdisc that sent gigabytes becomes unlimited: the next dequeue does not walk millions of rounds.
    #[test]
    fn far_behind() {
        let mut queue: Queue = Cake::new(Config::default()).unwrap();
        for (tin, deficit) in [-2_000_000_000, i32::MIN, -1_900_000_001].into_iter().enumerate() {
            (queue.tins[tin].deficit, queue.tins[tin].sparse) = (deficit, 1);
        }
        assert_eq!(queue.tin_in_turn(), Some(0));
        assert_eq!(queue.tins[0].deficit, 0, "1953125 rounds of 1024 bytes");
    }
}
