//! `sidecar-init sandbox`: the rules at work in a temporary pod, with a proxy behind them and test servers around it.
//!
//! Three processes are involved. The first one remains in the caller's namespaces: it forwards signals and ends with the exit
//! code of the second. That is process 1 of a PID namespace; when either of them ends, for any reason, the kernel ends all
//! others and frees both network namespaces. The servers (the world) and the proxy are its children. The namespaces have no
//! names, so nothing can be left behind.

mod command;
mod demo;
mod failure;
mod network;
mod proxy;
mod scenario;
mod serve;
mod server;
mod service;
mod users;

use super::host::System;
use super::manifest::{self, Subject};
use super::run::{self, Logging, Run};
use super::{Exit, logging::Stdout, report, start_logging};
use demo::Demo;
use diagnose::fold;
use failure::SandboxFailure;
use mesh::settings::Topic;
use mesh::sources::{Given, Host, Raw, SettingReader, Source};
use mesh::{Capture, CapturePolicy, Mesh, quoted};
use mesh::{Problems, Setting};
use rules::{Gid, Port, PortRange, Uid};
use scenario::Scenario;
use server::{DnsAnswer, Server};
use service::start;
use sidecar_init::engine::Choice;
use sidecar_init::sys::{
    fork::{Child, end_with_parent, fork, pipe},
    namespace::{self, OpenNamespace},
    signals::Signals,
};
use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    net::IpAddr,
    os::fd::AsFd,
    process,
};
use users::{ProcessIdentity, Users, assume};

/// The identity that a command runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunAs {
    App,
    Proxy,
    Root,
}

struct SandboxOptions {
    run: Run,
    logging: Logging,
    capture: Capture,
    warnings: Vec<String>,
    /// The command that would set the same rules elsewhere.
    command: String,
    has_proxy: bool,
    run_as: RunAs,
}

/// Runs the command. Once there is a sandbox, the process ends here with its exit code.
pub(super) fn run(subjects: &[Subject], trailing: &[OsString]) -> Result<Exit, Problems> {
    let subject = manifest::only(subjects)?;
    let options = options(subject, trailing)?;
    start_logging(&subject.raw, &options.logging, Stdout::Answer)?;
    let of_form = subject.warnings_of_form().iter().map(|remark| &remark.text);
    for warning in of_form.chain(&options.warnings) {
        tracing::warn!(target: "sandbox", "{warning}");
    }
    if let Some(skip) = subject.skip() {
        tracing::warn!(target: "sandbox", "nothing of this pod is ever captured: {skip}");
    }
    match hold(options, subject, trailing) {
        Ok(code) => process::exit(i32::from(code)),
        Err(error) => Ok(report::failure(&error, Exit::Failed)),
    }
}

fn options(subject: &Subject, trailing: &[OsString]) -> Result<SandboxOptions, Problems> {
    let raw = match subject.title {
        None => with_defaults(&subject.raw, subject.raw.mesh()),
        Some(_) => subject.raw.clone(),
    };
    let mut reader = SettingReader::new(&raw, subject.before.clone());
    let (run, logging) = run::read(&mut reader);
    let has_proxy = run::one_of(&mut reader, Setting::SandboxProxy, &[true, false]);
    let run_as = run::one_of(&mut reader, Setting::RunAs, &[RunAs::App, RunAs::Proxy, RunAs::Root]);
    if trailing.is_empty() && has_proxy == Some(false) {
        let text = "none needs a command after --: the demo shows the built-in proxy at work";
        reader.whole(&Source::Flag(Setting::SandboxProxy.row().long), text);
    }
    if trailing.is_empty() && run_as.is_some() {
        let text = "is about a command, and there is none after --";
        reader.whole(&Source::Flag(Setting::RunAs.row().long), text);
    }
    let capture = mesh::configure(&mut reader, &SandboxPod, false);
    let warnings = reader.finish()?;
    let command = equivalent_command(&raw, subject);
    let (has_proxy, run_as) = (has_proxy.unwrap_or(true), run_as.unwrap_or(RunAs::App));
    Ok(SandboxOptions { run, logging, capture, warnings, command, has_proxy, run_as })
}

