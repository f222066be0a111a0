//! The owner of a connection: the proxy, an excluded group, or the application.

use super::config::{DnsCapture, OutboundCidrs, OwnerGroups};
use super::words::{
    OUTBOUND, ProxyOwner, TO_INBOUND_LISTENER, group, jump, not_group, not_port, not_ports, not_to, tcp,
    to_loopback,
};
use super::{defaults::DNS_PORT, reason::Reason, writer::Writer};
use rules::{Table, Target};

pub(super) fn write(writer: &mut Writer<'_>) {
    for owner in writer.owners() {
        proxy(writer, owner);
    }
    groups(writer);
}

/// Three rules for each owner of the proxy's traffic.
fn proxy(writer: &mut Writer<'_>, owner: ProxyOwner) {
    let config = writer.config;
    let captures_dns = config.dns != DnsCapture::Off;
    // The proxy calls the pod by its own address: the application calls itself through the mesh, so the
    // call must come in through the inbound listener. Upstream spares DNS for users but not for groups.
    let cause = Reason::ProxyCallsOwnPod.cause().by(owner.setting());
    let others = match owner {
        ProxyOwner::User(_) if captures_dns => not_ports([DNS_PORT, config.tunnel_port]),
        ProxyOwner::User(_) | ProxyOwner::Group(_) => not_port(config.tunnel_port),
    };
    let away = not_to(writer.loopback());
    let matches = [to_loopback(), away, tcp(), others, owner.is()];
    writer.append(Table::Nat, OUTBOUND, matches, jump(TO_INBOUND_LISTENER), cause);
    // The application talks to itself over loopback.
    if !captures_loopback(&config.outbound_cidrs) {
        let cause = Reason::ApplicationLoopback.cause().by(owner.setting());
        if captures_dns {
            let matches = [to_loopback(), tcp(), not_port(DNS_PORT), owner.is_not()];
            writer.append(Table::Nat, OUTBOUND, matches, Target::Return, cause);
        } else {
            writer.append(Table::Nat, OUTBOUND, [to_loopback(), owner.is_not()], Target::Return, cause);
        }
    }
    // Everything else of the proxy's is what it sends on behalf of the application.
    let cause = Reason::ProxyOutbound.cause().by(owner.setting());
    writer.append(Table::Nat, OUTBOUND, [owner.is()], Target::Return, cause);
}

/// Upstream checks both families at once, and looks at the network's first address only: `0.0.0.0/0` does not count.
fn captures_loopback(cidrs: &OutboundCidrs) -> bool {
    match cidrs {
        OutboundCidrs::All => false,
        OutboundCidrs::Only(cidrs) => cidrs.iter().any(|cidr| cidr.address().is_loopback()),
    }
}

fn groups(writer: &mut Writer<'_>) {
    match &writer.config.owner_groups {
        OwnerGroups::AllBut(excluded) => {
            let cause = Reason::ExcludedGroup.cause();
            for &gid in excluded {
                writer.append(Table::Nat, OUTBOUND, [group(gid)], Target::Return, cause);
            }
        }
        OwnerGroups::Only(included) => {
            let cause = Reason::OtherGroups.cause();
            let matches = included.iter().copied().map(not_group);
            writer.append(Table::Nat, OUTBOUND, matches, Target::Return, cause);
        }
    }
}
