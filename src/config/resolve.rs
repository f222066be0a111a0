//! Turns raw values into a configuration, or into everything that is wrong with them.

use super::{
    BackendChoice, CaptureConfig, DnsCapture, Format, Host, InboundPorts, Interception, Logging, Mode,
    OutboundCidrs, PROXY_MARK, Preview, Problem, Problems, RouteTable, Run, Validation, VariantChoice,
    names::Names,
    raw::{Raw, Source},
    reader::{Reader, Wildcard},
    setting::Setting,
};
use rules::{Cidr, Family, Mark, Port, Version, number::unsigned};
use std::{net::IpAddr, path::PathBuf, time::Duration};
use tracing::level_filters::LevelFilter;

/// Everything that a call asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// What to capture.
    pub capture: CaptureConfig,
    /// How to run.
    pub run: Run,
    /// Where log lines go.
    pub logging: Logging,
    /// What is odd, but does not stop us.
    pub warnings: Vec<String>,
}

/// Understands all settings.
///
/// # Errors
/// Every problem found, `before` first: those that were found before it came to values.
pub fn resolve(raw: &Raw, host: &dyn Host, before: Vec<Problem>) -> Result<Resolved, Problems> {
    let mut reader = Reader::new(raw);
    reader.problems.splice(0..0, before);
    let run = run(&mut reader);
    let logging = logging(&mut reader);
    let capture = capture(&mut reader, host, run.cni);
    match reader.problems.is_empty() {
        true => Ok(Resolved { capture, run, logging, warnings: reader.warnings }),
        false => Err(Problems(reader.problems)),
    }
}

/// Understands the settings that say how to run, and no others.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_run(raw: &Raw, before: Vec<Problem>) -> Result<(Run, Logging), Problems> {
    let mut reader = Reader::new(raw);
    reader.problems.splice(0..0, before);
    let resolved = (run(&mut reader), logging(&mut reader));
    if reader.problems.is_empty() { Ok(resolved) } else { Err(Problems(reader.problems)) }
}

fn run(reader: &mut Reader<'_>) -> Run {
    let dry_run = reader.switch(Setting::DryRun);
    let restore_format = reader.switch_or(Setting::RestoreFormat, true);
    let clean = reader.switch(Setting::CleanupOnly);
    let skip = reader.switch(Setting::SkipRuleApply);
    let backend = backend(reader);
    let mode = match (dry_run, clean, skip) {
        (true, _, _) if backend == BackendChoice::Nftables => Mode::Preview(Preview::Nft),
        (true, _, _) if restore_format => Mode::Preview(Preview::Restore),
        (true, _, _) => Mode::Preview(Preview::Commands),
        (false, true, _) => Mode::Clean,
        (false, false, true) => Mode::Nothing,
        (false, false, false) => Mode::Apply,
    };
    let probe = Validation {
        probe_port: reader.port(Setting::ProbePort, port(15002)),
        timeout: reader.duration(Setting::ProbeTimeout, Duration::from_secs(5)),
    };
    Run {
        mode,
        namespace: reader.optional(Setting::NetworkNamespace, "", |path| Some(PathBuf::from(path))),
        cni: reader.switch(Setting::CniMode),
        backend,
        iptables_version: reader.optional(
            Setting::IptablesVersion,
            "is no version; expected one such as 1.8.9",
            |text| text.parse::<Version>().ok(),
        ),
        reconcile: reader.switch(Setting::Reconcile),
        force: reader.switch(Setting::ForceApply),
        lock_wait: reader
            .scalar(Setting::LockWait, "is no time to wait; expected a number of seconds", unsigned)
            .unwrap_or(30),
        allow_host: reader.switch(Setting::AllowHostNamespace),
        format: reader
            .optional(Setting::Format, "is no format; expected text or json", |text| match text {
                "text" => Some(Format::Text),
                "json" => Some(Format::Json),
                _ => None,
            })
            .unwrap_or(Format::Text),
        validation: reader.switch(Setting::RunValidation).then_some(probe),
    }
}

fn backend(reader: &mut Reader<'_>) -> BackendChoice {
    let native = reader.switch(Setting::NativeNftables);
    let variant = |text: &str| match text.to_ascii_lowercase().as_str() {
        "legacy" => Some(VariantChoice::Legacy),
        "nft" => Some(VariantChoice::Nft),
        _ => None,
    };
    let variant =
        reader.optional(Setting::ForceBinary, "is no variant of iptables; expected legacy or nft", variant);
    let named =
        reader.optional(
            Setting::Backend,
            "is no backend; expected nftables or iptables",
            |text| match text {
                "nftables" => Some(BackendChoice::Nftables),
                "iptables" => Some(BackendChoice::Iptables(None)),
                _ => None,
            },
        );
    match (named, native, variant) {
        (Some(BackendChoice::Iptables(_)), true, _) => {
            reader.blame(Setting::Backend, "contradicts --native-nftables; give one of them");
            BackendChoice::Any
        }
        (Some(BackendChoice::Nftables), _, Some(_)) => {
            reader.blame(Setting::Backend, "contradicts --force-iptables-binary; give one of them");
            BackendChoice::Any
        }
        (Some(BackendChoice::Nftables), ..) | (_, true, _) => BackendChoice::Nftables,
        (Some(BackendChoice::Iptables(_)), ..) | (_, _, Some(_)) => BackendChoice::Iptables(variant),
        (Some(BackendChoice::Any) | None, false, None) => BackendChoice::Any,
    }
}

