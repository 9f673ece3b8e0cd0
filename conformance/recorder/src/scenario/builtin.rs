//! The scenarios that come with the recorder.

/// A built-in scenario.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// What to call it on the command line.
    pub name: &'static str,
    /// The file's text.
    pub text: &'static str,
}

macro_rules! builtins {
    ($($name:literal),* $(,)?) => {
        const BUILTINS: &[Builtin] =
            &[$(Builtin { name: $name, text: include_str!(concat!("../../scenarios/", $name, ".toml")) }),*];
    };
}

builtins![
    "fq_codel",
    "codel",
    "pie",
    "fq_pie",
    "red",
    "sfq",
    "cake",
    "fq",
    "cc-reno",
    "cc-cubic",
    "cc-bbr",
    "cc-dctcp",
    "cake-ack-aggressive",
    "cake-ack-filter",
    "cake-autorate",
    "cake-blue",
    "cake-bursts",
    "cake-change",
    "cake-diffserv",
    "cake-diffserv8",
    "cake-hosts",
    "cake-ipv6",
    "cake-memory",
    "cake-nat",
    "cake-segments",
    "cake-srchost",
    "cake-vlan",
    "fq_codel-change",
    "fq_codel-ipv6",
    "fq_codel-memory",
    "fq_codel-overload",
    "fq_codel-segments",
    "fq_codel-vlan",
    "pie-rate",
    "sfq-red",
];

/// Every built-in scenario, in the order of the list.
pub fn builtins() -> impl Iterator<Item = Builtin> {
    BUILTINS.iter().copied()
}

/// The built-in scenario of this name.
#[must_use]
pub fn builtin(name: &str) -> Option<Builtin> {
    builtins().find(|b| b.name == name)
}
