//! How each Diffserv mode divides the traffic: tables of §6.6 and §8.4 of spec/cake.md.

use super::config::Diffserv;

/// The most tins a mode has.
pub(super) const MAX_TINS: usize = 8;

/// One Diffserv mode. Tins have an index (used by the scheduler and the tables) and a place in the display order
/// (used by statistics, classes, `fwmark` and `priority`), which differ in diffserv3 and diffserv4.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Tins in use.
    pub(super) tins: u16,
    /// Tin index by DSCP.
    pub(super) by_dscp: &'static [u8; 64],
    /// Tin index by place in the display order.
    pub(super) display: &'static [u8; MAX_TINS],
    shares: Shares,
}

#[derive(Debug, PartialEq, Eq)]
enum Shares {
    /// Threshold rates are the rate shifted right by these; quanta.
    Shifts(&'static [(u8, u16)]),
    /// Each tin has seven eighths of the one before.
    Chain,
}

const IN_ORDER: [u8; MAX_TINS] = [0, 1, 2, 3, 4, 5, 6, 7];
const BULK_FIRST: [u8; MAX_TINS] = [1, 0, 2, 3, 4, 5, 6, 7];

/// A table from its text, eight DSCPs to the group.
const fn table(text: &str) -> [u8; 64] {
    let text = text.as_bytes();
    let (mut table, mut from, mut to) = ([0; 64], 0, 0);
    while to < 64 {
        if text[from] != b' ' {
            table[to] = text[from] - b'0';
            to += 1;
        }
        from += 1;
    }
    table
}

static BESTEFFORT: Layout =
    Layout { tins: 1, by_dscp: &[0; 64], display: &IN_ORDER, shares: Shares::Shifts(&[(0, 65535)]) };
static DIFFSERV3: Layout = Layout {
    tins: 3,
    by_dscp: &table("01002000 10000000 00000000 00000000 00000000 00002020 20000000 20000000"),
    display: &BULK_FIRST,
    shares: Shares::Shifts(&[(0, 1024), (4, 64), (2, 256)]),
};
static DIFFSERV4: Layout = Layout {
    tins: 4,
    by_dscp: &table("01002000 10000000 20202020 20202020 30202020 30003030 30000000 30000000"),
    display: &BULK_FIRST,
    shares: Shares::Shifts(&[(0, 1024), (4, 64), (1, 512), (2, 256)]),
};
static DIFFSERV8: Layout = Layout {
    tins: 8,
    by_dscp: &table("20124222 12121212 52424242 32323232 62323232 62226262 72222222 72222222"),
    display: &IN_ORDER,
    shares: Shares::Chain,
};
static PRECEDENCE: Layout = Layout {
    tins: 8,
    by_dscp: &table("00000000 11111111 22222222 33333333 44444444 55555555 66666666 77777777"),
    display: &IN_ORDER,
    shares: Shares::Chain,
};

impl Layout {
    pub(super) const fn of(mode: Diffserv) -> &'static Self {
        match mode {
            Diffserv::Besteffort => &BESTEFFORT,
            Diffserv::Diffserv4 => &DIFFSERV4,
            Diffserv::Diffserv8 => &DIFFSERV8,
            Diffserv::Precedence => &PRECEDENCE,
            Diffserv::Diffserv3 | Diffserv::Unknown(_) => &DIFFSERV3,
        }
    }

    /// Threshold rate (bytes/s) and tin quantum of each tin in index order, for a qdisc of this rate.
    pub(super) fn shares(&self, rate: u64) -> impl Iterator<Item = (u64, u16)> {
        let mut chain = (rate, 256u16);
        (0..usize::from(self.tins)).map(move |tin| match self.shares {
            Shares::Shifts(shifts) => {
                let (shift, quantum) = shifts[tin];
                (rate >> shift, quantum)
            }
            Shares::Chain => {
                let this = chain;
                chain = (this.0.wrapping_mul(7) >> 3, this.1 * 7 / 8);
                this
            }
        })
    }

    /// The tin at the `number`-th place of the display order, counted from 1, if that tin is in use.
    #[inline]
    pub(super) fn at_display(&self, number: u32) -> Option<u8> {
        if number < 1 || number > u32::from(self.tins) {
            return None;
        }
        Some(self.display[number as usize - 1])
    }

    /// The tins in use, by index, in display order.
    pub(super) fn in_display_order(&self) -> impl Iterator<Item = u8> + use<> {
        self.display[..usize::from(self.tins)].iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tin(mode: Diffserv, dscp: u8) -> u8 {
        Layout::of(mode).by_dscp[usize::from(dscp)]
    }

    /// The prose lists of §8.4, against the strings.
    #[test]
    fn tables_follow_the_lists() {
        type Lists = &'static [(u8, &'static [u8])];
        let modes: [(Diffserv, u8, Lists); 3] = [
            (Diffserv::Diffserv3, 0, &[(1, &[1, 8]), (2, &[4, 44, 46, 48, 56])]),
            (
                Diffserv::Diffserv4,
                0,
                &[(1, &[1, 8]), (2, &[4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38]), (3, &[32, 40, 44, 46, 48, 56])],
            ),
            (
                Diffserv::Diffserv8,
                2,
                &[
                    (0, &[1]),
                    (1, &[2, 8, 10, 12, 14]),
                    (3, &[24, 26, 28, 30, 34, 36, 38]),
                    (4, &[4, 18, 20, 22]),
                    (5, &[16]),
                    (6, &[32, 40, 44, 46]),
                    (7, &[48, 56]),
                ],
            ),
        ];
        for (mode, default, lists) in modes {
            for dscp in 0..64 {
                let expected = lists.iter().find(|(_, dscps)| dscps.contains(&dscp)).map_or(default, |(tin, _)| *tin);
                assert_eq!(tin(mode, dscp), expected, "{mode:?}, DSCP {dscp}");
            }
        }
        for dscp in 0..64 {
            assert_eq!(tin(Diffserv::Precedence, dscp), dscp >> 3);
            assert_eq!(tin(Diffserv::Besteffort, dscp), 0);
            assert_eq!(tin(Diffserv::Unknown(77), dscp), tin(Diffserv::Diffserv3, dscp));
        }
    }

    /// The eight-tin chain of §23.2 and the shares of §6.6.
    #[test]
    fn shares() {
        let chain: [(u64, u16); 8] = [
            (2_500_000, 256),
            (2_187_500, 224),
            (1_914_062, 196),
            (1_674_804, 171),
            (1_465_453, 149),
            (1_282_271, 130),
            (1_121_987, 113),
            (981_738, 98),
        ];
        assert!(Layout::of(Diffserv::Diffserv8).shares(2_500_000).eq(chain));
        assert!(Layout::of(Diffserv::Precedence).shares(2_500_000).eq(chain));
        assert!(Layout::of(Diffserv::Diffserv3).shares(160).eq([(160, 1024), (10, 64), (40, 256)]));
        assert!(Layout::of(Diffserv::Diffserv4).shares(160).eq([(160, 1024), (10, 64), (80, 512), (40, 256)]));
        assert!(Layout::of(Diffserv::Besteffort).shares(160).eq([(160, 65535)]));
    }

    #[test]
    fn display_order_puts_bulk_first() {
        let diffserv4 = Layout::of(Diffserv::Diffserv4);
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|n| diffserv4.at_display(n)),
            [None, Some(1), Some(0), Some(2), Some(3), None]
        );
        assert!(diffserv4.in_display_order().eq([1, 0, 2, 3]));
    }
}
