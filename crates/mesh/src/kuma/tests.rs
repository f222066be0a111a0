//! Comments of rules, what the machine answers, and what is wrong with calls. The rules of each call are held in
//! `tests/configurations`.

mod words;

use super::preview::restore;
use super::{CaptureConfig, Kuma, configure};
use crate::policy::CapturePolicy;
use crate::settings::Setting;
use crate::sources::{Host, Raw, SettingReader};
use rules::{Family, Uid};
use std::{io, net::IpAddr};

/// A pod with IPv4 and IPv6.
struct Pod {
    servers: &'static [&'static str],
    has_standard_user: bool,
    /// The family in which Docker answers DNS.
    docker: Option<Family>,
    may_read_rules: bool,
}

const POD: Pod = Pod {
    servers: &["10.0.0.10", "127.0.0.53", "fd00::a"],
    has_standard_user: true,
    docker: None,
    may_read_rules: true,
};

impl Host for Pod {
    fn user(&self, name: &str) -> io::Result<Option<Uid>> {
        Ok((name == "kuma-dp").then(|| Uid::new(1234).expect("a user")))
    }

    fn has_user(&self, _: Uid) -> io::Result<bool> {
        Ok(self.has_standard_user)
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(["127.0.0.1", "10.1.2.3", "::1", "fd00::3"].map(|text| text.parse().expect("an address")).to_vec())
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Ok(self.servers.iter().map(|text| text.parse().expect("an address")).collect())
    }

    fn has_nat_chain(&self, family: Family, name: &str) -> io::Result<bool> {
        if !self.may_read_rules {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(self.docker == Some(family) && name == "DOCKER_OUTPUT")
    }

    fn name_servers_in(&self, path: &str) -> io::Result<Vec<IpAddr>> {
        match path {
            "/other" => Ok(vec!["10.9.9.9".parse().expect("an address")]),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

fn read(flags: &[(Setting, &str)], host: &dyn Host) -> Result<(CaptureConfig, Vec<String>), Vec<String>> {
    let flags = flags.iter().map(|(setting, value)| (*setting, (*value).to_owned()));
    let raw = Raw::new(flags, |_| true, |_| None);
    let mut reader = SettingReader::new(&raw, Vec::new());
    let config = configure(&mut reader, host, false);
    let warnings =
        reader.finish().map_err(|problems| problems.0.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    Ok((config, warnings))
}

fn config(flags: &[(Setting, &str)]) -> CaptureConfig {
    read(flags, &POD).expect("valid flags").0
}

/// A text without comments, which upstream words otherwise.
fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("-m comment --comment \"") {
        kept.push_str(before);
        rest = after.split_once("\" ").expect("a comment ends").1;
    }
    kept + rest
}

fn check_warnings(flags: &[(Setting, &str)], expected: &[&str]) {
    assert_eq!(read(flags, &POD).expect("valid flags").1, expected, "{flags:?}");
}

#[test]
fn dns_of_servers_needs_servers_of_a_captured_family() {
    let elsewhere = config(&[(Kuma::RedirectDns, "true"), (Kuma::ResolvConf, "/other")]);
    let lines = without_comments(&restore(&elsewhere.rules(Family::V4), false));
    assert!(lines.contains("-d 10.9.9.9 -p udp --dport 53 -j REDIRECT --to-ports 15053\n"), "{lines}");
    let of_ipv6 =
        [(Kuma::RedirectDns, "true"), (Setting::DnsServers, "fd00::a"), (Kuma::IpFamilyMode, "ipv4")];
    let text =
        "DNS is not captured: each DNS server has an address of IPv6, which is not captured in this pod";
    check_warnings(&of_ipv6, &[text]);
    check_warnings(&of_ipv6[..2], &[]);
}

#[test]
fn where_docker_answers_dns_the_proxys_queries_are_left_to_it() {
    let dns = [(Kuma::CaptureAllDns, "true")];
    let host = Pod { docker: Some(Family::V4), ..POD };
    let config = read(&dns, &host).expect("valid flags").0;
    let lines = without_comments(&restore(&config.rules(Family::V4), false));
    assert!(
        lines.contains("-I OUTPUT 1 -p udp --dport 53 -m owner --uid-owner 5678 -j DOCKER_OUTPUT\n"),
        "{lines}"
    );
    assert!(!lines.contains("--zone"), "Docker's answers come in the zone of its queries: {lines}");
    let lines = without_comments(&restore(&config.rules(Family::V6), false));
    assert!(lines.contains("-m owner --uid-owner 5678 -j RETURN\n") && lines.contains("--zone"), "{lines}");
    assert!(!config.splits_zones(Family::V4) && config.splits_zones(Family::V6));
    let of_servers = read(&[(Kuma::RedirectDns, "true")], &host).expect("valid flags").0;
    assert!(of_servers.splits_zones(Family::V4), "what Docker answers is not captured");
    let docker = |host: &Pod, flags: &[(Setting, &str)]| read(flags, host).expect("valid flags").0.docker;
    let host = Pod { docker: Some(Family::V6), ..POD };
    assert_eq!(docker(&host, &dns), [Family::V6]);
    assert_eq!(docker(&host, &[dns[0], (Kuma::IpFamilyMode, "ipv4")]), []);
    assert_eq!(docker(&host, &[]), []);
}

#[test]
fn a_preview_without_rights_assumes_that_docker_answers_no_dns() {
    let dns = [(Kuma::CaptureAllDns, "true")];
    let (config, warnings) = read(&dns, &Pod { may_read_rules: false, ..POD }).expect("valid flags");
    assert_eq!(config, read(&dns, &POD).expect("valid flags").0);
    assert!(matches!(&warnings[..], [warning] if warning.contains("Docker")), "{warnings:?}");
}
