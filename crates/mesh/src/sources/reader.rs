//! Parses the values of settings; collects problems and warnings.

use super::raw::{self, Given, Raw, Source, trim};
use super::{Host, dialect::Dialect, duration};
use crate::settings::{Setting, Topic, alternatives, nearest_value};
use crate::{InputProblem, Problems, facts::DnsCapture, mesh::Feature};
use rules::{Cidr, Family, Gid, InterfaceName, NumberError, Port, PortRange, Uid};
use std::{io, net::IpAddr, str::FromStr, time::Duration};

const PORT_FORM: &str = "expected a port from 1 to 65535 or a range such as 8000-9000";

pub struct SettingReader<'a> {
    pub raw: &'a Raw,
    problems: Vec<InputProblem>,
    warnings: Vec<String>,
}

impl<'a> SettingReader<'a> {
    /// Starts with the problems found `before`; refuses control characters in values.
    pub fn new(raw: &'a Raw, before: Vec<InputProblem>) -> Self {
        let is_refused = |(setting, given): &(Setting, &Given)| match *setting {
            Setting::PluginEntry => is_no_text(&given.value.replace(['\r', '\n'], " ")),
            _ => is_no_text(&given.value),
        };
        let of_text = raw.iter().filter(is_refused).map(|(_, given)| {
            InputProblem::with_item(
                &raw.named(&given.source),
                &given.value,
                "contains a line break, a control character or bytes that are not UTF-8; remove them",
            )
        });
        Self { raw, problems: before.into_iter().chain(of_text).collect(), warnings: Vec::new() }
    }

    pub fn finish(self) -> Result<Vec<String>, Problems> {
        let warnings = self.warnings.iter().map(|text| self.rendered(text.as_str())).collect();
        Problems::check(self.problems).map(|()| warnings)
    }

    pub fn problem_count(&self) -> usize {
        self.problems.len()
    }