/// The flags, with the injector's defaults for those that are not given.
fn with_defaults(raw: &Raw, mesh: Mesh) -> Raw {
    let is_given = |setting: &Setting| raw.get(*setting).is_some();
    let given = |(setting, value, unless): &(Setting, &str, &[Setting])| {
        let counts = !unless.iter().any(is_given);
        counts.then(|| (*setting, Given { value: (*value).to_owned(), source: Source::Default(*setting) }))
    };
    raw.clone().over(Raw::of(mesh.injector_defaults().iter().filter_map(given)))
}

/// The flags that would set the same rules elsewhere.
fn equivalent_command(raw: &Raw, subject: &Subject) -> String {
    let mut words = String::from("sidecar-init apply");
    let has_manifest = subject.title.is_some();
    if has_manifest {
        let file = raw.get(Setting::Filename).map_or("", |given| given.value.as_str());
        words += &format!(" -f {}", quoted(file));
    }
    // The manifest gives the pod's settings, flags are added to them.
    let is_shown = |(setting, given): &(Setting, &Given)| {
        setting.row().topic == Topic::Capture && (!has_manifest || matches!(given.source, Source::Flag(_)))
    };
    for (setting, given) in raw.iter().filter(is_shown) {
        let (row, value) = (setting.row(), quoted(&given.value));
        match (row.short, row.long) {
            (Some(short), _) => words += &format!(" -{short} {value}"),
            (None, "") => words = format!("{}={value} {words}", row.variables[0]),
            (None, long) if given.value == "true" => words += &format!(" --{long}"),
            (None, long) => words += &format!(" --{long}={value}"),
        }
    }
    words
}

/// The pod that does not exist yet.
struct SandboxPod;

impl Host for SandboxPod {
    fn user(&self, name: &str) -> io::Result<Option<Uid>> {
        System::Any.user(name)
    }

    fn group(&self, name: &str) -> io::Result<Option<Gid>> {
        System::Any.group(name)
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(vec![network::POD_V4.into(), network::POD_V6.into()])
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Ok(network::name_servers(true).into_iter().map(|server| server.ip()).collect())
    }
}

/// Makes the sandbox, and waits until it ends.
fn hold(mut options: SandboxOptions, subject: &Subject, trailing: &[OsString]) -> Result<u8, SandboxFailure> {
    let signals = Signals::hold().map_err(SandboxFailure::Lost)?;
    let users = users::enter(&*options.capture)?;
    if options.capture.ipv6() && network::lacks_ipv6() {
        tracing::warn!(target: "sandbox", "the kernel has no IPv6, so that the pod has IPv4 alone");
        options.capture = options.capture.ipv4_alone();
    }
    if users.shared {
        // The rules recognise answers of the DNS agent by its user.
        options.capture = options.capture.without_dns();
    }
    if let (true, RunAs::Proxy | RunAs::Root) = (users.shared, options.run_as) {
        return Err(SandboxFailure::OneUser(if options.run_as == RunAs::Root { "root" } else { "proxy" }));
    }
    if users.shared && matches!(options.run.backend, Choice::Iptables(_)) {
        return Err(SandboxFailure::OneUserBackend);
    }
    network::leave()?;
    let (alive, ours) = pipe().map_err(SandboxFailure::Lost)?;
    let mut ours = Some(ours);
    let first = fork(|| {
        drop(ours.take());
        let done = end_with_parent(&alive).map_err(SandboxFailure::Lost);
        done.and_then(|()| inside(&options, subject, users, &signals, trailing)).unwrap_or_else(|error| {
            report::failure(&error, Exit::Failed);
            Exit::Failed as u8
        })
    });
    let first = first.map_err(|error| SandboxFailure::Start("the sandbox", error))?;
    let code = command::supervise(first, &signals, !trailing.is_empty(), &[]);
    drop(ours);
    code.map_err(SandboxFailure::Lost)
}

