//! `sidecar-init sandbox`: the rules at work in a pod for the moment, with a proxy behind them and a world around it.
//!
//! Three processes stand between the caller and what is shown. The first one stays where it is: it passes signals on and
//! ends with the exit code of the second. That is process 1 of a process namespace; when either of them ends, by whatever
//! hand, the kernel ends all others and frees both network namespaces. The world and the proxy are its children. Nothing
//! has a name, so nothing can be left behind.

mod caller;
mod command;
mod ground;
mod proxy;
mod serve;
mod server;
mod story;
mod tour;
mod users;

use super::host::System;
use super::manifest::{self, Subject};
use super::run::{self, BackendChoice, Logging, Run};
use super::{Exit, logging::Stdout, report, start_logging};
use mesh::settings::Topic;
use mesh::sources::{Given, Host, Raw, Reader, Source};
use mesh::{Capture, Mesh, Policy};
use mesh::{Problems, Setting};
use rules::{Gid, Port, PortRange, Uid};
use server::{Names, Server};
use sidecar_init::engine::{self, Options, Preference};
use sidecar_init::sys::{
    fork::{Beginning, Child, end_with_parent, fork, fork_until_ready, leave_streams, pipe},
    namespace::{self, Held},
    signals::Signals,
    user::{become_user, own},
};
use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    net::IpAddr,
    os::fd::AsFd,
    process, thread,
};
use users::{Person, Users};

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(
        "no user namespace can be had, and without root a pod needs one; run this as root, or allow user namespaces \
         (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
    )]
    Users(#[source] io::Error),
    #[error(
        "newuidmap has given this process users, and newgidmap no groups; give yourself as many numbers in /etc/subgid as \
         in /etc/subuid, or none in either"
    )]
    HalfMapped,
    #[error(
        "no network namespace can be had; run this as root, or allow user namespaces to have them \
         (sysctl kernel.apparmor_restrict_unprivileged_userns)"
    )]
    Leave(#[source] io::Error),
    #[error("the network of the pod can't be made")]
    Ground(#[source] io::Error),
    #[error("this is the machine's own network namespace, where no rules are set")]
    Machine,
    #[error("the rules can't be set")]
    Rules(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("{0} does not start")]
    Start(&'static str, #[source] io::Error),
    #[error(
        "--run-as {0} needs several users, and only one can be had here: install newuidmap (Debian: uidmap) and give \
         yourself numbers in /etc/subuid and /etc/subgid, or run this as root"
    )]
    OneUser(&'static str),
    #[error(
        "only one user can be had here, and iptables takes no rule about another one; leave --backend and its like out, or \
         run this as root"
    )]
    OneUserBackend,
    #[error("what happens to the sandbox can't be told any more")]
    Lost(#[source] io::Error),
}

/// As whom a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    App,
    Proxy,
    Root,
}

/// What is asked for.
struct Asked {
    run: Run,
    logging: Logging,
    capture: Capture,
    warnings: Vec<String>,
    /// The same in one line, for people.
    words: String,
    has_proxy: bool,
    who: Who,
}

/// Runs the command. Where it got so far as to have a sandbox, the process ends here.
pub(super) fn run(subjects: &[Subject], behind: &[OsString]) -> Result<Exit, Problems> {
    let subject = manifest::only(subjects)?;
    let asked = understand(subject, behind)?;
    start_logging(&subject.raw, &asked.logging, Stdout::Answer)?;
    let of_form = subject.warnings_of_form().iter().map(|remark| &remark.text);
    for warning in of_form.chain(&asked.warnings) {
        tracing::warn!(target: "sandbox", "{warning}");
    }
    if let Some(skip) = subject.skip() {
        tracing::warn!(target: "sandbox", "nothing of this pod is ever captured: {skip}");
    }
    match hold(asked, subject, behind) {
        Ok(code) => process::exit(i32::from(code)),
        Err(error) => Ok(report::failure(&error, Exit::Failed)),
    }
}

