//! A pod, its ztunnel, its application, and a host outside.

use crate::meshes::ambient::ztunnel::{Given, Ztunnel};
use crate::support::address::Place;
use crate::support::engine::capture;
use crate::support::namespace::Namespace;
use crate::support::pod::{APP, joined, stand_for};
use crate::support::program::{Outcome, Run, binary};
use crate::support::setting::{Family, Variant};
use crate::support::traffic::{Arrival, Call, Listener, Protocol, Socket};
use mesh::settings;
use mesh::{Capture, Mesh, Setting};
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, Sender, channel};

pub(crate) struct Scene {
    pub(crate) variant: Variant,
    pub(crate) family: Family,
    pub(crate) pod: Namespace,
    pub(crate) outside: Namespace,
    arrivals: (Sender<Arrival<SocketAddr>>, Receiver<Arrival<SocketAddr>>),
    given: Receiver<Given>,
    listeners: Vec<Listener>,
    _ztunnel: Ztunnel,
}

impl Scene {
    pub(crate) fn new(variant: Variant, family: Family, flags: &[&str]) -> Scene {
        let (pod, outside) = joined();
        stand_for(&outside, &[Place::Service, Place::Resolver, Place::Probe]);
        let (note, given) = channel();
        let ztunnel = Ztunnel::start(&pod, family == Family::V6, &note);
        let arrivals = channel();
        let listeners = Vec::new();
        let scene = Scene { variant, family, pod, outside, arrivals, given, listeners, _ztunnel: ztunnel };
        let output = scene.run(&[&["apply"], flags].concat());
        output.with(0, &format!("{flags:?} by {}", variant.name()));
        scene
    }

    pub(crate) fn run(&self, words: &[&str]) -> Outcome {
        let path = self.pod.path();
        let place = ["--network-namespace", &path, "--mesh", "ambient", "--backend", self.variant.backend()];
        binary(words).args(place).outcome()
    }

    pub(crate) fn listen(&mut self, protocol: Protocol, place: Place, port: u16) {
        let address = place.at(self.family, port);
        let host = if place.is_in_pod() { &self.pod } else { &self.outside };
        let socket = Socket { protocol, address, owner: APP };
        self.listeners.push(Listener::start(host, socket, address, self.arrivals.0.clone()));
    }

    pub(crate) fn call(&self, protocol: Protocol, to: Place, port: u16) -> Call {
        Call { protocol, identity: APP, from: None, mark: None, to: to.at(self.family, port) }
    }

    /// Outcome of an answered call: connections that ztunnel got, and listeners that were reached, each as (listener, source
    /// address).
    pub(crate) fn outcome(&self) -> (Vec<Given>, Vec<(SocketAddr, IpAddr)>) {
        let arrivals = self.arrivals.1.try_iter().map(|arrival| (arrival.listener, arrival.peer.ip()));
        (self.given.try_iter().collect(), arrivals.collect())
    }
}

pub(crate) fn config(flags: &[String]) -> Capture {
    let given = flags.iter().map(|flag| {
        let (name, value) = flag.trim_start_matches('-').split_once('=').expect("a flag with its value");
        let row = settings::of(Mesh::Ambient).find(|row| row.long == name).expect("a flag of the mesh");
        (row.setting, value.to_owned())
    });
    capture(given.chain([(Setting::Mesh, Mesh::Ambient.to_string())]))
}

pub(crate) fn everywhere(play: impl Fn(Variant, Family)) {
    for variant in Variant::tried() {
        for family in Family::BOTH {
            play(*variant, family);
        }
    }
}
