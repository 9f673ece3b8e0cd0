//! The committed traces are whole and hold what the recordings held.

use debloat_harness::trace::{Reader, Summary};
use std::fmt::Write;
use std::path::PathBuf;

/// Kernel, subject, events, packets, delivered, marked, dropped, clock reads, draws.
///
/// fq_codel's arrivals, drops and marks are those which an independent model found in the recordings; the marks and
/// drops of cake, pie and fq_pie are those which `tc -s qdisc show` printed in the recorded machine.
const EXPECTED: &str = "
6.1 bbr 4597 0 0 0 0 0 2
6.1 cake 26684 5973 8337 28 40 26684 54767
6.1 cubic 6987 0 0 0 0 0 0
6.1 dctcp 12777 0 0 0 0 0 0
6.1 fq_codel 15011 8310 6701 39 750 15011 0
6.1 fq_pie 14497 8240 5943 24 2297 11886 3505
6.1 pie 11938 5818 5806 25 12 11612 3024
6.12 bbr 4661 0 0 0 0 0 2
6.12 cake 27952 5943 8315 27 1 27952 55560
6.12 cubic 7097 0 0 0 0 0 0
6.12 dctcp 12701 0 0 0 0 0 0
6.12 fq_codel 15042 8256 6786 38 769 15042 0
6.12 fq_pie 14630 8321 5994 25 2327 11988 3602
6.12 pie 11888 5804 5769 32 35 11538 1894
7.2 bbr 4789 0 0 0 0 0 2
7.2 cake 27840 5905 8312 27 1 27840 55747
7.2 cubic 6837 0 0 0 0 0 0
7.2 dctcp 12922 0 0 0 0 0 0
7.2 fq_codel 15087 8259 6828 39 772 15087 0
7.2 fq_pie 14580 8312 5951 25 2361 11902 3519
7.2 pie 11981 5861 5799 30 62 11598 1431
";

#[test]
fn counts_of_the_committed_traces() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/traces/recorded"));
    let mut found = String::from("\n");
    for series in ["6.1", "6.12", "7.2"] {
        for name in ["bbr", "cake", "cubic", "dctcp", "fq_codel", "fq_pie", "pie"] {
            let path = folder.join(series).join(format!("{name}.trace"));
            let mut reader = Reader::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let header = reader.header();
            assert_eq!((header.kernel.series.as_str(), header.subject.name()), (series, name));
            assert!(header.kernel.linux().is_some());
            let s = Summary::of(&mut reader).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let _ = writeln!(
                found,
                "{series} {name} {} {} {} {} {} {} {}",
                s.events, s.packets, s.delivered, s.marked, s.dropped, s.clock_reads, s.draws
            );
        }
    }
    assert_eq!(found, EXPECTED);
}