/// What the first process of the sandbox does.
fn inside(
    options: &SandboxOptions,
    subject: &Subject,
    users: Users,
    signals: &Signals,
    trailing: &[OsString],
) -> Result<u8, SandboxFailure> {
    let capture = &options.capture;
    let world = network::create(capture.ipv6())?;
    set_rules(options)?;
    let scenarios = if trailing.is_empty() { scenario::scenarios(&**capture, &users) } else { Vec::new() };
    let mut ports = WORLD_PORTS.to_vec();
    ports.extend(scenarios.iter().filter_map(Scenario::port_in_the_world));
    ports.sort_unstable();
    ports.dedup();
    let of_world = start("the test server", &world, || serve_world(&ports, capture.ipv6()))?;
    let log = || io::stderr().as_fd().try_clone_to_owned().map(File::from);
    if let Some((program, arguments)) = trailing.split_first() {
        let log = log().map_err(SandboxFailure::Lost)?;
        let proxy = options.has_proxy.then(|| start_proxy(&**capture, users, &world, log)).transpose()?;
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
        return command::run(program, arguments, identity, signals, &watched);
    }
    let (reader, writer) = pipe().map_err(SandboxFailure::Lost)?;
    start_proxy(&**capture, users, &world, writer)?;
    let dialect = &subject.dialect();
    let demo = Demo { capture: &**capture, users, command: &options.command, dialect, skip: subject.skip() };
    demo::run(&demo, &scenarios, &world, reader)
}

/// The ports of the world's servers, DNS aside.
const WORLD_PORTS: [u16; 14] =
    [7, 80, 443, 3000, 3128, 3306, 5432, 6379, 8000, 8080, 8443, 9080, 9090, 27017];

fn set_rules(options: &SandboxOptions) -> Result<(), SandboxFailure> {
    // No failure above leads here, but rules on the machine would do too much harm to rely on that.
    if namespace::is_host() != Some(false) {
        return Err(SandboxFailure::Machine);
    }
    let set = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        options.run.session(options.capture.owner())?.apply(&options.capture.desired())?;
        Ok(())
    };
    set().map_err(SandboxFailure::Rules)
}

fn serve_world(ports: &[u16], ipv6: bool) -> io::Result<()> {
    server::start(Server::World, ports, ipv6)?;
    let names = DnsAnswer { v4: network::WORLD_V4, v6: ipv6.then_some(network::WORLD_V6) };
    server::start_names(&network::name_servers(ipv6), names)
}

fn start_proxy(
    capture: &dyn CapturePolicy,
    users: Users,
    world: &OpenNamespace,
    log: File,
) -> Result<Child, SandboxFailure> {
    let ports = |range: PortRange| range.first().number()..=range.last().number();
    let known = capture.proxy();
    let listeners = &known.listeners;
    let facts = proxy::ExpectedProxy {
        outbound: listeners.outbound.map(ports),
        inbound: listeners.inbound.map(ports),
        agent: listeners.dns.map(Port::number),
        name_servers: match listeners.dns {
            None => Vec::new(),
            Some(_) => network::name_servers(capture.ipv6()),
        },
        passthrough: known.passthrough,
        transparent: listeners.transparent.map(|mark| mark.value),
        mark: known.mark.map(|mark| mark.value),
        ipv6: capture.ipv6(),
        world: match users.shared {
            true => Some(world.try_clone().map_err(SandboxFailure::Lost)?),
            false => None,
        },
    };
    let pod = OpenNamespace::own().map_err(SandboxFailure::Lost)?;
    start("the proxy", &pod, || assume(users.proxy).and_then(|()| proxy::start(facts, log)))
}

fn warn_of_shared_user(has_proxy: bool, app: ProcessIdentity) {
    let proxy = match has_proxy {
        true => "so it makes its own calls from outside the pod, and DNS queries are not captured",
        false => {
            "so its calls come back to it, unless they leave another way, and DNS queries are not captured"
        }
    };
    let text = format!(
        "sandbox: only one user is available here, {}, which is the application's and the proxy's: the rules can't tell them \
         apart, {proxy}; for several users, install newuidmap (Debian: uidmap) and give yourself numbers in /etc/subuid and \
         /etc/subgid, or run this as root\n",
        app.0
    );
    let _ = io::stderr().write_all(fold(&text, 2, report::error_width()).as_bytes());
}