    pub fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }

    pub(crate) fn dns(
        &mut self,
        host: &dyn Host,
        is_on: bool,
        all: bool,
        path: Option<&Given>,
        every: &str,
        captures_ipv6: bool,
    ) -> DnsCapture {
        let is_declared = self.raw.get(Setting::DnsServers).is_some();
        let declared = self.list(Setting::DnsServers, Self::address_item);
        let servers = match path {
            _ if !is_on => return DnsCapture::Off,
            _ if all => return DnsCapture::All,
            _ if is_declared => Ok(declared),
            Some(path) => host.name_servers_in(path.value.trim()),
            None => host.name_servers(),
        };
        match servers {
            Ok(servers) if !servers.is_empty() => {
                if !captures_ipv6 && servers.iter().all(IpAddr::is_ipv6) {
                    self.warn(
                        "DNS is not captured: all DNS servers have IPv6 addresses, and IPv6 is not captured in this pod",
                    );
                }
                return DnsCapture::Servers(servers);
            }
            Ok(_) => self.warn("DNS is not captured: no DNS server is known"),
            Err(error) => {
                let text = format!(
                    "can't be read: {error}; declare servers with --dns-servers, or capture queries to any server with {every}"
                );
                match path {
                    Some(Given { value, source }) => self.problem(source, value, text),
                    None => self.whole(&Source::Default(Setting::DnsServers), format!("resolv.conf {text}")),
                }
            }
        }
        DnsCapture::Off
    }

    /// The pod's declared addresses, or else the host's; `otherwise` is a remedy if listing fails.
    pub(crate) fn addresses(&mut self, host: &dyn Host, otherwise: &str) -> Option<Vec<IpAddr>> {
        if self.raw.get(Setting::PodIps).is_some() {
            return Some(self.list(Setting::PodIps, Self::address_item));
        }
        let failed =
            |error| format!("the interfaces can't be listed: {error}; declare the addresses{otherwise}");
        let found = host.addresses().map_err(failed);
        found.map_err(|text| self.whole(&Source::Default(Setting::PodIps), text)).ok()
    }

    pub(crate) fn warn_of_ipv6_networks(&mut self, setting: Setting, networks: impl Iterator<Item = Cidr>) {
        let (_, source) = self.items(setting);
        for network in networks.filter(|network| network.family() == Family::V6).take(Problems::MAX_ITEMS) {
            self.warn(format!("{source}: {network} has no effect, because IPv6 is not captured in this pod"));
        }
    }

    pub fn problem(&mut self, source: &Source, item: &str, text: impl Into<String>) {
        let problem = InputProblem::with_item(&self.raw.named(source), item, self.rendered(text));
        // One problem per item is enough, and one about the whole value covers its items.
        let covers = |p: &InputProblem| {
            p.name == problem.name && (p.item == problem.item || p.item.as_deref().is_some_and(is_no_text))
        };
        if !self.problems.iter().any(covers) {
            self.problems.push(problem);
        }
    }

    fn rendered(&self, text: impl Into<String>) -> String {
        Dialect::of(self.raw).render(&text.into())
    }

    pub fn blame(&mut self, setting: Setting, text: &str) {
        if let Some(Given { value, source }) = self.raw.get(setting) {
            self.problem(source, value, text);
        }
    }

    pub fn whole(&mut self, source: &Source, text: impl Into<String>) {
        self.problems.push(InputProblem::of(&self.raw.named(source), self.rendered(text)));
    }

    pub fn switch(&mut self, setting: Setting) -> bool {
        self.switch_or(setting, false)
    }

    pub fn switch_or(&mut self, setting: Setting, default: bool) -> bool {
        self.scalar(setting, "is not a boolean; expected true or false", raw::boolean).unwrap_or(default)
    }

    pub fn scalar<T>(
        &mut self,
        setting: Setting,
        complaint: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let Given { value, source } = self.raw.get(setting)?;
        let parsed = parse(trim(value));
        if parsed.is_none() {
            let (what, form) = complaint.split_once("; ").unwrap_or((complaint, ""));
            let intended = nearest_value(trim(value), setting.row().values);
            let text = intended.map(|intended| format!("{what}; did you mean {intended}? {form}"));
            self.problem(source, value, text.as_deref().unwrap_or(complaint).trim_end());
        }
        parsed
    }

    pub fn one_of<T>(
        &mut self,
        setting: Setting,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        self.scalar(setting, &format!("is not valid; expected {expected}"), parse)
    }

    pub fn optional<T>(
        &mut self,
        setting: Setting,
        complaint: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        match self.raw.get(setting) {
            Some(given) if trim(&given.value).is_empty() => None,
            _ => self.scalar(setting, complaint, parse),
        }
    }

    /// One of few values, in any letter case. An empty string counts as not given.
    pub fn choice(&mut self, setting: Setting, noun: &str) -> Option<&'static str> {
        let values = setting.row().values;
        let complaint = format!("is not {noun}; expected {}", alternatives(values));
        self.optional(setting, &complaint, |text| {
            values.iter().copied().find(|value| value.eq_ignore_ascii_case(text))
        })
    }

    pub fn port(&mut self, setting: Setting, default: Port) -> Port {
        self.scalar(setting, "is not a port; expected a number from 1 to 65535", |text| text.parse().ok())
            .unwrap_or(default)
    }

    pub fn listener(&mut self, setting: Setting, default: Port) -> PortRange {
        self.scalar(setting, &format!("is not a port to listen on; {PORT_FORM}"), |text| text.parse().ok())
            .unwrap_or(default.into())
    }

    pub fn duration(&mut self, setting: Setting, default: Duration) -> Duration {
        let complaint = "is not a duration; expected numbers with units, such as 5s, 250ms or 1m30s";
        self.scalar(setting, complaint, duration::parse).unwrap_or(default)
    }

    pub fn items(&self, setting: Setting) -> (Vec<&'a str>, Source) {
        match self.raw.get(setting) {
            Some(given) => {
                let separator = setting.row().separator.unwrap_or(",");
                let items = given.value.split(separator).map(trim).filter(|item| !item.is_empty());
                (items.collect(), given.source.clone())
            }
            None => (Vec::new(), Source::Default(setting)),
        }
    }

    pub fn list<T>(
        &mut self,
        setting: Setting,
        read: impl FnMut(&mut Self, &Source, &str) -> Option<T>,
    ) -> Vec<T> {
        let (items, source) = self.items(setting);
        self.read_items(setting, &items, &source, read)
    }

    /// Reads no overlong list, and stops after too many wrong items. Keeps only the first warnings.
    fn read_items<T>(
        &mut self,
        setting: Setting,
        items: &[&str],
        source: &Source,
        mut read: impl FnMut(&mut Self, &Source, &str) -> Option<T>,
    ) -> Vec<T> {
        let most = max_items(setting);
        if items.len() > most {
            self.whole(source, format!("has {} items; expected at most {most}", items.len()));
            return Vec::new();
        }
        let enough = self.problems.len() + Problems::MAX_ITEMS;
        let most_warnings = self.warnings.len() + Problems::MAX_ITEMS;
        let mut values = Vec::new();
        for item in items {
            if self.problems.len() >= enough {
                self.problem(source, item, "and later items were not checked");
                break;
            }
            values.extend(read(self, source, item));
            self.warnings.truncate(most_warnings);
        }
        values
    }

    pub fn wildcard<T>(
        &mut self,
        setting: Setting,
        read: impl Fn(&mut Self, &Source, &str) -> Option<T>,
    ) -> Option<Vec<T>> {
        let (mut items, source) = self.items(setting);
        match items[..] {
            ["*"] => return None,
            _ if items.contains(&"*") => {
                let text = "has * beside other items; write * alone, or the items without it";
                self.problem(&source, &items.join(","), text);
            }
            _ => {}
        }
        items.retain(|item| *item != "*");
        Some(self.read_items(setting, &items, &source, read))
    }

    pub(crate) fn taken<T>(
        &mut self,
        source: &Source,
        item: &str,
        found: Result<T, impl Into<String>>,
    ) -> Option<T> {
        found.map_err(|fault| self.problem(source, item, fault)).ok()
    }

    pub fn port_item(&mut self, source: &Source, item: &str) -> Option<PortRange> {
        let found = item.parse().map_err(|error| match error {
            NumberError::NoPort => format!("is not a port; {PORT_FORM}"),
            other => format!("{other}; {PORT_FORM}"),
        });
        self.taken(source, item, found)
    }

    /// Like [`Self::port_item`], but drops 0, which some upstreams accept and no connection uses.
    pub fn port_item_or_zero(&mut self, source: &Source, item: &str) -> Option<PortRange> {
        if item == "0" {
            self.warnings.push(format!("{source}: port 0 is ignored; no connection uses it"));
            return None;
        }
        self.port_item(source, item)
    }

    pub fn cidr_item(&mut self, source: &Source, item: &str) -> Option<Cidr> {
        self.network(source, item, item, "expected a network such as 10.0.0.0/8")
    }

    pub(crate) fn network(&mut self, source: &Source, item: &str, part: &str, form: &str) -> Option<Cidr> {
        let found = Cidr::parse_noting_host_bits(part).map_err(|error| format!("{error}; {form}"));
        let (cidr, host_bits) = self.taken(source, item, found)?;
        if host_bits {
            self.warn(format!("{source}: {item} has host bits set; using the network {cidr}"));
        }
        Some(cidr)
    }

    pub fn interface_item(&mut self, source: &Source, item: &str) -> Option<InterfaceName> {
        let form =
            "expected an interface name of 1 to 15 letters, digits, _ - . or @, or a prefix followed by +";
        self.taken(source, item, item.parse().map_err(|error| format!("{error}; {form}")))
    }

    pub fn address_item(&mut self, source: &Source, item: &str) -> Option<IpAddr> {
        let complaint = "is not an IP address; expected one such as 10.0.0.1 or 2001:db8::1";
        self.taken(source, item, item.parse().map_err(|_| complaint))
    }
}

