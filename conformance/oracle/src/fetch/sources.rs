//! The machine's apt sources: which archive does it use?

use std::path::Path;

/// Addresses found in the sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mirrors {
    pub(super) main: Option<String>,
    pub(super) security: Option<String>,
    /// Keyring named by the entry of the main archive.
    pub(super) signed_by: Option<String>,
}

/// One source: addresses, suites, components, keyring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    signed_by: Option<String>,
}

/// Names of Debian's suites; other distributions use other names.
const DEBIAN: [&str; 16] = [
    "stretch",
    "buster",
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "sid",
    "stable",
    "oldstable",
    "oldoldstable",
    "testing",
    "unstable",
    "experimental",
    "rc-buggy",
    "jessie",
];

fn debian_suite(name: &str) -> bool {
    let base = name.split(['-', '/']).next().unwrap_or(name);
    DEBIAN.contains(&base)
}

fn is_security(suite: &str) -> bool {
    suite.ends_with("-security") || suite.ends_with("/updates")
}

/// Reads `sources.list` and `sources.list.d` below the apt folder.
pub(super) fn read(etc: &Path) -> Mirrors {
    let mut entries = Vec::new();
    let text = |p: &Path| std::fs::read_to_string(p).unwrap_or_default();
    entries.extend(one_line(&text(&etc.join("sources.list"))));
    let parts = std::fs::read_dir(etc.join("sources.list.d")).into_iter().flatten();
    let mut files: Vec<_> = parts.filter_map(|e| Some(e.ok()?.path())).collect();
    files.sort();
    for file in files {
        match file.extension().and_then(|e| e.to_str()) {
            Some("list") => entries.extend(one_line(&text(&file))),
            Some("sources") => entries.extend(deb822(&text(&file))),
            _ => {}
        }
    }
    choose(&entries)
}

fn choose(entries: &[Entry]) -> Mirrors {
    let mut mirrors = Mirrors::default();
    for entry in entries.iter().filter(|e| e.components.iter().any(|c| c == "main")) {
        let usable = |u: &&String| !u.starts_with("cdrom:");
        let Some(uri) = entry.uris.iter().find(usable) else {
            continue;
        };
        for suite in entry.suites.iter().filter(|s| debian_suite(s)) {
            if is_security(suite) {
                mirrors.security.get_or_insert_with(|| uri.clone());
            } else if mirrors.main.is_none() {
                mirrors.main = Some(uri.clone());
                mirrors.signed_by = entry.signed_by.clone();
            }
        }
    }
    mirrors
}

/// `deb [options] address suite components…`
fn one_line(text: &str) -> Vec<Entry> {
    let mut out = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or("").trim();
        let Some(rest) = line.strip_prefix("deb ").or_else(|| line.strip_prefix("deb\t")) else {
            continue;
        };
        let rest = rest.trim_start();
        let (options, rest) = match rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
            Some((options, rest)) => (options, rest),
            None => ("", rest),
        };
        let mut words = rest.split_whitespace().map(String::from);
        let (Some(uri), Some(suite)) = (words.next(), words.next()) else {
            continue;
        };
        let signed_by = options.split_whitespace().find_map(|o| o.strip_prefix("signed-by=")).map(String::from);
        out.push(Entry { uris: vec![uri], suites: vec![suite], components: words.collect(), signed_by });
    }
    out
}

/// Paragraphs of `Field: value`, values continued on indented lines.
fn deb822(text: &str) -> Vec<Entry> {
    let mut out = Vec::new();
    for paragraph in paragraphs(text) {
        let words = |name: &str| -> Vec<String> {
            let value = paragraph.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
            value.map(|(_, v)| v.split_whitespace().map(String::from).collect()).unwrap_or_default()
        };
        let disabled = words("Enabled").first().is_some_and(|v| matches!(v.as_str(), "no" | "false" | "0"));
        if disabled || !words("Types").iter().any(|t| t == "deb") {
            continue;
        }
        // A keyring may also be given in full; only a file name is of use here.
        let signed_by = words("Signed-By").into_iter().next().filter(|v| v.starts_with('/'));
        out.push(Entry { uris: words("URIs"), suites: words("Suites"), components: words("Components"), signed_by });
    }
    out
}

/// Splits deb822 text into paragraphs of (field, value).
pub(super) fn paragraphs(text: &str) -> Vec<Vec<(String, String)>> {
    let mut all = vec![Vec::<(String, String)>::new()];
    for line in text.lines() {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            all.push(Vec::new());
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = all.last_mut().and_then(|p| p.last_mut()) {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let (Some((name, value)), Some(paragraph)) = (line.split_once(':'), all.last_mut()) {
            paragraph.push((name.trim().into(), value.trim().into()));
        }
    }
    all.retain(|p| !p.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_formats_give_the_same_mirrors() {
        let old = "# comment\n\
                   deb-src http://archive.example/debian bookworm main\n\
                   deb [arch=amd64 signed-by=/k.gpg] http://archive.example/debian bookworm main contrib\n\
                   deb http://security.example/debian-security bookworm-security main\n\
                   deb https://other.example/apt nodistro main\n";
        let new = "Types: deb\nURIs: http://archive.example/debian\nSuites: bookworm\n bookworm-updates\n\
                   Components: main\nSigned-By: /k.gpg\n\n\
                   # next\nTypes: deb deb-src\nURIs: http://security.example/debian-security\n\
                   Suites: bookworm-security\nComponents: main\n";
        let expected = Mirrors {
            main: Some("http://archive.example/debian".into()),
            security: Some("http://security.example/debian-security".into()),
            signed_by: Some("/k.gpg".into()),
        };
        assert_eq!(choose(&one_line(old)), expected);
        assert_eq!(choose(&deb822(new)), expected);
    }

    #[test]
    fn disabled_foreign_and_disc_sources_are_passed_over() {
        let text = "Types: deb\nEnabled: no\nURIs: http://a.example/debian\nSuites: sid\nComponents: main\n\n\
                    Types: deb\nURIs: http://b.example/ubuntu\nSuites: noble\nComponents: main\n\n\
                    Types: deb\nURIs: cdrom:[disc]/\nSuites: trixie\nComponents: main\n";
        assert_eq!(choose(&deb822(text)), Mirrors::default());
    }
}
