//! From the meta package to the packages that hold image and modules.

use super::apt::Apt;
use super::{FetchError, Package, Result};

/// Packages smaller than this only depend on others.
const REAL: u64 = 100_000;
/// Name prefixes of the packages that hold the image or the modules.
const PARTS: [&str; 3] = ["linux-image-", "linux-binary-", "linux-modules-"];

/// The release and packages behind `linux-image-cloud-amd64` (or the plain flavour's).
pub(super) fn kernel(apt: &Apt, cloud: bool) -> Result<(String, Vec<Package>)> {
    let meta = if cloud { "linux-image-cloud-amd64" } else { "linux-image-amd64" };
    walk(apt.suite(), meta, &mut |name| apt.show(name))
}

type Record = Vec<(String, String)>;

/// Follows dependencies by name, taking every package that is more than a pointer.
fn walk(
    suite: &str,
    meta: &str,
    show: &mut dyn FnMut(&str) -> Result<Option<Record>>,
) -> Result<(String, Vec<Package>)> {
    let fail = |package: &str, reason: &str| FetchError::Resolve {
        suite: suite.into(),
        package: package.into(),
        reason: reason.into(),
    };
    let (mut pending, mut seen, mut found) = (vec![meta.to_owned()], Vec::new(), Vec::new());
    while let Some(name) = pending.pop() {
        if seen.contains(&name) {
            continue;
        }
        let record = show(&name)?.ok_or_else(|| fail(&name, "no such package"))?;
        let field = |wanted: &str| record.iter().find(|(n, _)| n == wanted).map_or("", |(_, v)| v.as_str());
        let bytes: u64 = field("Size").parse().map_err(|_| fail(&name, "no size"))?;
        if bytes >= REAL {
            found.push(Package { name: name.clone(), version: field("Version").into(), bytes });
        }
        for dependency in field("Depends").split(',') {
            // "a (= 1) | b": the first alternative is the one meant.
            let target = dependency.split_whitespace().next().unwrap_or("");
            if PARTS.iter().any(|p| target.starts_with(p)) {
                pending.push(target.to_owned());
            }
        }
        seen.push(name);
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    let release = found.iter().find_map(|p| PARTS.iter().find_map(|prefix| p.name.strip_prefix(prefix)));
    let release = release.ok_or_else(|| fail(meta, "it leads to no image"))?;
    // Signed and unsigned images differ in name only.
    let release = release.trim_end_matches("-unsigned").to_owned();
    Ok((release, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(size: u64, depends: &str) -> Option<Record> {
        let pair = |n: &str, v: String| (n.to_owned(), v);
        Some(vec![pair("Version", "1-1".into()), pair("Size", size.to_string()), pair("Depends", depends.into())])
    }

    #[test]
    fn one_package_and_split_packages_are_both_resolved() {
        let mut old = |name: &str| {
            Ok(match name {
                "meta" => record(1500, "linux-image-6.1.0-9-cloud-amd64 (= 1-1)"),
                "linux-image-6.1.0-9-cloud-amd64" => record(26_000_000, "kmod, linux-base (>= 4.3~), a | b"),
                _ => None,
            })
        };
        let (release, packages) = walk("s", "meta", &mut old).expect("resolves");
        assert_eq!((release.as_str(), packages.len()), ("6.1.0-9-cloud-amd64", 1));

        let mut new = |name: &str| {
            Ok(match name {
                "meta" => record(1500, "linux-base-7.2-amd64 (= 1), linux-image-7.2-amd64 (= 1)"),
                "linux-image-7.2-amd64" => record(
                    1900,
                    "dracut | initramfs-tools, linux-binary-7.2-amd64 (= 1), linux-modules-7.2-amd64 (= 1)",
                ),
                "linux-binary-7.2-amd64" => record(13_000_000, "linux-modules-7.2-amd64"),
                "linux-modules-7.2-amd64" => record(23_000_000, ""),
                _ => None,
            })
        };
        let (release, packages) = walk("s", "meta", &mut new).expect("resolves");
        let names: Vec<_> = packages.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(release, "7.2-amd64");
        assert_eq!(names, ["linux-binary-7.2-amd64", "linux-modules-7.2-amd64"]);
    }

    #[test]
    fn a_dead_end_names_the_package() {
        let mut show = |name: &str| Ok((name == "meta").then(|| record(1500, "linux-image-x").unwrap_or_default()));
        let e = walk("sid", "meta", &mut show).expect_err("leads nowhere");
        assert_eq!(e.to_string(), "sid: cannot resolve linux-image-x: no such package");
    }
}
