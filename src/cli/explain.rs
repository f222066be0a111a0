//! `sidecar-init explain`: what becomes of a packet, and why.

use super::run::{self, Run};
use super::{
    Exit, begin, change,
    host::System,
    options::Options,
    packet::{self, Pod, Sender},
    report, start_logging,
};
use policy::explain::{Case, explain, matrix};
use policy::istio::{self, CaptureConfig, DnsCapture, OutboundCidrs};
use policy::sources::{Host, Raw};
use policy::{Problem, Problems, Setting};
use rules::simulate::{Packet, Routing, View};
use rules::{Action, Family, Gid, Listing, Mark, Protocol, Table, Target, Uid, parse};
use sidecar_init::backend::{
    Backend, Kernel, Snapshot, Variant,
    nftables::{Image, differences},
};
use sidecar_init::sys::route;
use std::{
    collections::BTreeSet,
    error::Error,
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// Rules to walk through, and where they come from if that needs saying.
struct Scene {
    title: String,
    family: Family,
    view: View,
    routing: Routing,
}

/// Runs the command.
pub(super) fn run(raw: &Raw, options: &Options, mut problems: Vec<Problem>) -> Result<Exit, Problems> {
    let live = options.is_on("live", &mut problems);
    let wants_matrix = options.is_on("matrix", &mut problems);
    let form = options.read("format", "text, json or mermaid", &mut problems, |text| match text {
        "text" => Some(Form::Text),
        "json" => Some(Form::Json),
        "mermaid" => Some(Form::Mermaid),
        _ => None,
    });
    let form = form.unwrap_or(Form::Text);
    if wants_matrix && form != Form::Text {
        problems.push(Problem::of("--matrix", "is text; leave --format out"));
    }
    let file = options.get("from-save");
    if live && file.is_some() {
        problems.push(Problem::of("--live", "contradicts --from-save; give one of them"));
    }
    if live || file.is_some() {
        let (run, logging) = run::resolve_run(raw, problems)?;
        start_logging(&logging, run.mode)?;
        let pod = pod(raw, None, live);
        let question = Question::read(options, &pod, wants_matrix, None)?;
        let scenes = match file {
            Some(file) => from_save(file, &pod),
            None => from_kernel(raw, &run, &pod),
        };
        return Ok(match scenes {
            Ok(scenes) => answer(&scenes, &question, form),
            Err(error) => report::failure(&*error, Exit::Failed),
        });
    }
    let resolved = match run::resolve(raw, &System, problems) {
        Ok(resolved) => resolved,
        Err(mut problems) => {
            // The packet's problems belong beside those of the flags.
            packet::read(options, &pod(raw, None, false), &mut problems.0);
            return Err(problems);
        }
    };
    begin(&resolved)?;
    let pod = pod(raw, Some(&resolved.capture), true);
    let question = Question::read(options, &pod, wants_matrix, Some(&resolved.capture))?;
    let scenes: Vec<Scene> =
        Family::BOTH.into_iter().map(|family| of_capture(&resolved.capture, family, &pod)).collect();
    if question.families().any(|family| !resolved.capture.families().any(|captured| captured == family)) {
        tracing::warn!(target: "config", "IPv6 is not captured in this pod: its first address is not IPv6");
    }
    Ok(answer(&scenes, &question, form))
}

/// How to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Json,
    Mermaid,
}

/// What is asked.
enum Question {
    Packet(Packet),
    Matrix(Vec<Case>),
}

impl Question {
    fn read(
        options: &Options,
        pod: &Pod,
        wants_matrix: bool,
        config: Option<&CaptureConfig>,
    ) -> Result<Self, Problems> {
        if wants_matrix {
            return Ok(Self::Matrix(usual_cases(pod, config)));
        }
        let mut problems = Vec::new();
        match packet::read(options, pod, &mut problems) {
            Some(packet) => Ok(Self::Packet(packet)),
            None => Err(Problems(problems)),
        }
    }

    fn families(&self) -> impl Iterator<Item = Family> {
        let packets: Vec<&Packet> = match self {
            Self::Packet(packet) => vec![packet],
            Self::Matrix(cases) => cases.iter().filter_map(|case| case.packet.as_ref()).collect(),
        };
        Family::BOTH.into_iter().filter(move |family| packets.iter().any(|p| p.family() == *family))
    }
}

