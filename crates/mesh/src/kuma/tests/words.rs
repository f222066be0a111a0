//! What words mean that make no rule by themselves, and what is wrong with others.

use super::{POD, Pod, check_warnings, config, read};
use crate::kuma::{Kuma, configure, unknown_user};
use crate::policy::CapturePolicy;
use crate::settings::Setting;
use crate::sources::{Given, NullHost, Raw, SettingReader, Source};
use rules::Family;

#[test]
fn the_proxys_user_is_a_number_a_name_or_the_default() {
    let uid =
        |flags: &[(Setting, &str)], host: &Pod| read(flags, host).expect("valid flags").0.proxy_uid.number();
    assert_eq!(uid(&[], &POD), 5678);
    assert_eq!(uid(&[(Kuma::ProxyUser, "")], &Pod { has_standard_user: false, ..POD }), 1234);
    assert_eq!(uid(&[(Kuma::ProxyUser, "kuma-dp")], &POD), 1234);
    assert_eq!(uid(&[(Kuma::ProxyUser, "70000")], &POD), 70000);
    // On a node, its users are not the pod's.
    let raw = Raw::default();
    let host = Pod { has_standard_user: false, ..POD };
    let on_node = |numbers_only| configure(&mut SettingReader::new(&raw, Vec::new()), &host, numbers_only);
    assert_eq!([true, false].map(|numbers_only| on_node(numbers_only).proxy_uid.number()), [5678, 1234]);
}

#[test]
fn ipv6_is_captured_where_the_pod_has_it() {
    let ipv6 = |flags: &[(Setting, &str)]| config(flags).ipv6();
    assert!(ipv6(&[]));
    assert!(!ipv6(&[(Kuma::IpFamilyMode, "IPv4")]));
    assert!(!ipv6(&[(Setting::PodIps, "10.0.0.1")]));
    assert!(ipv6(&[(Setting::PodIps, "fe80::1")]));
    let text =
        "--ip-family-mode: no interface has an address of IPv6 but loopback's, so IPv4 alone is captured";
    check_warnings(&[(Setting::PodIps, "10.0.0.1,::1,::6"), (Kuma::IpFamilyMode, "dualstack")], &[text]);
    check_warnings(
        &[(Kuma::IpFamilyMode, "ipv4"), (Kuma::Vnet, "br0:fd00::/8"), (Kuma::RedirectDns, "true")],
        &["--vnet: fd00::/8 has no effect, because IPv6 is not captured in this pod"],
    );
    check_warnings(
        &[(Kuma::IpFamilyMode, "ipv4"), (Kuma::Vnet, "br0:10.1.2.3/8"), (Kuma::RedirectDns, "true")],
        &["--vnet: br0:10.1.2.3/8 has host bits set and is taken as the network 10.0.0.0/8"],
    );
}

#[test]
fn ports_of_users_mean_nothing_for_what_arrives() {
    let variable = "KUMA_TRANSPARENT_PROXY_REDIRECT_INBOUND_EXCLUDE_PORTS_FOR_UIDS";
    let raw = Raw::new([], |_| true, |name| (name == variable).then(|| "7".into()));
    let mut reader = SettingReader::new(&raw, Vec::new());
    configure(&mut reader, &POD, false);
    let text = reader.finish().expect_err("a problem").0[0].to_string();
    assert!(
        text.starts_with(&format!("{variable}: \"7\" is not possible: inbound packets have no user")),
        "{text}"
    );
    let raw = Raw::new([], |_| true, |name| (name == variable).then(Default::default));
    let mut reader = SettingReader::new(&raw, Vec::new());
    configure(&mut reader, &POD, false);
    assert!(reader.finish().is_ok());
}

#[test]
fn an_unknown_default_user_is_reported_where_none_is_given() {
    let unknown = |value: Option<&str>, host: &dyn crate::sources::Host| {
        let given = |value: &str| Given { value: value.to_owned(), source: Source::Flag("kuma-dp-user") };
        unknown_user(&Raw::of(value.map(|value| (Kuma::ProxyUser, given(value)))), host)
    };
    let no_users = UserlessMachine { is_readable: true };
    let text = "--kuma-dp-user: neither a user 5678 nor one called kuma-dp is known here; 5678 counts as the proxy's";
    assert_eq!(unknown(None, &no_users).as_deref(), Some(text));
    assert_eq!(unknown(Some(" "), &no_users).as_deref(), Some(text));
    assert_eq!(unknown(Some("7"), &no_users), None);
    assert_eq!(unknown(None, &UserlessMachine { is_readable: false }), None);
    assert_eq!(unknown(None, &POD), None);
    // The name is known there.
    assert_eq!(unknown(None, &Pod { has_standard_user: false, ..POD }), None);
    assert_eq!(unknown(None, &NullHost), None);
}

/// A machine without any user, or without a database of them.
struct UserlessMachine {
    is_readable: bool,
}

impl crate::sources::Host for UserlessMachine {
    fn has_user(&self, _: rules::Uid) -> std::io::Result<bool> {
        if self.is_readable { Ok(false) } else { Err(std::io::ErrorKind::NotFound.into()) }
    }

    fn addresses(&self) -> std::io::Result<Vec<std::net::IpAddr>> {
        NullHost.addresses()
    }

    fn name_servers(&self) -> std::io::Result<Vec<std::net::IpAddr>> {
        NullHost.name_servers()
    }
}

/// Of a file, the key alone captures nothing, and contradicts nothing.
#[test]
fn capture_of_all_dns_by_flag_is_more_than_by_key() {
    let word = |word: &str| Source::Container { name: "kuma-init".to_owned(), word: word.to_owned() };
    let read = |all: Source, servers: Option<Source>| {
        let given = |source: Source| Given { value: "true".to_owned(), source };
        let servers = servers.map(|source| (Kuma::RedirectDns, given(source)));
        let raw = Raw::of([(Kuma::CaptureAllDns, given(all))].into_iter().chain(servers));
        let mut reader = SettingReader::new(&raw, Vec::new());
        let config = configure(&mut reader, &POD, false);
        let problems = reader.finish().map_err(|problems| problems.0.len());
        (config.captures_dns(Family::V4), problems.map(|warnings| warnings.len()))
    };
    let (flag, key) = (Source::Flag("redirect-all-dns-traffic"), Source::Key("x".to_owned()));
    let (by_word, by_variable) = (word("--redirect-all-dns-traffic"), word("KUMA_X"));
    assert_eq!(read(flag.clone(), None), (true, Ok(0)));
    assert_eq!(read(by_word.clone(), None), (true, Ok(0)));
    assert_eq!(read(Source::Default(Kuma::CaptureAllDns), None), (true, Ok(0)));
    assert_eq!(read(key.clone(), None), (false, Ok(1)));
    assert_eq!(read(by_variable.clone(), None), (false, Ok(1)));
    assert_eq!(read(flag.clone(), Some(flag.clone())), (true, Err(1)));
    assert_eq!(read(by_word.clone(), Some(by_word)), (true, Err(1)));
    assert_eq!(read(flag.clone(), Some(key.clone())), (true, Ok(0)));
    assert_eq!(read(key, Some(flag)), (true, Ok(0)));
    assert_eq!(read(by_variable.clone(), Some(by_variable)), (true, Ok(0)));
}
