//! Verdicts for a pod's traffic.

use crate::meshes::ambient::scene::{Scene, everywhere};
use crate::meshes::ambient::ztunnel::{At, Given, MARK};
use crate::support::address::Place;
use crate::support::namespace::Namespace;
use crate::support::pod::machine_behind;
use crate::support::traffic::{Call, Protocol};
use std::net::SocketAddr;

/// Makes a call in a namespace and checks the connection that ztunnel got and the listener that was reached, with its source.
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
fn inbound_reaches_the_application_through_ztunnel_with_the_client_address() {
    everywhere(|variant, family| {
        let mut scene = Scene::new(variant, family, &[]);
        scene.listen(Protocol::Tcp, Place::Pod, 8080);
        let app = Place::Pod.at(family, 8080);
        let call = scene.call(Protocol::Tcp, Place::Pod, 8080);
        let (given, reached) = ((At::Inbound, Place::Neighbour, Some(app)), (app, Place::Neighbour));
        check(&scene, &scene.outside, &call, Some(given), Some(reached));
        let call = scene.call(Protocol::Tcp, Place::Pod, 15008);
        let tunnel = Place::Pod.at(family, 15008);
        check(&scene, &scene.outside, &call, Some((At::Tunnel, Place::Neighbour, Some(tunnel))), None);
    });
}

#[test]
fn outbound_goes_through_ztunnel_and_local_calls_do_not() {
    everywhere(|variant, family| {
        let mut scene = Scene::new(variant, family, &[]);
        scene.listen(Protocol::Tcp, Place::Service, 80);
        scene.listen(Protocol::Tcp, Place::Pod, 8080);
        let service = Place::Service.at(family, 80);
        let call = scene.call(Protocol::Tcp, Place::Service, 80);
        let (given, reached) = ((At::Outbound, Place::Pod, Some(service)), (service, Place::Pod));
        check(&scene, &scene.pod, &call, Some(given), Some(reached));
        // ztunnel's own call, identified only by its mark.
        let marked = Call { mark: Some(MARK), ..call };
        check(&scene, &scene.pod, &marked, None, Some((service, Place::Pod)));
        // Bits outside the mask may have any value.
        let marked = Call { mark: Some(0xab000 | MARK), ..call };
        check(&scene, &scene.pod, &marked, None, Some((service, Place::Pod)));
        let itself = scene.call(Protocol::Tcp, Place::Pod, 8080);
        check(&scene, &scene.pod, &itself, None, Some((Place::Pod.at(family, 8080), Place::Pod)));
    });
}

#[test]
fn dns_queries_go_to_ztunnel_and_its_own_to_the_server() {
    everywhere(|variant, family| {
        let mut scene = Scene::new(variant, family, &[]);
        scene.listen(Protocol::Udp, Place::Resolver, 53);
        scene.listen(Protocol::Tcp, Place::Resolver, 53);
        let server = Place::Resolver.at(family, 53);
        // Queries share a port: only the zone distinguishes their answers.
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
fn gateway_takes_inbound_and_ztunnel_gets_its_answers() {
    everywhere(|variant, family| {
        let mut scene = Scene::new(variant, family, &["--ingress"]);
        scene.listen(Protocol::Tcp, Place::Pod, 8080);
        scene.listen(Protocol::Tcp, Place::Service, 80);
        let app = Place::Pod.at(family, 8080);
        let call = scene.call(Protocol::Tcp, Place::Pod, 8080);
        check(&scene, &scene.outside, &call, None, Some((app, Place::Neighbour)));
        // A tunnelled connection is delivered from the client's address, and the answer goes there.
        let handed = Call { from: Some(Place::Service.at(family, 0)), mark: Some(MARK), ..call };
        check(&scene, &scene.pod, &handed, None, Some((app, Place::Service)));
        let service = Place::Service.at(family, 80);
        let call = scene.call(Protocol::Tcp, Place::Service, 80);
        let (given, reached) = ((At::Outbound, Place::Pod, Some(service)), (service, Place::Pod));
        check(&scene, &scene.pod, &call, Some(given), Some(reached));
    });
}

#[test]
fn outbound_of_a_machine_behind_the_pod_goes_through_ztunnel() {
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
