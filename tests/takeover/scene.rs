//! A pod in which every mesh's proxy listens, with constant inbound and outbound calls while its rules change. Destinations
//! listen too, so a connection past the proxies arrives there. Failed connections at any moment count as faults, including cut
//! earlier connections, and connections from a port whose last connection is in TIME_WAIT in the pod.

use crate::support::address::{Place, any};
use crate::support::engine::kernel;
use crate::support::namespace::Namespace;
use crate::support::pod::{APP, Answerer, Pod};
use crate::support::setting::{self, Family, Mode, Setting};
use crate::support::traffic::{Call, Protocol, QUESTION_OF_MORE, Socket, assume};
use crate::support::wait;
use crate::takeover::meshes::{Goal, options};
use crate::takeover::packets::{By, everything, own_lines, set};
use crate::takeover::states::State;
use crate::takeover::watched::{Disposition, Watched};
use mesh::{Mesh, OWNERS};
use rules::Ownership;
use sidecar_init::backend::CommitStep;
use sidecar_init::engine::{self, Options};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;

const SERVICE: (Place, u16) = (Place::Service, 9080);
const APPLICATION: (Place, u16) = (Place::Pod, 8080);
/// Outside source port of calls to the application between changes.
const SAME_PORT: u16 = 19_999;
/// Maximum number of open connections before all are closed.
const KEPT: usize = 48;
/// linkerd's listeners; the other meshes share ports.
const LINKERD: [(u16, Answerer); 2] = [(4143, Answerer::Inbound), (4140, Answerer::Outbound)];

pub(crate) struct Scene {
    pod: Mutex<Pod>,
    pub(crate) inside: Namespace,
    outside: Namespace,
    faults: Mutex<Vec<String>>,
    kept: Mutex<Vec<(String, TcpStream)>>,
    gate: Gate,
    dns_queries: AtomicUsize,
    by_agent: AtomicUsize,
}

