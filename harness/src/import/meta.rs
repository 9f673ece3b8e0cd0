use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::trace::{CcSubject, Device, Hashes, Header, Kernel, Origin, QdiscSubject, Schema, Subject};

/// What a raw recording does not say of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The recorded kernel.
    pub kernel: Kernel,
    /// What was recorded.
    pub subject: Subject,
    /// The traffic, in words.
    #[serde(default)]
    pub description: String,
    /// Records which the recorder lost, by its own count.
    #[serde(default)]
    pub records_lost: u64,
}

impl Meta {
    /// One of the founding recordings by its name, such as `fq_codel-612` or `cc-cubic-72`: Debian cloud kernels,
    /// 20 Mbit/s, HZ 250, veth devices.
    pub fn founding(name: &str) -> Option<Self> {
        let (subject, kernel) = name.rsplit_once('-')?;
        let (series, release, package) = match kernel {
            "61" => ("6.1", "6.1.0-55-cloud-amd64", "linux-image-6.1.0-55-cloud-amd64 6.1.192-3"),
            "612" => ("6.12", "6.12.117+deb13-cloud-amd64", "linux-image-6.12.117+deb13-cloud-amd64 6.12.117-1"),
            "72" => ("7.2", "7.2.13+deb14-cloud-amd64", "linux-binary-7.2.13+deb14-cloud-amd64 7.2.13-1"),
            _ => return None,
        };
        let kernel = Kernel { series: series.into(), release: release.into(), package: package.into(), hz: 250 };
        let (subject, description) = match subject.split_once('-') {
            Some(("cc", name)) => founding_congestion_control(name)?,
            Some(_) => return None,
            None => founding_qdisc(subject)?,
        };
        Some(Self { kernel, subject, description, records_lost: 0 })
    }

    pub(super) fn header(&self, schemas: Vec<Schema>) -> Header {
        Header {
            kernel: self.kernel.clone(),
            subject: self.subject.clone(),
            origin: Origin::Recorded,
            tool: concat!("debloat ", env!("CARGO_PKG_VERSION"), " import").into(),
            description: self.description.clone(),
            records_lost: self.records_lost,
            remarks: BTreeMap::new(),
            schemas,
        }
    }
}

fn founding_qdisc(name: &str) -> Option<(Subject, String)> {
    let on_flag = |flag: &str| BTreeMap::from([(flag.to_owned(), 1)]);
    let (options, parameters, root) = match name {
        "fq_codel" => ("", BTreeMap::new(), false),
        "pie" | "fq_pie" => ("ecn", on_flag("ecn"), false),
        "cake" => ("bandwidth 20mbit", BTreeMap::from([("bandwidth".to_owned(), 2_500_000)]), true),
        _ => return None,
    };
    let subject = QdiscSubject {
        name: name.into(),
        options: options.into(),
        parameters,
        handle: if root { 0x0001_0000 } else { 0x0002_0000 },
        parent: 0,
        root,
        created_ns: 0,
        device: Device { mtu_bytes: 1500, link_header_bytes: 14, tx_queue_len: 1000 },
        hashes: Hashes::Recorded,
    };
    let place = if root { "as the root" } else { "under an htb class of 20 Mbit/s" };
    Some((Subject::Qdisc(subject), format!("two TCP flows with ECN and one UDP flow, IPv4, {place}")))
}

fn founding_congestion_control(name: &str) -> Option<(Subject, String)> {
    let below = match name {
        "cubic" | "bbr" => "fq_codel",
        "dctcp" => "fq_codel ce_threshold 1ms",
        _ => return None,
    };
    // Both flows had negotiated ECN.
    let parameters = BTreeMap::from([("ecn".to_owned(), 1)]);
    let subject = CcSubject { name: name.into(), options: "ecn=1".into(), parameters };
    let description = format!("two TCP flows with ECN, IPv4, through htb of 20 Mbit/s and {below}, RTT 20 ms");
    Some((Subject::CongestionControl(subject), description))
}
