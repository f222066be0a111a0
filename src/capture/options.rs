//! Which options make which rules, by the names that rules report themselves under.

/// NFLOG group to which rules report their hits when asked to; upstream's number.
pub const LOG_GROUP: u16 = 1337;

/// The name of each rule and the options that make it, as people write them.
pub const OPTIONS: [(&str, &[&str]); 22] = [
    ("application-loopback", &["--proxy-uid", "--proxy-gid"]),
    ("dns", &["--redirect-dns"]),
    ("drop-invalid", &["--drop-invalid"]),
    ("excluded-group", &["ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE"]),
    ("excluded-inbound-port", &["--istio-local-exclude-ports"]),
    ("excluded-interface", &["--istio-exclude-interfaces"]),
    ("excluded-network", &["--istio-service-exclude-cidr"]),
    ("excluded-outbound-port", &["--istio-local-outbound-ports-exclude"]),
    ("inbound-port", &["--istio-inbound-ports"]),
    ("loopback", &[]),
    ("other-groups", &["ISTIO_OUTBOUND_OWNER_GROUPS"]),
    ("outbound", &[]),
    ("outbound-network", &["--istio-service-cidr"]),
    ("outbound-port", &["--istio-outbound-ports"]),
    ("proxy-calls-own-pod", &["--proxy-uid", "--proxy-gid"]),
    ("proxy-outbound", &["--proxy-uid", "--proxy-gid"]),
    ("proxy-to-application", &[]),
    ("to-inbound-listener", &["--inbound-capture-port"]),
    ("to-outbound-listener", &["--envoy-port"]),
    ("tproxy-mark", &["--istio-inbound-tproxy-mark"]),
    ("tunnel-port", &["--inbound-tunnel-port"]),
    ("vm-interface", &["--kube-virt-interfaces"]),
];

/// The options that make rules of this name; none for what is always there, and for names that are not ours.
pub fn options_of(name: &str) -> &'static [&'static str] {
    OPTIONS.iter().find(|(known, _)| *known == name).map_or(&[], |(_, options)| options)
}