impl Scene {
    pub(crate) fn new() -> Self {
        // Sockets on `::` accept both families. The inbound socket is always transparent.
        let pod =
            Pod::new(Setting { variant: setting::Variant::Nft, family: Family::V6, mode: Mode::Tproxy });
        // Few ports outside, and none held by TIME_WAIT there: each is reused while the pod has its last connection in TIME_WAIT.
        pod.outside.set("ipv4/ip_local_port_range", "20000 20063");
        pod.outside.set("ipv4/tcp_max_tw_buckets", "0");
        // A change that captures DNS queries reads all flows of conntrack.
        pod.inside.set("netfilter/nf_conntrack_tcp_timeout_time_wait", "1");
        let tcp = |address| Socket { protocol: Protocol::Tcp, address, owner: APP };
        let udp = |address| Socket { protocol: Protocol::Udp, address, owner: APP };
        for (port, answerer) in LINKERD {
            pod.answer(&pod.inside, tcp(any(Family::V6, port)), answerer);
        }
        pod.answer(&pod.inside, udp(Place::Loopback.at(Family::V4, 15053)), Answerer::Agent);
        for family in Family::BOTH {
            pod.answer(&pod.outside, tcp(at(SERVICE, family)), Answerer::Destination);
            pod.answer(&pod.inside, tcp(at(APPLICATION, family)), Answerer::Destination);
            pod.answer(&pod.outside, udp(Place::Resolver.at(family, 53)), Answerer::Destination);
        }
        let (gate, dns_queries, by_agent) = (Gate::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let again =
            |namespace: &Namespace| Namespace::from(File::open(namespace.path()).expect("the namespace"));
        let (inside, outside) = (again(&pod.inside), again(&pod.outside));
        let (faults, kept) = (Mutex::default(), Mutex::default());
        Self { pod: pod.into(), inside, outside, faults, kept, gate, dns_queries, by_agent }
    }

    /// Makes changes, each from the end of the last one, with connections during every commit.
    pub(crate) fn under_traffic(&self, changes: impl FnOnce()) {
        thread::scope(|scope| {
            for (home, to) in [(&self.inside, SERVICE), (&self.outside, APPLICATION)] {
                scope.spawn(move || {
                    let calls = Family::BOTH.into_iter().cycle().take_while(|_| self.gate.pass());
                    for family in calls {
                        if let Err(error) = call(at(to, family)).place(home) {
                            self.fault(format!("a call to {}: {error}", at(to, family)));
                        }
                    }
                });
            }
            let _end = End(&self.gate);
            changes();
        });
        // Listeners end with the last connection.
        self.kept.lock().expect("no holder panicked").clear();
        self.look_at_arrivals(None, "at the end");
        let faults = self.faults.lock().expect("no holder panicked");
        assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
        let [dns_queries, by_agent] =
            [&self.dns_queries, &self.by_agent].map(|count| count.load(Ordering::Relaxed));
        assert!(
            dns_queries == 0 || by_agent > dns_queries / 2,
            "of {dns_queries} DNS queries, {by_agent} were captured"
        );
    }

    /// Changes from one goal to another, checks traffic before each commit and after the last, and counts the commits. Faults are
    /// collected; the change itself must end as in `disposition`.
    pub(crate) fn change(&self, old: State, new: State, disposition: Disposition) -> usize {
        let (owner, options) = request(old, new);
        let what = format!("from {old:?} to {new:?}, {disposition:?}");
        let answers_names = |state: &State| state.goal.capture().proxy().listeners.dns.is_some();
        let names = [old, new].iter().all(answers_names);
        let [one, other] = [old.goal, new.goal];
        let mut printed = Vec::new();
        let mut stop = |step: &CommitStep| {
            self.gate.to(Traffic::Stands);
            printed.push(step.to_string());
            self.look_at(&[one, other], names, &format!("{what}: before {step}"));
            self.gate.flows();
        };
        let (done, commits) = self.inside.run(|| {
            let mut watched = Watched { kernel: kernel(owner), disposition, commits: 0, stop: &mut stop };
            let done = engine::apply(&mut watched, &new.goal.desired(owner), &options);
            (done.map_err(|error| error.to_string()), watched.commits)
        });
        self.gate.to(Traffic::Stands);
        match (disposition, &done) {
            (Disposition::Done, Ok(summary)) => assert_eq!(summary.backend, Some(new.backend), "{what}"),
            (Disposition::Fails(_), Err(error)) if error.ends_with("rolled back") => {}
            (Disposition::Killed(_), Err(_)) => {}
            _ => panic!("{what}: {done:?}\n{printed:#?}"),
        }
        let settled: &[Goal] = match disposition {
            Disposition::Done => &[other],
            Disposition::Fails(_) => &[one],
            Disposition::Killed(_) => &[one, other],
        };
        self.look_at(settled, names, &format!("{what}: at the end"));
        commits
    }

    pub(crate) fn holds(&self, state: State, fresh: &[String], what: &str) {
        let found = own_lines(&everything(&self.inside));
        assert_eq!(found, fresh, "{what}: differs from {state:?} set in an empty namespace");
    }

    pub(crate) fn reach(&self, old: State, new: State) {
        let (owner, options) = request(old, new);
        let done = self.inside.run(|| {
            let desired = new.goal.desired(owner);
            engine::apply(&mut kernel(owner), &desired, &options).map_err(|error| error.to_string())
        });
        done.unwrap_or_else(|error| panic!("from {old:?} to {new:?}: {error}"));
    }

    pub(crate) fn rests(&self, State { goal, backend }: State) {
        let owner = goal.owner();
        let again = || engine::apply(&mut kernel(owner), &goal.desired(owner), &options(backend));
        let steps =
            self.inside.run(|| again().map(|summary| summary.steps).map_err(|error| error.to_string()));
        assert_eq!(steps, Ok(Vec::new()), "{goal:?} by {backend}");
    }

    pub(crate) fn with_calls<T>(&self, work: impl FnOnce() -> T) -> T {
        self.gate.flows();
        let done = work();
        self.gate.to(Traffic::Stands);
        done
    }

    /// Checks TCP calls for these goals.
    pub(crate) fn look(&self, goals: &[Goal], what: &str) {
        self.look_at(goals, false, what);
    }

    /// Makes a call of each kind, which must reach the proxy of one of these goals. `names`: all of them capture DNS queries too.
    fn look_at(&self, goals: &[Goal], names: bool, what: &str) {
        for family in Family::BOTH {
            for (home, to) in [(&self.inside, SERVICE), (&self.outside, APPLICATION)] {
                match call(at(to, family)).place(home) {
                    Err(error) => self.fault(format!("{what}: a call to {}: {error}", at(to, family))),
                    Ok(from) => self.look_at_arrivals(Some((from, goals)), what),
                }
                self.keep(home, at(to, family), what);
            }
            let from = Some(SocketAddr::new(Place::Neighbour.ip(family), SAME_PORT));
            if let Err(error) = self.call_from(from, at(APPLICATION, family)) {
                self.fault(format!("{what}: a call from the same port, {from:?}: {error}"));
            }
            if names {
                let to = Place::Resolver.at(family, 53);
                let ask = || {
                    assume(APP);
                    UdpSocket::bind(any(family, 0)).and_then(|socket| socket.send_to(b"?", to))
                };
                match self.inside.run(ask) {
                    Err(error) => self.fault(format!("{what}: a question for {to}: {error}")),
                    Ok(_) => drop(self.dns_queries.fetch_add(1, Ordering::Relaxed)),
                }
            }
        }
    }

    fn call_from(&self, from: Option<SocketAddr>, to: SocketAddr) -> io::Result<()> {
        let mut stream = TcpStream::from(Call { from, ..call(to) }.open(&self.outside)?);
        stream.write_all(b"?")?;
        stream.read_to_end(&mut Vec::new()).map(drop)
    }

    /// Opens another kept connection, and sends a request over all kept connections.
    fn keep(&self, home: &Namespace, to: SocketAddr, what: &str) {
        let mut kept = self.kept.lock().expect("no holder panics");
        if kept.len() >= KEPT {
            kept.clear();
        }
        match call(to).open(home) {
            Ok(stream) => kept.push((format!("to {to} since {what}"), stream.into())),
            Err(error) => self.fault(format!("{what}: a connection to {to}: {error}")),
        }
        for (which, stream) in kept.iter_mut() {
            if let Err(error) = stream.write_all(QUESTION_OF_MORE).and_then(|()| stream.read_exact(&mut [0]))
            {
                self.fault(format!("{what}: the connection {which}: {error}"));
            }
        }
    }

    /// Calls from the pod's own address must have reached an outbound listener, the call from `own` a listener of these goals,
    /// all others an inbound listener.
    fn look_at_arrivals(&self, own: Option<(SocketAddr, &[Goal])>, what: &str) {
        let of_pod = |ip: IpAddr| Family::BOTH.map(|family| Place::Pod.ip(family)).contains(&ip);
        for arrival in self.pod.lock().expect("no holder panics").arrivals() {
            let from = SocketAddr::new(arrival.peer.ip().to_canonical(), arrival.peer.port());
            let by_linkerd = LINKERD.iter().any(|(port, _)| arrival.local.port() == *port);
            let is_asked = own.is_none_or(|(own, goals)| {
                own != from || goals.iter().any(|goal| (goal.mesh == Mesh::Linkerd) == by_linkerd)
            });
            let is_right = match arrival.listener {
                Answerer::Destination => false,
                Answerer::Outbound => of_pod(from.ip()) && is_asked,
                Answerer::Inbound => !of_pod(from.ip()) && is_asked,
                Answerer::Agent => {
                    self.by_agent.fetch_add(1, Ordering::Relaxed);
                    true
                }
            };
            if !is_right {
                self.fault(format!("{what}: {arrival:?}"));
            }
        }
    }

    fn fault(&self, text: String) {
        self.faults.lock().expect("no holder panics").push(text);
    }
}

/// Content of a pod's namespace in which only this state was ever set.
pub(crate) fn fresh(state: State) -> Vec<String> {
    let namespace = Namespace::new();
    set(&namespace, state.goal, By::Us(state.backend));
    own_lines(&everything(&namespace))
}

/// Another mesh is replaced; the same goal is forced.
pub(crate) fn request(old: State, new: State) -> (Ownership, Options) {
    let owner = match old.goal.mesh == new.goal.mesh {
        true => new.goal.owner(),
        false => new.goal.owner().union(OWNERS),
    };
    (owner, Options { force: old == new, ..options(new.backend) })
}

fn at((place, port): (Place, u16), family: Family) -> SocketAddr {
    place.at(family, port)
}

fn call(to: SocketAddr) -> Call {
    Call { protocol: Protocol::Tcp, identity: APP, from: None, mark: None, to }
}

/// Gate for calls, closed while states are read and compared, as nothing changes then.
#[derive(Default)]
struct Gate {
    traffic: Mutex<Traffic>,
    changed: Condvar,
    passed: AtomicUsize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Traffic {
    #[default]
    Stands,
    Flows,
    Ends,
}

impl Gate {
    fn to(&self, traffic: Traffic) {
        *self.traffic.lock().expect("no holder panics") = traffic;
        self.changed.notify_all();
    }

    /// Opens the gate and returns when some calls are in flight.
    fn flows(&self) {
        let target = self.passed.load(Ordering::Relaxed) + 2;
        self.to(Traffic::Flows);
        wait::until("calls flow", || self.passed.load(Ordering::Relaxed) >= target);
    }

    /// Waits until a call may be made; returns false at the end.
    fn pass(&self) -> bool {
        let traffic = self.traffic.lock().expect("no holder panics");
        let stands = |traffic: &mut Traffic| *traffic == Traffic::Stands;
        let traffic = self.changed.wait_while(traffic, stands).expect("no holder panics");
        self.passed.fetch_add(1, Ordering::Relaxed);
        *traffic == Traffic::Flows
    }
}

/// Ends the calling threads, even after a panic.
struct End<'a>(&'a Gate);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.to(Traffic::Ends);
    }
}
