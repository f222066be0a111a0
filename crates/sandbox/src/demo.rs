//! Demo: connections one after the other, each announced, made, and compared with the rules' verdict.

use super::network::{POD_V4, POD_V6, WORLD_V4, WORLD_V6};
use super::options::{FAILED, Frontend, SandboxFailure, SandboxOptions};
use super::scenario::{Scenario, ScenarioCaller, dashed};
use super::serve::start;
use super::server::{self, Server};
use super::users::{ProcessIdentity, Users, assume};
use command_line::columns;
use diagnose::explain::{PodContext, RuleView, explain};
use diagnose::{Style, TextLine, fold, painted};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use rules::Family;
use std::io::{self, IsTerminal, PipeReader, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::{os::fd::AsFd, thread, time::Duration};
use sys::fork::fork;
use sys::{dial, namespace::OpenNamespace};

const SHARED: &str = "Only one user is available here, so the rules can't distinguish the proxy from the application by user. The \
    proxy makes its own calls from outside the pod instead, and DNS queries are not captured. For the full \
    demo, run this as root, or with newuidmap and entries in /etc/subuid and /etc/subgid.";

pub(super) struct Demo<'a> {
    pub(super) frontend: &'a dyn Frontend,
    pub(super) options: &'a SandboxOptions<'a>,
    pub(super) users: Users,
}

/// Maximum duration of the demo on a terminal.
const MAX_TOTAL: Duration = Duration::from_secs(55);
const MAX_PAUSE: Duration = Duration::from_secs(7);
const TIMEOUT: Duration = Duration::from_secs(20);

/// Shows all scenarios. Returns 0 if each connection ended as expected.
pub(super) fn run(
    demo: &Demo<'_>,
    scenarios: &[Scenario],
    world: &OpenNamespace,
    mut log: PipeReader,
) -> Result<u8, SandboxFailure> {
    let pod = OpenNamespace::own().map_err(SandboxFailure::Lost)?;
    start("the application", &pod, || serve(demo, scenarios))?;
    let each = MAX_TOTAL / u32::try_from(scenarios.len() + 1).unwrap_or(u32::MAX);
    let pause = if io::stdout().is_terminal() { each.min(MAX_PAUSE) } else { Duration::ZERO };
    fcntl(log.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
        .map_err(|error| SandboxFailure::Lost(error.into()))?;
    // Once closed, the output gets nothing.
    let show = |text: &str| {
        let shown = demo.frontend.print(text);
        thread::sleep(if shown { pause / 2 } else { Duration::ZERO });
        shown
    };
    if !show(&demo.introduction()) {
        return Ok(FAILED);
    }
    thread::sleep(pause / 2);
    let mut wrong = 0;
    for (number, scenario) in (1..).zip(scenarios) {
        let expected = demo.expected(scenario);
        let text = if expected.captured == Some(true) { &scenario.captured } else { &scenario.passing };
        let title = Style::Strong.paint(format!("{number}. {}", scenario.title));
        if !show(&format!("\n{title}\n{}", wrapped("   ", text))) {
            return Ok(FAILED);
        }
        let identity = match scenario.caller {
            ScenarioCaller::App | ScenarioCaller::World => demo.users.app,
            ScenarioCaller::Proxy => demo.users.proxy,
        };
        let from = (scenario.caller == ScenarioCaller::World).then_some(world);
        let answer = call(identity, from, scenario).map_err(SandboxFailure::Lost)?;
        let logged = read_log(&mut log).map_err(SandboxFailure::Lost)?;
        let fault = fault(&expected, &answer, &logged);
        wrong += usize::from(fault.is_some());
        if !show(&proof(scenario, identity, &answer, &logged, &expected, fault)) {
            return Ok(FAILED);
        }
    }
    let printed = demo.frontend.print(&ending(scenarios.len(), wrong));
    Ok(if printed && wrong == 0 { 0 } else { FAILED })
}

fn serve(demo: &Demo<'_>, scenarios: &[Scenario]) -> io::Result<()> {
    assume(demo.users.app)?;
    let ports = scenarios.iter().filter_map(Scenario::port_in_the_pod).collect();
    server::start(Server::Application, &ports, demo.options.capture.ipv6())
}

struct DemoExpectation {
    captured: Option<bool>,
    head: Vec<TextLine>,
}

impl Demo<'_> {
    fn expected(&self, scenario: &Scenario) -> DemoExpectation {
        let capture = &*self.options.capture;
        let addresses = [Some(POD_V4.into()), capture.ipv6().then_some(POD_V6.into())];
        let pod = PodContext::new(addresses.into_iter().flatten(), Some(capture));
        let packet = scenario.packet(&self.users);
        let rule_view = RuleView::of_config(capture, Family::of(scenario.to.ip()), &pod);
        let explained = explain(&rule_view.view, &rule_view.routing, &packet)
            .in_words_of(&self.options.dialect)
            .of_skipped(self.options.skip);
        DemoExpectation { captured: explained.is_captured(), head: explained.report().head() }
    }

    fn introduction(&self) -> String {
        let capture = &self.options.capture;
        let both = |v4: String, v6: String| if capture.ipv6() { format!("{v4} and {v6}") } else { v4 };
        let pod = both(POD_V4.to_string(), POD_V6.to_string());
        let world = both(WORLD_V4.to_string(), WORLD_V6.to_string());
        let listeners = capture.proxy().listeners;
        let (out, back) = (dashed(listeners.outbound), dashed(listeners.inbound));
        let mut text = wrapped(
            "",
            &format!(
                "This is a pod: a network namespace with the addresses {pod}. A veth pair connects it to the outside, \
                 {world}. The pod runs an application, and a proxy that must see the application's traffic. Neither is \
                 configured for the other: rules in the kernel connect them. This command sets them:"
            ),
        );
        text += &format!("\n  {}\n\n", Style::Strong.paint(&self.options.command));
        text += &wrapped(
            "",
            &format!(
                "The proxy listens on port {out} for outbound and on port {back} for inbound connections. Below are real \
                 connections: the caller and its destination, the proxy's log, the answer, and the rules' reason."
            ),
        );
        if self.users.shared {
            text += &format!("\n{}", wrapped("", SHARED));
        }
        if io::stdout().is_terminal() {
            let text_of_time = Style::Quiet.paint("The demo takes a minute; Ctrl-C ends it.");
            text += &format!("\n{text_of_time}\n");
        }
        text
    }
}

