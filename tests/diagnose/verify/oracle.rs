//! Verdicts of a walk through the existing rules for a probe's calls.

use crate::diagnose::verify::pod::Pod;
use crate::support::engine::{capture, kernel};
use diagnose::explain::{self, RuleView};
use diagnose::probe::{Call, ProbeContext, Route, calls};

use mesh::istio::OWNERSHIP;
use mesh::sources::Dialect;
use rules::routing::Object;
use rules::simulate::{Routing, Verdict, walk};
use rules::{Family, Gid, Port, Uid};
use sidecar_init::{engine, sys::route_lookup};
use std::net::IpAddr;

fn addresses() -> [IpAddr; 2] {
    ["10.77.0.2", "fd77::2"].map(|text| text.parse().expect("an address"))
}

pub(crate) fn expectations(pod: &Pod) -> Vec<Call> {
    let config = capture(pod.scenario.iter().map(|(setting, value)| (*setting, (*value).to_owned())));
    pod.inside.run(|| {
        let facts = ProbeContext {
            pod: explain::PodContext::new(addresses(), Some(&*config)),
            own: (Uid::new(0).expect("root"), Gid::new(0).expect("root")),
            port: Port::new(15002).expect("a port"),
            route: &|to| {
                let route = route_lookup::to(to).ok()?;
                Some(Route { source: route.source, ..Route::by(route.interface) })
            },
            dialect: Dialect::default(),
        };
        calls(&*config, &facts)
    })
}

pub(crate) fn changed(pod: &Pod, calls: &[Call]) -> Vec<String> {
    let scenes = pod.inside.run(|| {
        let mut kernel = kernel(OWNERSHIP);
        let routes = kernel.routing().expect("routing can be read");
        Family::BOTH.map(|family| {
            let view = engine::live(&mut kernel, family).expect("rules can be read");
            let marks = routes.iter().filter_map(|object| match object {
                Object::Rule { family: of, mark, .. } if *of == family => Some(*mark),
                _ => None,
            });
            let routing = Routing { local_marks: marks.collect(), addresses: addresses().to_vec() };
            RuleView { family, view, routing }
        })
    });
    let verdict = |call: &Call| {
        let scene = scenes.iter().find(|scene| scene.family == call.packet.family()).expect("both families");
        walk(&scene.view, &scene.routing, &call.packet).verdict
    };
    let differs = |call: &Call| {
        let now = verdict(call);
        assert_ne!(now, Verdict::Unknown, "the walk has to understand the tests' rules");
        (now != call.expected).then(|| format!("{} -> {}: {now:?}", call.caller, call.to))
    };
    calls.iter().filter_map(differs).collect()
}