fn logging(reader: &mut Reader<'_>) -> Logging {
    let mut logging = Logging {
        level: LevelFilter::INFO,
        scopes: Vec::new(),
        json: reader.switch(Setting::LogAsJson),
        targets: reader.items(Setting::LogTarget).0.into_iter().map(str::to_owned).collect(),
    };
    let levels = reader.list(Setting::LogOutputLevel, |reader, source, item| {
        let (scope, name) = item.split_once(':').unwrap_or(("default", item));
        let level = level(name);
        if level.is_none() {
            let form = "expected SCOPE:LEVEL with a level of none, fatal, error, warn, info, debug or trace";
            reader.problem(source, item, format!("names no log level; {form}"));
        }
        level.map(|level| (scope.to_owned(), level))
    });
    for (scope, level) in levels {
        match scope.as_str() {
            "default" | "all" => logging.level = level,
            _ => logging.scopes.push((scope, level)),
        }
    }
    logging
}

fn level(name: &str) -> Option<LevelFilter> {
    match name {
        "none" => Some(LevelFilter::OFF),
        "fatal" | "error" => Some(LevelFilter::ERROR),
        "warn" => Some(LevelFilter::WARN),
        "info" => Some(LevelFilter::INFO),
        "debug" => Some(LevelFilter::DEBUG),
        "trace" => Some(LevelFilter::TRACE),
        _ => None,
    }
}

fn capture(reader: &mut Reader<'_>, host: &dyn Host, numbers_only: bool) -> CaptureConfig {
    let interception = interception(reader);
    let inbound_listener = reader.listener(Setting::InboundCapturePort, port(15006));
    if matches!(interception, Interception::Tproxy { .. }) && !inbound_listener.is_single() {
        reader.blame(Setting::InboundCapturePort, "is a range, which TPROXY can't use; give one port");
    }
    let vm_interfaces = reader.list(Setting::VmInterfaces, Reader::interface_item);
    if matches!(interception, Interception::Tproxy { .. }) && !vm_interfaces.is_empty() {
        let text = "--kube-virt-interfaces: with TPROXY, connections of virtual machines reach the proxy's inbound \
                    port; use REDIRECT";
        reader.warnings.push(text.to_owned());
    }
    let names = Names { host, numbers_only };
    let proxy_uids = names.proxy_users(reader);
    let proxy_gids = names.proxy_groups(reader, &proxy_uids);
    let ipv6 = ipv6(reader, host);
    let outbound_cidrs = match reader.wildcard(Setting::ServiceCidr, Reader::cidr_item) {
        Wildcard::All => OutboundCidrs::All,
        Wildcard::Items(cidrs) => OutboundCidrs::Only(cidrs),
    };
    let excluded_cidrs = reader.list(Setting::ServiceExcludeCidr, |reader, source, item| {
        if item == "*" {
            reader.problem(source, item, "would leave everything alone; to capture nothing, leave -i empty");
            return None;
        }
        reader.cidr_item(source, item)
    });
    if ipv6 == Some(false) {
        let included: &[Cidr] = match &outbound_cidrs {
            OutboundCidrs::Only(cidrs) => cidrs,
            OutboundCidrs::All => &[],
        };
        warn_of_ipv6(reader, Setting::ServiceCidr, included);
        warn_of_ipv6(reader, Setting::ServiceExcludeCidr, &excluded_cidrs);
    }
    let excluded_inbound = reader.list(Setting::InboundPortsExclude, Reader::port_item);
    CaptureConfig {
        ipv6: ipv6.unwrap_or(false),
        interception,
        outbound_listener: reader.listener(Setting::EnvoyPort, port(15001)),
        inbound_listener,
        tunnel_port: reader.port(Setting::InboundTunnelPort, port(15008)),
        proxy_uids,
        proxy_gids,
        inbound_ports: match reader.wildcard(Setting::InboundPorts, Reader::port_item) {
            Wildcard::All => InboundPorts::AllBut(excluded_inbound),
            Wildcard::Items(ports) => InboundPorts::Only(ports),
        },
        excluded_interfaces: reader.list(Setting::ExcludeInterfaces, Reader::interface_item),
        vm_interfaces,
        outbound_cidrs,
        excluded_cidrs,
        outbound_ports: reader.list(Setting::OutboundPorts, Reader::port_item),
        excluded_outbound_ports: reader.list(Setting::OutboundPortsExclude, Reader::port_item),
        owner_groups: names.owner_groups(reader),
        loopback_v4: loopback(reader),
        dns: dns(reader, host),
        drop_invalid: reader.switch(Setting::DropInvalid),
        log_hits: reader.switch(Setting::TraceLogging),
    }
}

