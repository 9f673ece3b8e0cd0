//! Short property runs of the fuzzing models; the seeds are bolero's.
#![cfg(feature = "testing")]

use debloat_cc::testing;

macro_rules! model {
    ($name:ident) => {
        #[test]
        fn $name() {
            bolero::check!().with_max_len(600).with_iterations(3000).for_each(|bytes| testing::$name(bytes));
        }
    };
}

model!(cubic);
model!(bbr);
model!(dctcp);
model!(driver);