fn answer(scenes: &[Scene], question: &Question, form: Form) -> Exit {
    let families: Vec<Family> = question.families().collect();
    let scenes: Vec<&Scene> = scenes.iter().filter(|scene| families.contains(&scene.family)).collect();
    let mut text = String::new();
    let mut reports = Vec::new();
    for scene in &scenes {
        if scenes.len() > 1 && form == Form::Mermaid {
            text.push_str(&format!("%% {}\n", scene.title));
        } else if scenes.len() > 1 {
            text.push_str(&format!("== {}\n", scene.title));
        }
        match question {
            Question::Packet(packet) => {
                let explained = explain(&scene.view, &scene.routing, packet);
                match form {
                    Form::Mermaid => text.push_str(&explained.mermaid()),
                    Form::Text | Form::Json => text.push_str(&explained.to_string()),
                }
                reports.push(explained.report());
            }
            Question::Matrix(cases) => {
                let own = cases.iter().filter(|case| case.family == scene.family);
                let cases: Vec<Case> = own.cloned().collect();
                text.push_str(&matrix(&scene.view, &scene.routing, &cases));
            }
        }
    }
    match (form, reports.as_slice()) {
        (Form::Text | Form::Mermaid, _) | (Form::Json, []) => report::text(&text),
        (Form::Json, [report]) => report::json(report),
        (Form::Json, reports) => report::json(&reports),
    }
}

fn of_capture(config: &CaptureConfig, family: Family, pod: &Pod) -> Scene {
    let rules = istio::rules(config, family);
    let routing = istio::routing(config);
    let routed = family == Family::V4 || routing.transparent_ipv6;
    let marks = routing.transparent.filter(|_| routed).map(|route| route.mark);
    Scene {
        title: family.to_string(),
        family,
        view: View::of_rules(rules.rules()),
        routing: Routing { local_marks: marks.into_iter().collect(), addresses: pod.addresses.clone() },
    }
}

fn from_save(file: &str, pod: &Pod) -> Result<Vec<Scene>, Box<dyn Error>> {
    let text = match file {
        "-" => io::read_to_string(io::stdin())?,
        path => fs::read_to_string(path).map_err(|error| format!("{path} can't be read: {error}"))?,
    };
    let mut scenes = Vec::new();
    for family in Family::BOTH {
        let listing =
            parse::listing(&text, family).map_err(|error| format!("{file} can't be read: {error}"))?;
        let routing = Routing { local_marks: handed_over(&listing), addresses: pod.addresses.clone() };
        let view = View::of_listing(listing);
        scenes.push(Scene { title: family.to_string(), family, view, routing });
    }
    Ok(scenes)
}

/// The marks of all TPROXY rules: a listing does not show policy rules, so they are taken to be there.
fn handed_over(listing: &Listing) -> Vec<Mark> {
    let mangle = listing.chains.iter().filter(|((table, _), _)| *table == Table::Mangle);
    let actions = mangle.flat_map(|(_, chain)| &chain.rules).map(|listed| listed.line.action());
    let marks = actions.filter_map(|action| match action {
        Action::Target(Target::Tproxy { mark, .. }) if mark.value != 0 => Some(mark),
        _ => None,
    });
    marks.collect()
}

/// The native table is there, and nobody knows what it says.
#[derive(Debug, thiserror::Error)]
#[error(
    "unknown: what becomes of the packet can't be told, because the table inet sidecar_init is here and is not what \
     these flags make; give the flags that it was set with (check tells the difference)"
)]
struct OtherTable;

fn from_kernel(raw: &Raw, run: &Run, pod: &Pod) -> Result<Vec<Scene>, Box<dyn Error>> {
    let mut kernel = Kernel::open(change::lock(run), istio::OWNERSHIP)?;
    let Snapshot { routes, native, .. } = kernel.read()?;
    let mut scenes = match &native {
        Some(image) => of_native(raw, image, &routes, pod)?,
        None => Vec::new(),
    };
    for family in Family::BOTH {
        let routing = live_routing(&routes, family, pod);
        let mut found = Vec::new();
        for variant in Variant::ALL {
            let listing = kernel.listing(variant, family)?.filter(Listing::holds_rules);
            found.extend(listing.map(|listing| (variant, listing)));
        }
        if found.len() + usize::from(native.is_some()) > 1 {
            let text = "rules are here by more than one backend, and a packet meets all; each is shown alone";
            tracing::warn!(target: "iptables", "{family}: {text}");
        }
        if found.is_empty() && native.is_none() {
            found.push((Variant::Nft, Listing::empty(family)));
        }
        scenes.extend(found.into_iter().map(|(variant, listing)| Scene {
            title: format!("{family}, {variant}"),
            family,
            view: View::of_listing(listing),
            routing: routing.clone(),
        }));
    }
    Ok(scenes)
}