fn understand(subject: &Subject, behind: &[OsString]) -> Result<Asked, Problems> {
    let raw = match subject.title {
        None => usual(&subject.raw, subject.raw.mesh()),
        Some(_) => subject.raw.clone(),
    };
    let mut reader = Reader::new(&raw, subject.before.clone());
    let (run, logging) = run::read(&mut reader);
    let has_proxy = reader.one_of(Setting::SandboxProxy, "built-in or none", |text| match text {
        "built-in" => Some(true),
        "none" => Some(false),
        _ => None,
    });
    let who = reader.one_of(Setting::RunAs, "app, proxy or root", |text| match text {
        "app" => Some(Who::App),
        "proxy" => Some(Who::Proxy),
        "root" => Some(Who::Root),
        _ => None,
    });
    if behind.is_empty() && has_proxy == Some(false) {
        let text = "none needs a command behind --: the tour shows the built-in proxy at work";
        reader.whole(&Source::Flag(Setting::SandboxProxy.row().long), text);
    }
    if behind.is_empty() && who.is_some() {
        let text = "says as whom a command runs, and there is none behind --";
        reader.whole(&Source::Flag(Setting::RunAs.row().long), text);
    }
    let capture = mesh::configure(&mut reader, &Pod, false);
    let warnings = reader.finish()?;
    let words = words(&raw, subject);
    let (has_proxy, who) = (has_proxy.unwrap_or(true), who.unwrap_or(Who::App));
    Ok(Asked { run, logging, capture, warnings, words, has_proxy, who })
}

/// What flags leave open, as injection has it.
fn usual(raw: &Raw, mesh: Mesh) -> Raw {
    let says = |setting: &Setting| raw.get(*setting).is_some();
    let given = |(setting, value, unless): &(Setting, &str, &[Setting])| {
        let counts = !unless.iter().any(says);
        counts.then(|| (*setting, Given { value: (*value).to_owned(), source: Source::Default(*setting) }))
    };
    raw.clone().over(Raw::of(mesh.usual().iter().filter_map(given)))
}

