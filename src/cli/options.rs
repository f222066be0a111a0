//! Options that belong to one command alone, and never to the environment.

use super::command::Command;
use policy::{Problem, settings::Kind};
use std::collections::BTreeMap;

/// An option's row in the table of its command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// Its name, without dashes.
    pub(super) long: &'static str,
    /// How its value is written.
    pub(super) kind: Kind,
    /// One sentence.
    pub(super) help: &'static str,
}

const fn value(long: &'static str, name: &'static str, help: &'static str) -> Choice {
    Choice { long, kind: Kind::Value(name), help }
}

const fn switch(long: &'static str, help: &'static str) -> Choice {
    Choice { long, kind: Kind::Switch, help }
}

/// The options of a command.
pub(super) fn of(command: Command) -> &'static [Choice] {
    match command {
        Command::Explain => EXPLAIN,
        Command::Lint => LINT,
        Command::Render => RENDER,
        Command::Trace => TRACE,
        Command::Apply | Command::Check | Command::Clean | Command::Doctor | Command::IstioIptables => &[],
    }
}

const LINT: &[Choice] = &[switch("deny", "Exit with 1 if there is a warning")];

const RENDER: &[Choice] = &[
    value("format", "FORMAT", "iptables, commands, nft, json, mermaid, dot or svg [default: iptables]"),
    value("family", "FAMILY", "Of which family to draw a picture: v4 or v6 [default: v4]"),
];

const TRACE: &[Choice] = &[
    value("rule", "NAME", "Show only reports of rules of this name"),
    value("proto", "PROTOCOL", "Show only packets of tcp, udp, icmp or icmpv6"),
    value("destination", "WHERE", "Show only packets to this ADDRESS, NETWORK, PORT or ADDRESS:PORT"),
    value("count", "N", "End after so many lines"),
    value("for", "DURATION", "End after this time, such as 30s or 5m"),
];

const EXPLAIN: &[Choice] = &[
    switch("live", "Walk through the rules of the network namespace, not through those of the flags"),
    value(
        "from-save",
        "FILE",
        "Walk through the rules that iptables-save printed into this file; - reads input",
    ),
    switch("matrix", "Show the usual packets and where each ends"),
    value("format", "FORMAT", "text, json, or mermaid for a picture of the packet's way [default: text]"),
    value("as", "WHO", "Who sends the packet: app, proxy or external [default: app]"),
    value("direction", "WAY", "outbound or inbound [default: inbound for external, else outbound]"),
    value("proto", "PROTOCOL", "tcp or udp [default: tcp]"),
    value("destination", "ADDRESS:PORT", "Where the packet goes; inbound, a port alone means the pod's"),
    value(
        "source",
        "ADDRESS[:PORT]",
        "Where it comes from [default: the pod; inbound, an address of nobody]",
    ),
    value("uid", "UID", "The sending process's user [default: that of --as: 1000, or the proxy's]"),
    value("gid", "GID", "The sending process's group [default: the number of the user]"),
    value("in-interface", "NAME", "Where an inbound packet arrives [default: eth0]"),
    value(
        "out-interface",
        "NAME",
        "Where an outbound packet leaves [default: lo to the pod itself, else eth0]",
    ),
    value("mark", "MARK", "The packet's mark [default: 0]"),
    value("ct-state", "STATE", "new, established, related or invalid [default: new]"),
];

/// What was given.
#[derive(Debug, Default)]
pub(super) struct Options(BTreeMap<&'static str, String>);

impl FromIterator<(&'static str, String)> for Options {
    fn from_iter<I: IntoIterator<Item = (&'static str, String)>>(given: I) -> Self {
        Self(given.into_iter().collect())
    }
}

impl Options {
    /// The text given for an option.
    pub(super) fn get(&self, long: &str) -> Option<&str> {
        self.0.get(long).map(String::as_str)
    }

    /// A switch; off unless given.
    pub(super) fn is_on(&self, long: &str, problems: &mut Vec<Problem>) -> bool {
        match self.get(long) {
            None | Some("false" | "0") => false,
            Some("true" | "1") => true,
            Some(other) => {
                let text = "is no boolean; expected true or false";
                problems.push(Problem::with_item(&format!("--{long}"), other, text));
                false
            }
        }
    }

    /// A value read by `parse`; a problem that says what was `expected` otherwise.
    pub(super) fn read<T>(
        &self,
        long: &str,
        expected: &str,
        problems: &mut Vec<Problem>,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.get(long)?;
        let value = parse(text);
        if value.is_none() {
            problems.push(Problem::with_item(&format!("--{long}"), text, format!("is not {expected}")));
        }
        value
    }
}
