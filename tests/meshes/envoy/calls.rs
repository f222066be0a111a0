//! Paths of connections: through Envoy or past it.

use crate::{
    meshes::envoy::{
        application::{Application, Caller},
        on_every_stage,
        stage::{Stage, is_cut_off, pod, service, six},
    },
    support::{
        pod::APP,
        setting::{Family, Mode},
    },
};
use std::net::{IpAddr, SocketAddr};

on_every_stage! {
    calls_are_captured_or_pass,
    calls_to_capture_ports_are_closed,
}

const PORT: u16 = 8080;

#[derive(Clone, Copy, Debug)]
enum Call {
    FromOutside,
    ToService,
    ToItself,
    ProxyToService,
    ProxyToPod,
}

/// Envoy's listener that a call goes through, and the source address at its destination.
#[derive(Debug)]
enum Passage {
    Through(&'static str, IpAddr),
    Past,
}

pub(crate) fn calls_are_captured_or_pass(stage: &Stage) {
    for family in Family::BOTH {
        let _pod = Application::start(&stage.inside, (pod(family), PORT).into());
        let _service = Application::start(&stage.outside, (service(family), PORT).into());
        for call in
            [Call::FromOutside, Call::ToService, Call::ToItself, Call::ProxyToService, Call::ProxyToPod]
        {
            check(stage, family, call);
        }
    }
}

fn check(stage: &Stage, family: Family, call: Call) {
    let (pod, service) = (pod(family), service(family));
    let delivered_from = |caller| match stage.mode {
        Mode::Redirect => six(family),
        Mode::Tproxy => caller,
    };
    let (to, way) = match call {
        Call::FromOutside => (pod, None),
        Call::ToService => (service, Some(Passage::Through("outbound", pod))),
        Call::ToItself => (pod, Some(Passage::Past)),
        Call::ProxyToService => (service, Some(Passage::Past)),
        // The proxy's calls to the pod come in like other calls.
        Call::ProxyToPod => (pod, Some(Passage::Through("inbound", delivered_from(pod)))),
    };
    let to = SocketAddr::new(to, PORT);
    let stream = match call {
        Call::FromOutside => stage.dial_from_outside(to),
        Call::ToService | Call::ToItself => stage.dial(APP, to),
        Call::ProxyToService | Call::ProxyToPod => stage.dial(stage.proxy_identity(), to),
    };
    let case = || format!("{call:?} {family:?}\n{}\n{}", stage.envoy.log().join("\n"), stage.rules());
    let caller = stream.and_then(Caller::new);
    let mut caller = caller.unwrap_or_else(|error| panic!("connecting failed: {error}: {}", case()));
    let peer = caller.query_peer().unwrap_or_else(|error| panic!("the request failed: {error}: {}", case()));
    let from = caller.local;
    drop(caller);
    match way.unwrap_or_else(|| Passage::Through("inbound", delivered_from(from.ip()))) {
        Passage::Past => assert_eq!(peer, from, "{}", case()),
        Passage::Through(listener, delivered_from) => {
            assert_ne!(peer, from, "{}", case());
            assert_eq!(peer.ip(), delivered_from, "{}", case());
            let line = format!("{listener} {from} to {to}: from {peer} to {to}, ");
            assert!(stage.envoy.wait_for_line(&line), "no line {line:?}: {}", case());
        }
    }
}

/// Such calls have no destination except Envoy itself: passed on, they would loop forever.
fn calls_to_capture_ports_are_closed(stage: &Stage) {
    for family in Family::BOTH {
        for (port, listener) in [(15001, "outbound-loop"), (15006, "inbound-loop")] {
            let to = SocketAddr::new(pod(family), port);
            let stream = stage.dial_from_outside(to).and_then(Caller::new);
            let mut caller = stream.expect("Envoy accepts first");
            let from = caller.local;
            let error = caller.query_peer().expect_err("no answer");
            assert!(is_cut_off(&error), "{to}: {error}");
            let ended = match port {
                15006 => format!("{listener} {from} to {to}: "),
                _ => format!("{listener} "),
            };
            assert!(stage.envoy.wait_for_line(&ended), "{ended}: {}", stage.envoy.log().join("\n"));
        }
        let lines = stage.envoy.log().len();
        assert!(lines <= 8, "each call is passed on once at most:\n{}", stage.envoy.log().join("\n"));
    }
}