fn fault(
    expected: &DemoExpectation,
    answer: &Result<String, String>,
    logged: &[String],
) -> Option<&'static str> {
    match (expected.captured, answer) {
        (Some(_), Err(_)) => Some("no answer"),
        (Some(true), Ok(_)) if logged.is_empty() => Some("it did not reach the proxy"),
        (Some(false), Ok(_)) if !logged.is_empty() => Some("it reached the proxy"),
        (None, Ok(_)) => Some("it was not dropped"),
        (Some(_), Ok(_)) | (None, Err(_)) => None,
    }
}

fn proof(
    scenario: &Scenario,
    (uid, _): ProcessIdentity,
    answer: &Result<String, String>,
    logged: &[String],
    expected: &DemoExpectation,
    fault: Option<&str>,
) -> String {
    let caller = match scenario.caller {
        ScenarioCaller::App => format!("the application, uid {uid},"),
        ScenarioCaller::Proxy => format!("the proxy, uid {uid},"),
        ScenarioCaller::World => "a client".to_owned(),
    };
    let answer = match answer {
        Ok(answer) => format!("answer: {answer}"),
        Err(error) => format!("no answer: {error}"),
    };
    let mut text = String::from("\n");
    for line in [&format!("{caller} calls {}", scenario.to)].into_iter().chain(logged).chain([&answer]) {
        text += &format!("   {} {line}\n", Style::Quiet.paint(">"));
    }
    text += &format!("\n{}", wrapped("   ", painted(&expected.head, usize::MAX).trim_end()));
    if let Some(fault) = fault {
        text += &format!("   {}\n", Style::Dropped.paint(format!("WRONG: {fault}")));
    }
    text
}

fn ending(count: usize, wrong: usize) -> String {
    if wrong > 0 {
        let text = format!("{wrong} of {count} connections differed from the rules.");
        return format!("\n{}\n", Style::Dropped.paint(text));
    }
    let next = format!(
        "Run your own program in such a pod, or explain a packet:\n\n  sidecar-init sandbox -- curl http://{WORLD_V4}\n  \
         sidecar-init explain -b '*' -i '*' --pod-ips {POD_V4} {WORLD_V4}:80\n"
    );
    format!("\n{}\n\n{next}", Style::Strong.paint(format!("All {count} connections matched the rules.")))
}

fn wrapped(indent: &str, text: &str) -> String {
    fold(&format!("{indent}{text}\n"), indent.len(), columns::of_help())
}

/// Calls with a process's identity, optionally from another network namespace; returns the answer or the error.
fn call(
    identity: ProcessIdentity,
    from: Option<&OpenNamespace>,
    scenario: &Scenario,
) -> io::Result<Result<String, String>> {
    let (mut reader, writer) = io::pipe()?;
    let mut writer = Some(writer);
    let child = fork(|| {
        let entered = from.map_or(Ok(()), OpenNamespace::enter).and_then(|()| assume(identity));
        let answer = entered.and_then(|()| match scenario.name {
            None => hello(scenario.to, scenario.mark),
            Some(name) => resolve(scenario.to, name),
        });
        let (text, code) = match answer {
            Ok(text) => (text, 0),
            Err(error) => (error.to_string(), 1),
        };
        let written = writer.take().map(|mut writer| writer.write_all(text.as_bytes()));
        if written.is_some_and(|written| written.is_ok()) { code } else { 1 }
    })?;
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text)?;
    Ok(if child.wait()? == 0 { Ok(text) } else { Err(text) })
}

fn hello(to: SocketAddr, mark: Option<u32>) -> io::Result<String> {
    let mut stream = dial::connect(dial::CallSource { address: None, transparent: mark }, to, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(body.trim_end().to_owned()),
        _ => Err(io::Error::other("the answer is not from a sandbox server")),
    }
}

fn resolve(server: SocketAddr, name: &str) -> io::Result<String> {
    let socket = UdpSocket::bind(if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    // One question of class 1, for an address of type 1 (RFC 1035, 4.1); recursion is desired.
    let mut query = vec![0x51, 0xca, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(u8::try_from(label.len()).map_err(io::Error::other)?);
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    socket.send(&query)?;
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer)?;
    match answer[..length] {
        [0x51, 0xca, .., a, b, c, d] if length > query.len() => Ok(format!("{name} is {a}.{b}.{c}.{d}")),
        _ => Err(io::Error::other("the answer is not from a sandbox server")),
    }
}

/// New lines of the proxy's log. It logs a connection before it forwards any data.
fn read_log(log: &mut PipeReader) -> io::Result<Vec<String>> {
    let mut text = Vec::new();
    match log.read_to_end(&mut text) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()),
    }
}