/// The policy rules that are there.
fn live_routing(routes: &BTreeSet<route::Object>, family: Family, pod: &Pod) -> Routing {
    let of_family = if family == Family::V4 { route::Family::V4 } else { route::Family::V6 };
    let marks = routes.iter().filter_map(|object| match object {
        route::Object::Rule { family, mark, .. } if *family == of_family => Some(Mark::whole(*mark)),
        _ => None,
    });
    Routing { local_marks: marks.collect(), addresses: pod.addresses.clone() }
}

/// The rules that the flags describe, if the native table holds exactly those.
fn of_native(
    raw: &Raw,
    image: &Image,
    routes: &BTreeSet<route::Object>,
    pod: &Pod,
) -> Result<Vec<Scene>, Box<dyn Error>> {
    let resolved = run::resolve(raw, &System, Vec::new()).map_err(|_| OtherTable)?;
    let wanted = istio::nft_table(&resolved.capture).map(|table| Image::of(&table));
    if !differences(Some(image), wanted.as_ref()).is_empty() {
        return Err(OtherTable.into());
    }
    let scene = |family| {
        let scene = of_capture(&resolved.capture, family, pod);
        Scene { title: format!("{family}, nf_tables"), routing: live_routing(routes, family, pod), ..scene }
    };
    Ok(Family::BOTH.into_iter().map(scene).collect())
}

/// The pod's addresses, declared or asked for, and its proxy.
fn pod(raw: &Raw, config: Option<&CaptureConfig>, ask: bool) -> Pod {
    let declared = raw.get(Setting::PodIps).map(|given| {
        given.value.split(',').filter_map(|item| item.trim().parse().ok()).collect::<Vec<IpAddr>>()
    });
    let asked = || if ask { System.addresses().unwrap_or_default() } else { Vec::new() };
    let addresses = declared.unwrap_or_else(asked);
    let default = Uid::new(DEFAULT_PROXY).expect("the number is valid");
    let uid = config.and_then(|config| config.proxy_uids.first().copied()).unwrap_or(default);
    let gid = config.and_then(|config| config.proxy_gids.first().copied()).unwrap_or(Gid::from(default));
    let is_pods = |address: &IpAddr| match address {
        IpAddr::V4(address) => !address.is_loopback(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    };
    Pod { addresses: addresses.into_iter().filter(is_pods).collect(), proxy: (uid, gid) }
}

/// The proxy's user and group where no flag names them.
const DEFAULT_PROXY: u32 = 1337;

/// Application, proxy and outside, each with TCP, UDP and DNS, to the places that matter.
fn usual_cases(pod: &Pod, config: Option<&CaptureConfig>) -> Vec<Case> {
    let mut cases = Vec::new();
    for family in Family::BOTH {
        let own = pod.addresses.iter().copied().find(|address| Family::of(*address) == family);
        let Some(own) = own else { continue };
        for (who, sender) in [("app", Sender::App), ("proxy", Sender::Proxy), ("external", Sender::External)]
        {
            let kinds =
                [("tcp", Protocol::Tcp, 8080), ("udp", Protocol::Udp, 8080), ("dns", Protocol::Udp, 53)];
            for (what, protocol, port) in kinds {
                for (to, address) in places(family, own, config, what == "dns") {
                    let packet = address.and_then(|address| {
                        packet::usual(sender, pod, protocol, SocketAddr::new(address, port))
                    });
                    cases.push(Case { family, who, what, to, packet });
                }
            }
        }
    }
    cases
}

fn places(
    family: Family,
    own: IpAddr,
    config: Option<&CaptureConfig>,
    dns: bool,
) -> [(&'static str, Option<IpAddr>); 4] {
    let (loopback, nobody): (IpAddr, IpAddr) = match family {
        Family::V4 => (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::new(192, 0, 2, 10).into()),
        Family::V6 => (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 10).into()),
    };
    let first =
        |cidrs: &[rules::Cidr]| cidrs.iter().find(|cidr| cidr.family() == family).map(rules::Cidr::address);
    let included = config.and_then(|config| match &config.outbound_cidrs {
        OutboundCidrs::All => None,
        OutboundCidrs::Only(cidrs) => first(cidrs),
    });
    let server = config.and_then(|config| match &config.dns {
        DnsCapture::Servers(servers) if dns => servers.iter().copied().find(|s| Family::of(*s) == family),
        DnsCapture::Servers(_) | DnsCapture::Off | DnsCapture::All => None,
    });
    let excluded = config.and_then(|config| first(&config.excluded_cidrs));
    [
        ("pod ip", Some(own)),
        ("loopback", Some(loopback)),
        ("service", Some(server.or(included).unwrap_or(nobody))),
        ("excluded", excluded),
    ]
}