/// Users and groups, by number or by name; names are looked up once, here, so no rule holds a name.
pub(crate) struct Names<'a> {
    pub(crate) host: &'a dyn Host,
    /// On a node, the user database is not the pod's.
    pub(crate) numbers_only: bool,
}

impl Names<'_> {
    pub(crate) fn user(&self, reader: &mut SettingReader<'_>, source: &Source, item: &str) -> Option<Uid> {
        self.number(reader, source, item, "user", |name| self.host.user(name))
    }

    pub(crate) fn group(&self, reader: &mut SettingReader<'_>, source: &Source, item: &str) -> Option<Gid> {
        self.number(reader, source, item, "group", |name| self.host.group(name))
    }

    fn number<T: FromStr>(
        &self,
        reader: &mut SettingReader<'_>,
        source: &Source,
        item: &str,
        noun: &str,
        look_up: impl Fn(&str) -> io::Result<Option<T>>,
    ) -> Option<T> {
        let form = format!("expected a number from 0 to 4294967294, or the name of a {noun}");
        let of_name = || match look_up(item) {
            _ if self.numbers_only => Err(format!(
                "is not a {noun} number; names on the node may differ from those in the pod; give the number"
            )),
            Ok(found) => found.ok_or_else(|| format!("is not a known {noun}; {form}")),
            Err(error) => Err(format!("can't be looked up: {error}; {form}")),
        };
        reader.taken(source, item, item.parse().or_else(|_| of_name()))
    }
}

/// Most items in a list. Ports and networks become few sets; each owner, server or machine interface has separate rules.
fn max_items(setting: Setting) -> usize {
    let row = setting.row();
    let has_own_rules = |feature: &Feature| {
        matches!(feature, Feature::Identity | Feature::Groups | Feature::Machines | Feature::PortsByUser)
    };
    if row.topic == Topic::Facts || row.features.iter().any(has_own_rules) { 1_000 } else { 100_000 }
}