/// The flags that would set the same rules elsewhere.
fn words(raw: &Raw, subject: &Subject) -> String {
    let mut words = String::from("sidecar-init apply");
    if subject.title.is_some() {
        let file = raw.get(Setting::Filename).map_or("", |given| given.value.as_str());
        return format!("{words} -f {}", quoted(file));
    }
    for (setting, given) in raw.iter().filter(|(setting, _)| setting.row().topic == Topic::Capture) {
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

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The pod that is not there yet.
struct Pod;

impl Host for Pod {
    fn user(&self, name: &str) -> io::Result<Option<Uid>> {
        System.user(name)
    }

    fn group(&self, name: &str) -> io::Result<Option<Gid>> {
        System.group(name)
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(vec![ground::POD_V4.into(), ground::POD_V6.into()])
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Ok(ground::name_servers(true).into_iter().map(|server| server.ip()).collect())
    }
}

/// Makes the sandbox, and stays until it ends.
fn hold(mut asked: Asked, subject: &Subject, behind: &[OsString]) -> Result<u8, Failure> {
    let signals = Signals::hold().map_err(Failure::Lost)?;
    let users = users::enter(&*asked.capture)?;
    if users.shared {
        // Answers of the agent find their way back by the user who sends them.
        asked.capture = asked.capture.without_dns();
    }
    if let (true, Who::Proxy | Who::Root) = (users.shared, asked.who) {
        return Err(Failure::OneUser(if asked.who == Who::Root { "root" } else { "proxy" }));
    }
    if users.shared && matches!(asked.run.backend, BackendChoice::Iptables(_)) {
        return Err(Failure::OneUserBackend);
    }
    ground::leave()?;
    let (alive, ours) = pipe().map_err(Failure::Lost)?;
    let mut ours = Some(ours);
    let first = fork(|| {
        drop(ours.take());
        let done = end_with_parent(&alive).map_err(Failure::Lost);
        done.and_then(|()| inside(&asked, subject, users, &signals, behind)).unwrap_or_else(|error| {
            report::failure(&error, Exit::Failed);
            Exit::Failed as u8
        })
    });
    let first = first.map_err(|error| Failure::Start("the sandbox", error))?;
    let code = command::supervise(first, &signals, !behind.is_empty(), &[]);
    drop(ours);
    code.map_err(Failure::Lost)
}

/// What the first process of the sandbox does.
fn inside(
    asked: &Asked,
    subject: &Subject,
    users: Users,
    signals: &Signals,
    behind: &[OsString],
) -> Result<u8, Failure> {
    let capture = &asked.capture;
    let world = ground::furnish(capture.ipv6())?;
    set_rules(asked)?;
    let stories = if behind.is_empty() { story::stories(&**capture, &users) } else { Vec::new() };
    let mut ports = WORLD_PORTS.to_vec();
    ports.extend(stories.iter().filter_map(story::Story::port_in_the_world));
    ports.sort_unstable();
    ports.dedup();
    let of_world = start("the world", &world, || serve_world(&ports, capture.ipv6()))?;
    let log = || io::stderr().as_fd().try_clone_to_owned().map(File::from);
    if let Some((program, arguments)) = behind.split_first() {
        let log = log().map_err(Failure::Lost)?;
        let proxy = asked.has_proxy.then(|| start_proxy(&**capture, users, &world, log)).transpose()?;
        if users.shared {
            tell_shared(asked.has_proxy, users.app);
        }
        let person = match asked.who {
            Who::App => users.app,
            Who::Proxy => users.proxy,
            Who::Root => users.root,
        };
        let watched = [Some((of_world, "the world")), proxy.map(|proxy| (proxy, "the proxy"))];
        let watched: Vec<_> = watched.into_iter().flatten().collect();
        return command::run(program, arguments, person, signals, &watched);
    }
    let (reader, writer) = pipe().map_err(Failure::Lost)?;
    start_proxy(&**capture, users, &world, writer)?;
    let dialect = &subject.dialect();
    let tour = tour::Tour { capture: &**capture, users, words: &asked.words, dialect, skip: subject.skip() };
    tour::run(&tour, &stories, &world, reader)
}

/// Where the world answers whoever calls. Names have servers of their own.
const WORLD_PORTS: [u16; 14] =
    [7, 80, 443, 3000, 3128, 3306, 5432, 6379, 8000, 8080, 8443, 9080, 9090, 27017];

fn set_rules(asked: &Asked) -> Result<(), Failure> {
    // Nothing can have gone wrong before that would bring us here; rules on the machine would be too bad.
    if namespace::is_host() != Some(false) {
        return Err(Failure::Machine);
    }
    let set = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let choice = asked.run.backend.choice(Preference::Nftables);
        let options = Options::replacing(choice, mesh::OWNERS);
        engine::apply(&mut asked.run.open()?, &asked.capture.desired(), &options)?;
        Ok(())
    };
    set().map_err(Failure::Rules)
}

fn serve_world(ports: &[u16], ipv6: bool) -> io::Result<()> {
    server::start(Server::World, ports, ipv6)?;
    let names = Names { v4: ground::WORLD_V4, v6: ipv6.then_some(ground::WORLD_V6) };
    server::start_names(&ground::name_servers(ipv6), names)
}

fn start_proxy(capture: &dyn Policy, users: Users, world: &Held, log: File) -> Result<Child, Failure> {
    let ports = |range: PortRange| range.first().number()..=range.last().number();
    let known = capture.proxy();
    let listeners = &known.listeners;
    let facts = proxy::Facts {
        outbound: listeners.outbound.map(ports),
        inbound: listeners.inbound.map(ports),
        agent: listeners.dns.map(Port::number),
        name_servers: match listeners.dns {
            None => Vec::new(),
            Some(_) => ground::name_servers(capture.ipv6()),
        },
        passthrough: known.passthrough,
        transparent: listeners.transparent.map(|mark| mark.value),
        mark: known.mark.map(|mark| mark.value),
        ipv6: capture.ipv6(),
        world: match users.shared {
            true => Some(world.try_clone().map_err(Failure::Lost)?),
            false => None,
        },
    };
    let pod = Held::own().map_err(Failure::Lost)?;
    start("the proxy", &pod, || become_somebody(users.proxy).and_then(|()| proxy::start(facts, log)))
}

/// Becomes somebody for good. Where there is one user, everybody is that already.
fn become_somebody(person: Person) -> io::Result<()> {
    if own() == person { Ok(()) } else { become_user(person.0, person.1) }
}

/// Starts a process that serves in a network namespace, on threads of its own, until the sandbox ends.
fn start(name: &'static str, place: &Held, serve: impl FnOnce() -> io::Result<()>) -> Result<Child, Failure> {
    let work = |beginning: Beginning| {
        let begun = leave_streams().and_then(|()| place.enter()).and_then(|()| serve());
        beginning.say(&begun);
        while begun.is_ok() {
            thread::park();
        }
        Exit::Failed as u8
    };
    fork_until_ready(work).map_err(|error| Failure::Start(name, error))
}

fn tell_shared(has_proxy: bool, app: Person) {
    let proxy = match has_proxy {
        true => "so it makes its own calls from the world, and questions for names are not captured",
        false => {
            "so its calls come back to it, unless they leave another way, and questions for names are not captured"
        }
    };
    let text = format!(
        "sandbox: only one user can be had here, {}, which is the application's and the proxy's: the rules can't tell them \
         apart, {proxy}\n",
        app.0
    );
    let _ = io::stderr().write_all(text.as_bytes());
}
