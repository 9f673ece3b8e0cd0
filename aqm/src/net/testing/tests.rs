extern crate std;

use std::collections::BTreeMap;

use super::*;

#[test]
fn the_same_seed_gives_the_same_frame() {
    assert_eq!(frame(&mut Dice::seeded(7)), frame(&mut Dice::seeded(7)));
    assert_ne!(frame(&mut Dice::seeded(7)), frame(&mut Dice::seeded(8)));
    assert_eq!(frame(&mut Dice::steered(&[9; 30])), frame(&mut Dice::steered(&[9; 30])));
}

/// Each kind of layer is reached often, and the depth limits are.
#[test]
fn everything_occurs() {
    let mut seen = BTreeMap::new();
    let mut dice = Dice::seeded(1);
    let (mut deepest, mut longest) = (0, 0);
    for _ in 0..20_000 {
        let frame = frame(&mut dice);
        deepest = deepest.max(frame.layers.len());
        longest = longest.max(frame.bytes.len());
        for layer in frame.layers {
            *seen.entry(layer).or_insert(0) += 1;
        }
    }
    assert_eq!(seen.len(), Layer::Truncated as usize + 1);
    assert!(seen.values().all(|&times| times > 200), "{seen:?}");
    assert!(deepest > 16 && longest < 2048, "{deepest} layers, {longest} bytes");
}
