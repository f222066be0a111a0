//! What becomes of a pod's traffic.

use crate::meshes::ambient::scene::{Scene, everywhere};
use crate::meshes::ambient::ztunnel::{At, Given, MARK};
use crate::support::address::Place;
use crate::support::namespace::Namespace;
use crate::support::pod::machine_behind;
use crate::support::traffic::{Call, Protocol};
use std::net::SocketAddr;

/// Makes a call in a namespace, and compares what ztunnel was given and whom it has reached, from where.
fn check(
    scene: &Scene,
    from: &Namespace,
    call: &Call,
    given: Option<(At, Place, Option<SocketAddr>)>,
    reached: Option<(SocketAddr, Place)>,
) {
    let (variant, family) = (scene.variant.name(), scene.family);
    call.place(from).unwrap_or_else(|error| panic!("{variant}, {family:?}: {call:?}: {error}"));
    let given = given.map(|(at, from, to)| Given { at, from: from.ip(family), to });
    let reached = reached.map(|(listener, from)| (listener, from.ip(family)));
    let expected = (given.into_iter().collect(), reached.into_iter().collect());
    assert_eq!(scene.outcome(), expected, "{variant}, {family:?}: {call:?}");
}

#[test]
fn what_arrives_reaches_the_application_through_ztunnel_with_the_clients_address() {
    everywhere(|variant, family| {
        let mut scene = Scene::new(variant, family, &[]);
        scene.listen(Protocol::Tcp, Place::Pod, 8080);
        let app = Place::Pod.at(family, 8080);
        let call = scene.call(Protocol::Tcp, Place::Pod, 8080);
        let (given, reached) = ((At::Inbound, Place::Neighbour, Some(app)), (app, Place::Neighbour));
        check(&scene, &scene.outside, &call, Some(given), Some(reached));
        // The tunnel's port is called as it is.
        let call = scene.call(Protocol::Tcp, Place::Pod, 15008);
        let tunnel = Place::Pod.at(family, 15008);
        check(&scene, &scene.outside, &call, Some((At::Tunnel, Place::Neighbour, Some(tunnel))), None);
    });
}

#[test]
fn what_leaves_goes_by_ztunnel_and_what_stays_in_the_pod_does_not() {
    everywhere(|variant, family| {
        let mut scene = Scene::new(variant, family, &[]);
        scene.listen(Protocol::Tcp, Place::Service, 80);
        scene.listen(Protocol::Tcp, Place::Pod, 8080);
        let service = Place::Service.at(family, 80);
        let call = scene.call(Protocol::Tcp, Place::Service, 80);
        let (given, reached) = ((At::Outbound, Place::Pod, Some(service)), (service, Place::Pod));
        check(&scene, &scene.pod, &call, Some(given), Some(reached));
        // ztunnel's own call, by its mark alone.
        let marked = Call { mark: Some(MARK), ..call };
        check(&scene, &scene.pod, &marked, None, Some((service, Place::Pod)));
        // Bits above the mask are anybody's.
        let marked = Call { mark: Some(0xab000 | MARK), ..call };
        check(&scene, &scene.pod, &marked, None, Some((service, Place::Pod)));
        let itself = scene.call(Protocol::Tcp, Place::Pod, 8080);
        check(&scene, &scene.pod, &itself, None, Some((Place::Pod.at(family, 8080), Place::Pod)));
    });
}

#[test]
fn queries_for_names_go_to_ztunnel_and_its_own_to_the_server() {
    everywhere(|variant, family| {
        let mut scene = Scene::new(variant, family, &[]);
        scene.listen(Protocol::Udp, Place::Resolver, 53);
        scene.listen(Protocol::Tcp, Place::Resolver, 53);
        let server = Place::Resolver.at(family, 53);
        // Both from one port: only the zone tells their answers apart.
        let from = Some(Place::Pod.at(family, 40053));
        let query = Call { from, ..scene.call(Protocol::Udp, Place::Resolver, 53) };
        check(&scene, &scene.pod, &query, Some((At::Dns, Place::Pod, None)), None);
        let own = Call { mark: Some(MARK), ..query };
        check(&scene, &scene.pod, &own, None, Some((server, Place::Pod)));
        check(&scene, &scene.pod, &query, Some((At::Dns, Place::Pod, None)), None);
        let by_tcp = scene.call(Protocol::Tcp, Place::Resolver, 53);
        check(&scene, &scene.pod, &by_tcp, Some((At::Dns, Place::Pod, Some(server))), None);
    });
}

#[test]
fn the_hosts_own_calls_pass_both_ways() {
    everywhere(|variant, family| {
        let mut scene = Scene::new(variant, family, &[]);
        scene.listen(Protocol::Tcp, Place::Pod, 8080);
        scene.listen(Protocol::Tcp, Place::Probe, 10250);
        let from = Some(Place::Probe.at(family, 0));
        let probe = Call { from, ..scene.call(Protocol::Tcp, Place::Pod, 8080) };
        check(&scene, &scene.outside, &probe, None, Some((Place::Pod.at(family, 8080), Place::Probe)));
        let call = scene.call(Protocol::Tcp, Place::Probe, 10250);
        check(&scene, &scene.pod, &call, None, Some((Place::Probe.at(family, 10250), Place::Pod)));
    });
}

#[test]
fn a_gateway_takes_what_arrives_and_ztunnel_still_finds_its_way_back() {
    everywhere(|variant, family| {
        let mut scene = Scene::new(variant, family, &["--ingress"]);
        scene.listen(Protocol::Tcp, Place::Pod, 8080);
        scene.listen(Protocol::Tcp, Place::Service, 80);
        let app = Place::Pod.at(family, 8080);
        let call = scene.call(Protocol::Tcp, Place::Pod, 8080);
        check(&scene, &scene.outside, &call, None, Some((app, Place::Neighbour)));
        // What the tunnel brings is handed over from the client's address; the answer goes to that.
        let handed = Call { from: Some(Place::Service.at(family, 0)), mark: Some(MARK), ..call };
        check(&scene, &scene.pod, &handed, None, Some((app, Place::Service)));
        let service = Place::Service.at(family, 80);
        let call = scene.call(Protocol::Tcp, Place::Service, 80);
        let (given, reached) = ((At::Outbound, Place::Pod, Some(service)), (service, Place::Pod));
        check(&scene, &scene.pod, &call, Some(given), Some(reached));
    });
}

#[test]
fn what_a_machine_behind_the_pod_sends_goes_out_by_ztunnel() {
    everywhere(|variant, family| {
        let mut scene = Scene::new(variant, family, &["--reroute-virtual-interfaces", "vm+"]);
        let machine = machine_behind(&scene.pod, &scene.outside);
        scene.listen(Protocol::Tcp, Place::Service, 80);
        let service = Place::Service.at(family, 80);
        let call = scene.call(Protocol::Tcp, Place::Service, 80);
        let (given, reached) = ((At::Outbound, Place::Machine, Some(service)), (service, Place::Pod));
        check(&scene, &machine, &call, Some(given), Some(reached));
    });
}