fn port(number: u16) -> Port {
    Port::new(number).expect("defaults are valid")
}

fn interception(reader: &mut Reader<'_>) -> Interception {
    let table = reader
        .scalar(
            Setting::TproxyRouteTable,
            "is no routing table of its own; expected a number from 1 to 4294967295 other than 253, 254 and 255",
            |text| unsigned(text).and_then(RouteTable::new),
        )
        .unwrap_or(RouteTable::new(133).expect("the default is valid"));
    let mark = reader
        .scalar(Setting::TproxyMark, "is no mark; expected a number from 1 to 4294967295", |text| {
            unsigned(text).filter(|&mark| mark != 0).map(Mark::whole)
        })
        .unwrap_or(Mark::whole(1337));
    let mode = reader
        .optional(
            Setting::InterceptionMode,
            "is no interception mode; expected REDIRECT, TPROXY or NONE",
            |text| match text.to_ascii_uppercase().as_str() {
                "REDIRECT" => Some(Interception::Redirect),
                "TPROXY" => Some(Interception::Tproxy { mark, table }),
                "NONE" => Some(Interception::None),
                _ => None,
            },
        )
        .unwrap_or(Interception::Redirect);
    if matches!(mode, Interception::Tproxy { mark, .. } if mark == PROXY_MARK) {
        reader.blame(
            Setting::TproxyMark,
            "is the mark of the proxy's own packets in TPROXY mode; give another",
        );
    }
    mode
}

/// Whether IPv6 is captured; `None` where that can't be told.
fn ipv6(reader: &mut Reader<'_>, host: &dyn Host) -> Option<bool> {
    let dual_stack = reader.switch(Setting::DualStack);
    let declared = reader.raw.get(Setting::PodIps).is_some();
    let (addresses, source) = if declared {
        let addresses = reader.list(Setting::PodIps, Reader::address_item);
        (addresses, Source::Flag(Setting::PodIps.row().long))
    } else {
        let source = Source::Default(Setting::PodIps);
        match host.addresses() {
            Ok(addresses) => (addresses, source),
            Err(error) => {
                reader.whole(
                    &source,
                    format!("the interfaces can't be listed: {error}; declare the addresses"),
                );
                return None;
            }
        }
    };
    let mut global = addresses.into_iter().filter(|address| is_pod_address(*address)).peekable();
    if global.peek().is_none() {
        let text = "no valid local IP address found: every one is loopback, link-local or multicast; wait for the \
                    network, or declare the pod's addresses with this flag";
        reader.whole(&source, text);
        return None;
    }
    Some(if dual_stack { global.any(|address| address.is_ipv6()) } else { global.peek()?.is_ipv6() })
}

fn is_pod_address(address: IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(address.is_loopback() || link_local || address.is_multicast())
}

fn warn_of_ipv6(reader: &mut Reader<'_>, setting: Setting, cidrs: &[Cidr]) {
    let (_, source) = reader.items(setting);
    for cidr in cidrs.iter().filter(|cidr| cidr.family() == Family::V6) {
        reader
            .warnings
            .push(format!("{source}: {cidr} has no effect, because IPv6 is not captured in this pod"));
    }
}

fn loopback(reader: &mut Reader<'_>) -> Cidr {
    let complaint = "is no IPv4 loopback network; expected one within 127.0.0.0/8, such as 127.0.0.1/32";
    reader
        .optional(Setting::LoopbackCidr, complaint, |text| {
            let cidr: Cidr = text.parse().ok()?;
            (cidr.address().is_ipv4() && cidr.address().is_loopback() && cidr.length() >= 8).then_some(cidr)
        })
        .unwrap_or(Cidr::host(IpAddr::from([127, 0, 0, 1])))
}

fn dns(reader: &mut Reader<'_>, host: &dyn Host) -> DnsCapture {
    let redirect = reader.switch(Setting::RedirectDns);
    let all = reader.switch(Setting::CaptureAllDns);
    let declared = reader.raw.get(Setting::DnsServers).is_some();
    let mut servers = reader.list(Setting::DnsServers, Reader::address_item);
    match (redirect, all) {
        (true, true) => return DnsCapture::All,
        (false, all) => {
            if all {
                let text = "--capture-all-dns has no effect without --redirect-dns";
                reader.warnings.push(text.to_owned());
            }
            return DnsCapture::Off;
        }
        (true, false) => {}
    }
    if !declared {
        servers = host.name_servers().unwrap_or_else(|error| {
            reader.warnings.push(format!("resolv.conf can't be read: {error}"));
            Vec::new()
        });
    }
    if servers.is_empty() {
        reader.warnings.push("DNS is not captured: no DNS server is known".to_owned());
        return DnsCapture::Off;
    }
    DnsCapture::Servers(servers)
}
