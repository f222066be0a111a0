//! Envoy crashes under traffic and is restarted. In between, no connection reaches its destination.

use crate::{
    meshes::envoy::{
        application::{Application, Caller},
        on_every_stage,
        stage::{Stage, dial, pod, service, until},
    },
    support::{namespace::Namespace, pod::APP, setting::Family},
};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

on_every_stage! {
    nothing_passes_while_envoy_is_away,
}

const PORT: u16 = 8080;
const ENOUGH: usize = 5;
/// TPROXY without a listener drops packets, so callers need a timeout.
const SHORT: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug)]
enum End {
    Answered,
    Failed,
}

struct Traffic<'a> {
    from: &'a Namespace,
    to: SocketAddr,
    answered: AtomicUsize,
    failed: AtomicUsize,
}

impl<'a> Traffic<'a> {
    fn new(from: &'a Namespace, to: IpAddr) -> Self {
        let to = SocketAddr::new(to, PORT);
        Self { from, to, answered: AtomicUsize::new(0), failed: AtomicUsize::new(0) }
    }

    fn count(&self, end: End) -> &AtomicUsize {
        match end {
            End::Answered => &self.answered,
            End::Failed => &self.failed,
        }
    }

    fn connect(&self, patience: Duration) -> io::Result<Caller> {
        dial(self.from, APP, self.to, patience).and_then(Caller::new)
    }

    fn call(&self, over: &AtomicBool) {
        while !over.load(Ordering::SeqCst) {
            let answered = self.connect(SHORT).and_then(|mut caller| caller.query_peer());
            let end = if answered.is_ok() { End::Answered } else { End::Failed };
            self.count(end).fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn nothing_passes_while_envoy_is_away(stage: &Stage) {
    // After Envoy ends with a reset, conntrack would count a SYN from the same port as part of that connection for ten seconds
    // (`tcp_packet` of `nf_conntrack_proto_tcp.c`).
    stage.inside.set("netfilter/nf_conntrack_tcp_timeout_close", "0");
    let applications = Family::BOTH.map(|family| {
        let start = |host, ip| Application::start(host, SocketAddr::new(ip, PORT));
        [start(&stage.inside, pod(family)), start(&stage.outside, service(family))]
    });
    let traffic = Family::BOTH.map(|family| {
        [Traffic::new(&stage.outside, pod(family)), Traffic::new(&stage.inside, service(family))]
    });
    let traffic = traffic.as_flattened();
    let arrived = || applications.as_flattened().iter().map(|one| one.arrivals().len()).sum::<usize>();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = Ending(&over);
        for one in traffic {
            scope.spawn(|| one.call(&over));
        }
        let mut open: Vec<Caller> = traffic
            .iter()
            .map(|one| one.connect(crate::meshes::envoy::stage::TIMEOUT).expect("Envoy accepts"))
            .collect();
        for caller in &mut open {
            caller.query_peer().expect("an answer");
        }
        wait(stage, traffic, "answered before", End::Answered);

        stage.envoy.kill();
        for caller in &mut open {
            caller.query_peer().expect_err("a connection ends with Envoy");
        }
        // Calls in flight have ended by then.
        wait(stage, traffic, "failed", End::Failed);
        let before = (arrived(), answered(traffic));
        wait(stage, traffic, "failed on", End::Failed);
        assert_eq!((arrived(), answered(traffic)), before, "a call came through without Envoy");

        stage.envoy.restart(&stage.inside);
        wait(stage, traffic, "answered again", End::Answered);
    });
    for arrival in applications.as_flattened().iter().flat_map(Application::arrivals) {
        assert_ne!(arrival.peer, arrival.caller, "a call came past Envoy");
    }
}

fn wait(stage: &Stage, traffic: &[Traffic<'_>], what: &str, end: End) {
    for one in traffic {
        let start = one.count(end).load(Ordering::SeqCst);
        let more = until(|| (one.count(end).load(Ordering::SeqCst) >= start + ENOUGH).then_some(()));
        let log = || stage.envoy.log().split_off(stage.envoy.log().len().saturating_sub(20)).join("\n");
        assert!(more.is_some(), "calls to {} have not {what}:\n{}", one.to, log());
    }
}

fn answered(traffic: &[Traffic<'_>]) -> usize {
    traffic.iter().map(|one| one.count(End::Answered).load(Ordering::SeqCst)).sum()
}

struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
