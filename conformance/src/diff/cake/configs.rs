//! Random configurations, as tc could send them and as it could not.

use debloat_aqm::cake::{AckFilter, Config, Diffserv, FlowMode, Framing};
use debloat_aqm::net::testing::Dice;
use debloat_oracle::nla::Builder;

/// A configuration for both sides: netlink attributes (spec/cake.md Appendix D) and the port's own.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// For the port.
    pub config: Config,
    attributes: Builder,
}

impl Settings {
    /// The attributes for the kernel.
    pub fn attributes(&self) -> Vec<u8> {
        self.attributes.clone().finish()
    }

    fn word(&mut self, kind: u16, value: u32) {
        self.attributes = std::mem::take(&mut self.attributes).u32(kind, value);
    }

    /// A random configuration: each option is there once in `rarity` times.
    pub fn random(dice: &mut Dice<'_>, rarity: usize) -> Self {
        let mut this = Self::default();
        for option in ALL {
            if dice.one_in(rarity) {
                option(&mut this, dice);
            }
        }
        this
    }

    /// A plain configuration that reaches much: shaped, some overload, and few other options.
    pub fn busy(dice: &mut Dice<'_>) -> Self {
        let mut this = Self::default();
        this.set_rate(dice.pick(&[125_000, 1_250_000, 2_500_000, 12_500_000, 125_000_000]));
        diffserv(&mut this, dice);
        flow_mode(&mut this, dice);
        for option in ALL {
            if dice.one_in(8) {
                option(&mut this, dice);
            }
        }
        this
    }

    fn set_rate(&mut self, rate: u64) {
        self.config.bandwidth = Some(rate);
        self.attributes = std::mem::take(&mut self.attributes).u64(2, rate);
    }
}

type SetOption = fn(&mut Settings, &mut Dice<'_>);

const ALL: [SetOption; 17] = [
    rate, diffserv, framing, flow_mode, overhead, rtt, target, autorate, memory, nat, raw, wash, mpu, ingress,
    ack_filter, split_gso, fwmark,
];

fn rate(this: &mut Settings, dice: &mut Dice<'_>) {
    let usual = [0, 1, 63, 64, 65, 8_000, 125_000, 1_250_000, 2_500_000, 12_500_000, 125_000_000, 1_250_000_000];
    let rate = match dice.below(16) {
        0 => dice.u32().into(),
        1 => 12_500_000_000 + u64::from(dice.u32()),
        2 => u64::from(dice.u32()) << 32 | u64::from(dice.u32()),
        _ => dice.pick(&usual),
    };
    this.set_rate(rate);
}

fn diffserv(this: &mut Settings, dice: &mut Dice<'_>) {
    let value = if dice.one_in(32) { dice.u32() } else { dice.below(5) as u32 };
    this.config.diffserv = Some(Diffserv::from_attribute(value));
    this.word(3, value);
}

fn framing(this: &mut Settings, dice: &mut Dice<'_>) {
    let value = if dice.one_in(32) { dice.u32() } else { dice.below(3) as u32 };
    this.config.framing = Some(Framing::from_attribute(value));
    this.word(4, value);
}

fn flow_mode(this: &mut Settings, dice: &mut Dice<'_>) {
    let value = match dice.below(32) {
        0 => dice.u32(),
        _ => dice.pick(&[0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 5, 6]),
    };
    this.config.flow_mode = Some(FlowMode::from_attribute(value));
    this.word(5, value);
}

fn overhead(this: &mut Settings, dice: &mut Dice<'_>) {
    let value = match dice.below(16) {
        0 => dice.u32().cast_signed(),
        1 => dice.pick(&[-64, -1, 256, 32767, -32768]),
        _ => dice.pick(&[0, 18, 22, 38, 40, 44, 48]),
    };
    this.config.overhead_bytes = Some(value);
    this.word(6, value.cast_unsigned());
}

fn rtt(this: &mut Settings, dice: &mut Dice<'_>) {
    let value = time(dice);
    this.config.rtt_us = Some(value);
    this.word(7, value);
}

fn target(this: &mut Settings, dice: &mut Dice<'_>) {
    let value = time(dice) / dice.pick(&[1, 20]);
    this.config.target_us = Some(value);
    this.word(8, value);
}

fn time(dice: &mut Dice<'_>) -> u32 {
    match dice.below(16) {
        0 => dice.u32(),
        1 => dice.pick(&[0, 1, 1_000_000_000, u32::MAX]),
        _ => dice.pick(&[100, 1_000, 10_000, 30_000, 100_000, 300_000, 1_000_000]),
    }
}

fn autorate(this: &mut Settings, dice: &mut Dice<'_>) {
    let value = dice.below(2) as u32 * dice.pick(&[1, 1, 0x100]);
    this.config.autorate_ingress = Some(value != 0);
    this.word(9, value);
}

fn memory(this: &mut Settings, dice: &mut Dice<'_>) {
    let value = dice.pick(&[0, 1, 2_000, 20_000, 60_000, 200_000, 1_000_000, 4 << 20, 64 << 20, u32::MAX]);
    this.config.memlimit_bytes = Some(value);
    this.word(10, value);
}

fn nat(this: &mut Settings, dice: &mut Dice<'_>) {
    let value = dice.below(2) as u32;
    this.config.nat = Some(value != 0);
    this.word(11, value);
}

fn raw(this: &mut Settings, dice: &mut Dice<'_>) {
    this.config.raw = true;
    let value = dice.byte().into();
    this.word(12, value);
}

fn wash(this: &mut Settings, dice: &mut Dice<'_>) {
    let value = dice.below(2) as u32;
    this.config.wash = Some(value != 0);
    this.word(13, value);
}

fn mpu(this: &mut Settings, dice: &mut Dice<'_>) {
    let value = if dice.one_in(16) { dice.u32() } else { dice.pick(&[0, 64, 84, 256, 1514]) };
    this.config.mpu_bytes = Some(value);
    this.word(14, value);
}

fn ingress(this: &mut Settings, dice: &mut Dice<'_>) {
    let value = dice.below(2) as u32;
    this.config.ingress = Some(value != 0);
    this.word(15, value);
}

fn ack_filter(this: &mut Settings, dice: &mut Dice<'_>) {
    let value = if dice.one_in(32) { dice.u32() } else { dice.below(3) as u32 };
    this.config.ack_filter = Some(AckFilter::from_attribute(value));
    this.word(16, value);
}

fn split_gso(this: &mut Settings, dice: &mut Dice<'_>) {
    let value = dice.below(2) as u32;
    this.config.split_gso = Some(value != 0);
    this.word(17, value);
}

fn fwmark(this: &mut Settings, dice: &mut Dice<'_>) {
    let value = dice.pick(&[0, 1, 0xf, 0xff00, 0x8000_0000, 0x00a0_0000, u32::MAX]);
    this.config.fwmark = Some(value);
    this.word(18, value);
}

/// What chooses a packet's tin, for counting.
pub(super) mod uses {
    use debloat_aqm::cake::Parameters;

    pub(in super::super) fn tin_by_mark(v: &Parameters, mark: u32, tins: u16) -> bool {
        let number = (mark & v.fwmark) >> (v.fwmark.trailing_zeros() % 32);
        (1..=u32::from(tins)).contains(&number)
    }

    pub(in super::super) fn tin_by_priority(priority: u32, tins: u16) -> bool {
        priority >> 16 != 5 && (1..=u32::from(tins)).contains(&(priority & 0xffff))
    }
}