fn is_no_text(value: &str) -> bool {
    value.contains(|c: char| (c.is_control() && c != '\t') || c == char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(reader: SettingReader<'_>) -> Vec<String> {
        reader.finish().expect_err("problems").0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn words_and_durations_are_read_or_refused() {
        let raw = Raw::of_flags([
            (Setting::Format, "jso"),
            (Setting::Timeout, " 1m30s "),
            (Setting::ProbeTimeout, "5"),
        ]);
        let mut reader = SettingReader::new(&raw, Vec::new());
        let json = |text: &str| (text == "json").then_some(7);
        assert_eq!(reader.one_of(Setting::Format, "text or json", json), None);
        assert_eq!(reader.problem_count(), 1);
        let second = Duration::from_secs(1);
        assert_eq!(reader.duration(Setting::Timeout, second), Duration::from_secs(90));
        assert_eq!(reader.duration(Setting::ProbeTimeout, second), second);
        assert_eq!(reader.duration(Setting::StatusInterval, second), second);
        reader.whole(&Source::Flag("mesh"), "is missing; give {--mesh}");
        for (flag, item) in [("a", "x"), ("a", "x"), ("a", "y"), ("b", "x")] {
            reader.problem(&Source::Flag(flag), item, "is wrong");
        }
        assert_eq!(
            problems(reader),
            [
                "--output: \"jso\" is not valid; did you mean json? expected text or json",
                "--probe-timeout: \"5\" is not a duration; expected numbers with units, such as 5s, 250ms or 1m30s",
                "--mesh: is missing; give --mesh",
                "--a: \"x\" is wrong",
                "--a: \"y\" is wrong",
                "--b: \"x\" is wrong",
            ]
        );
        let fine = Raw::of_flags([(Setting::Format, "json")]);
        assert_eq!(SettingReader::new(&fine, Vec::new()).one_of(Setting::Format, "a format", json), Some(7));
    }

    #[test]
    fn only_the_first_items_are_reported() {
        let wrong = (0..100_000).map(|number| format!("x{number}")).collect::<Vec<_>>().join(",");
        let raw = Raw::of_flags([(Setting::InboundPorts, &wrong), (Setting::OutboundPorts, &wrong)]);
        let mut reader = SettingReader::new(&raw, Vec::new());
        reader.wildcard(Setting::InboundPorts, SettingReader::port_item);
        reader.list(Setting::OutboundPorts, SettingReader::port_item);
        let found = problems(reader);
        // Each list's 33rd item reports that later ones were not checked.
        let last = r#"--istio-inbound-ports: "x32" and later items were not checked"#;
        assert_eq!((found.len(), &*found[Problems::MAX_ITEMS]), (2 * (Problems::MAX_ITEMS + 1), last));

        let [ports, networks] = ["0,", "10.0.0.1/8,"].map(|item| item.repeat(100_000));
        let raw = Raw::of_flags([(Setting::InboundPorts, &ports), (Setting::ServiceCidr, &networks)]);
        let mut reader = SettingReader::new(&raw, Vec::new());
        reader.wildcard(Setting::InboundPorts, SettingReader::port_item_or_zero);
        let networks = reader.list(Setting::ServiceCidr, SettingReader::cidr_item);
        assert_eq!((networks.len(), reader.warnings.len()), (100_000, 2 * Problems::MAX_ITEMS));
    }

    #[test]
    fn control_characters_are_the_only_problem_of_a_value() {
        let raw = Raw::of_flags([(Setting::InboundPorts, "80\n81,\t82"), (Setting::EnvoyPort, "\t80")]);
        let mut reader = SettingReader::new(&raw, Vec::new());
        reader.list(Setting::InboundPorts, SettingReader::port_item);
        assert_eq!(reader.port(Setting::EnvoyPort, crate::facts::port(1)), crate::facts::port(80));
        let expected = "contains a line break, a control character or bytes that are not UTF-8; remove them";
        assert_eq!(problems(reader), [format!("--istio-inbound-ports: \"80\\n81,\\t82\" {expected}")]);
        for (entry, count) in [("{\r\n  \"timeout\": \"5s\"\n}", 0), ("{\u{7}}", 1)] {
            let raw = Raw::of_flags([(Setting::PluginEntry, entry)]);
            assert_eq!(SettingReader::new(&raw, Vec::new()).problem_count(), count, "{entry:?}");
        }
    }
}
