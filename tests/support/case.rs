//! Tables of calls with their expected listener. Each call has a listener at its destination, so "not captured" means an arrival
//! there, not only a missing arrival at the proxy. Arrivals are checked completely: the listener, the client's address as the
//! listener saw it, and `SO_ORIGINAL_DST`.

use std::net::SocketAddr;

use super::address::Place;
use super::namespace::Namespace;
use super::pod::{APP, Answerer, Pod, proxy_identity};
use super::setting::Mode;
use super::traffic::{Arrival, Call, Identity, Protocol};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Caller {
    App,
    AppOfGroup2000,
    /// The proxy or the agent, with its injected identity.
    Proxy,
    ProxyUser,
    ProxyGroup,
    /// The proxy calling from 127.0.0.6 or ::6, as in deliveries to the application.
    ProxyFromSix,
    Outside,
    Vm,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Landing {
    /// At the proxy's port for outbound traffic, with the original destination known.
    Outbound,
    /// At the proxy's port for inbound traffic, with the original destination known.
    Inbound,
    Agent,
    /// At the destination, not captured.
    Passes,
}

pub(crate) type Case = (Caller, Protocol, Place, u16, Landing);

/// Makes every call of the table; panics with all unexpected landings.
pub(crate) fn check(pod: &Pod, table: &[Case]) {
    // Setting the rules may have added ::6.
    pod.inside.wait_for_addresses();
    let wrong: Vec<String> = table.iter().filter_map(|case| try_case(pod, case).err()).collect();
    assert!(
        wrong.is_empty(),
        "{}: {} of {} calls went wrong\n{}\nrules:\n{}",
        pod.setting,
        wrong.len(),
        table.len(),
        wrong.join("\n"),
        pod.rules(),
    );
}

fn try_case(pod: &Pod, case: &Case) -> Result<(), String> {
    let &(caller, protocol, place, port, _) = case;
    let to = place.at(pod.setting.family, port);
    pod.listen(protocol, place, port);
    let answered = call(pod, caller, protocol, to).place(home(pod, caller));
    let arrivals = pod.arrivals();
    match (&answered, arrivals.as_slice()) {
        (Ok(from), [arrival]) if lands(pod.setting.mode, case, *from, to, arrival) => Ok(()),
        _ => Err(format!("  {case:?} to {to}: caller got {answered:?}, arrivals {arrivals:?}")),
    }
}

fn home(pod: &Pod, caller: Caller) -> &Namespace {
    match caller {
        Caller::Outside => &pod.outside,
        Caller::Vm => pod.vm.as_ref().expect("the scene attached a VM"),
        _ => &pod.inside,
    }
}

fn call(pod: &Pod, caller: Caller, protocol: Protocol, to: SocketAddr) -> Call {
    let identity = match caller {
        Caller::App | Caller::Outside | Caller::Vm => APP,
        Caller::AppOfGroup2000 => Identity { gid: 2000, ..APP },
        Caller::Proxy | Caller::ProxyFromSix => proxy_identity(pod.setting.mode),
        Caller::ProxyUser => Identity { uid: 1337, gid: 2000 },
        Caller::ProxyGroup => Identity { uid: 2000, gid: 1337 },
    };
    let from = (caller == Caller::ProxyFromSix).then(|| Place::Six.at(pod.setting.family, 0));
    Call { protocol, identity, from, mark: None, to }
}

fn lands(mode: Mode, case: &Case, from: SocketAddr, to: SocketAddr, seen: &Arrival<Answerer>) -> bool {
    let &(caller, _, _, _, landing) = case;
    let expected = match landing {
        Landing::Outbound => Answerer::Outbound,
        Landing::Inbound => Answerer::Inbound,
        Landing::Agent => Answerer::Agent,
        Landing::Passes => Answerer::Destination,
    };
    let addressed = match landing {
        Landing::Outbound => seen.original == Some(to),
        // TPROXY does not change the packet, so the socket's own address is the called one.
        Landing::Inbound if mode == Mode::Tproxy && caller == Caller::Outside => {
            seen.local == to && seen.original == Some(to)
        }
        Landing::Inbound => seen.original == Some(to),
        // UDP has no SO_ORIGINAL_DST; the caller's answer shows that the translation is reverted.
        Landing::Agent => seen.original.is_none_or(|original| original == to),
        Landing::Passes => seen.local == to && seen.original.is_none_or(|original| original == to),
    };
    // The kernel gives a translated connection another client port if the listener has an earlier one from that port
    // (`nf_nat_used_tuple`): clients may use a port for several destinations.
    let is_caller = seen.peer == from || landing != Landing::Passes && seen.peer.ip() == from.ip();
    seen.listener == expected && is_caller && addressed
}
