//! Temporary pod with its rules, a proxy behind them and test servers around it.
//!
//! The first process stays in the caller's namespaces: it forwards signals and returns the second process's exit code. The second
//! is process 1 of a PID namespace; when either ends, for any reason, the kernel ends all others and frees both network
//! namespaces. Servers (the world) and the proxy are the second process's children. The namespaces have no names, so none can
//! remain.

#![forbid(unsafe_code)]

mod command;
mod demo;
mod network;
mod options;
mod proxy;
mod scenario;
mod serve;
mod server;
mod users;

pub use network::{addresses, name_servers};
pub use options::{Frontend, RunAs, SandboxFailure, SandboxOptions};

use command_line::columns;
use demo::Demo;
use diagnose::fold;
use mesh::{CapturePart, CapturePolicy};
use options::FAILED;
use scenario::Scenario;
use serve::start;
use server::{DnsAnswer, Server};
use std::io::{self, PipeWriter, Write};
use std::{collections::BTreeSet, os::fd::AsFd};
use sys::fork::{Child, end_with_parent, fork};
use sys::namespace::{self, OpenNamespace};
use sys::signals::Signals;
use users::{ProcessIdentity, Users, assume};

/// Makes a sandbox, waits for its end, and returns its exit code.
///
/// # Errors
/// The sandbox can't be made, or its state read.
pub fn run(mut options: SandboxOptions<'_>, frontend: &dyn Frontend) -> Result<u8, SandboxFailure> {
    let signals = Signals::hold().map_err(SandboxFailure::Lost)?;
    let users = users::enter(&*options.capture)?;
    if options.capture.ipv6() && network::lacks_ipv6() {
        tracing::warn!(target: "sandbox", "the kernel has no IPv6, so the pod has only IPv4");
        options.capture = options.capture.without(CapturePart::Ipv6);
    }
    if users.shared {
        // The rules recognize the DNS agent's answers by its user.
        options.capture = options.capture.without(CapturePart::Dns);
    }
    if let (true, RunAs::Proxy | RunAs::Root) = (users.shared, options.run_as) {
        return Err(SandboxFailure::OneUser(if options.run_as == RunAs::Root { "root" } else { "proxy" }));
    }
    if users.shared && options.by_iptables {
        return Err(SandboxFailure::OneUserBackend);
    }
    let mounts = network::leave()?;
    let (alive, ours) = io::pipe().map_err(SandboxFailure::Lost)?;
    let mut ours = Some(ours);
    let first = fork(|| {
        drop(ours.take());
        let done = end_with_parent(&alive).map_err(SandboxFailure::Lost);
        done.and_then(|()| inside(&options, mounts, frontend, users, &signals)).unwrap_or_else(|failure| {
            frontend.report(&failure);
            FAILED
        })
    });
    let first = first.map_err(|error| SandboxFailure::Start("the sandbox", error))?;
    let code = command::supervise(first, &signals, !options.program.is_empty(), &[]);
    drop(ours);
    code.map_err(SandboxFailure::Lost)
}

fn inside(
    options: &SandboxOptions<'_>,
    mounts: bool,
    frontend: &dyn Frontend,
    users: Users,
    signals: &Signals,
) -> Result<u8, SandboxFailure> {
    let capture = &*options.capture;
    let world = network::create(capture.ipv6(), mounts)?;
    // Checked again, although the code above prevents this: rules on the host would do too much harm.
    if namespace::is_host() != Some(false) {
        return Err(SandboxFailure::Machine);
    }
    frontend.set_rules(capture).map_err(SandboxFailure::Rules)?;
    let program = options.program.split_first();
    let scenarios = if program.is_none() { scenario::scenarios(capture, &users) } else { Vec::new() };
    let mut ports = BTreeSet::from(WORLD_PORTS);
    ports.extend(scenarios.iter().filter_map(Scenario::port_in_the_world));
    let of_world = start("the test server", &world, || serve_world(&ports, capture.ipv6()))?;
    if let Some(program) = program {
        let log = io::stderr().as_fd().try_clone_to_owned().map_err(SandboxFailure::Lost)?.into();
        let proxy = options.has_proxy.then(|| start_proxy(capture, users, &world, log)).transpose()?;
        if users.shared {
            warn_of_shared_user(options.has_proxy, users.app);
        }
        let identity = match options.run_as {
            RunAs::App => users.app,
            RunAs::Proxy => users.proxy,
            RunAs::Root => users.root,
        };
        let watched = [Some((of_world, "the test server")), proxy.map(|proxy| (proxy, "the proxy"))];
        let watched: Vec<_> = watched.into_iter().flatten().collect();
        return command::run(frontend, program, identity, signals, &watched);
    }
    let (reader, writer) = io::pipe().map_err(SandboxFailure::Lost)?;
    start_proxy(capture, users, &world, writer)?;
    demo::run(&Demo { frontend, options, users }, &scenarios, &world, reader)
}

/// Ports of the world's servers, without DNS.
const WORLD_PORTS: [u16; 14] =
    [7, 80, 443, 3000, 3128, 3306, 5432, 6379, 8000, 8080, 8443, 9080, 9090, 27017];

fn serve_world(ports: &BTreeSet<u16>, ipv6: bool) -> io::Result<()> {
    server::start(Server::World, ports, ipv6)?;
    let names = DnsAnswer { v4: network::WORLD_V4, v6: ipv6.then_some(network::WORLD_V6) };
    server::start_names(&network::name_servers(ipv6), names)
}

fn start_proxy(
    capture: &dyn CapturePolicy,
    users: Users,
    world: &OpenNamespace,
    log: PipeWriter,
) -> Result<Child, SandboxFailure> {
    let expected = proxy::ExpectedProxy {
        known: capture.proxy(),
        ipv6: capture.ipv6(),
        world: match users.shared {
            true => Some(world.try_clone().map_err(SandboxFailure::Lost)?),
            false => None,
        },
    };
    let pod = OpenNamespace::own().map_err(SandboxFailure::Lost)?;
    start("the proxy", &pod, || assume(users.proxy).and_then(|()| proxy::start(expected, log)))
}

fn warn_of_shared_user(has_proxy: bool, app: ProcessIdentity) {
    let proxy = match has_proxy {
        true => "so the proxy calls from outside the pod, and DNS queries are not captured",
        false => {
            "so your proxy's calls are captured again unless they leave another way, and DNS queries are not captured"
        }
    };
    let text = format!(
        "sandbox: only user {} is available, for the proxy and the application: the rules can't distinguish \
         them, {proxy}; for several users, install newuidmap (Debian: uidmap) and add entries for yourself \
         to /etc/subuid and /etc/subgid, or run this as root\n",
        app.0
    );
    let _ = io::stderr().write_all(fold(&text, 2, columns::of_line(&io::stderr())).as_bytes());
}
