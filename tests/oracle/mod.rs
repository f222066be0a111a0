//! The oracle: random foreign rules beside a mesh's rules, real packets, and the answers of `explain --live`, `status`, `diff`
//! and `clean`, compared with the real result. `unknown` is allowed. A false answer fails the test, is minimized and written as a
//! shell script that shows it without this program. `ORACLE_SECONDS` is the duration (60), `ORACLE_CASES` the maximum number of
//! configurations, `ORACLE_SEED` the seed, `ORACLE_JOBS` the number of threads (2), `ORACLE_KEEP` the number of false answers to
//! stop after (3). Needs the programs of the kernel tests; never skips.

use crate::support;
use crate::support::random;
use crate::support::random::number;

mod claims;
mod command;
mod configurations;
mod faults;
mod grammar;
mod iptables;
mod nft;
mod packets;
mod question;
mod routes;
mod scene;
mod script;

use claims::{False, Subject};
use configurations::Configuration;
use packets::Packet;
use random::Random;
use rules::simulate::Verdict;
use scene::{Disposition, Scene, Setup};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::pod::APP;
use support::setting::Family;
use support::traffic::{Identity, Protocol};

/// Packets in each scene; a scene costs more than a packet.
const PACKETS: usize = 40;
/// One packet in this many is also checked in the program's JSON.
const ASKED: usize = 8;
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct Tally {
    packets: u64,
    rules: u64,
    configurations: u64,
    refused: u64,
    captured: u64,
    passed: u64,
    dropped: u64,
    unknown: u64,
}

impl Tally {
    fn add(&mut self, scene: &Scene, dispositions: &[Disposition]) {
        self.configurations += 1;
        self.refused += u64::from(scene.refused.is_some());
        let commands = scene.setup.before.iter().chain(&scene.setup.after);
        self.rules += commands.filter(|command| command.is_rule()).count() as u64;
        self.packets += dispositions.len() as u64;
        for disposition in dispositions {
            *match disposition.predicted.verdict {
                Verdict::Redirect(_) | Verdict::Tproxy(_) => &mut self.captured,
                Verdict::Pass => &mut self.passed,
                Verdict::Drop => &mut self.dropped,
                Verdict::Unknown => &mut self.unknown,
            } += 1;
        }
    }

    fn printed(&self, seconds: f64) -> String {
        let Self { packets, rules, configurations, refused, captured, passed, dropped, unknown } = self;
        let share = 100.0 * *unknown as f64 / (*packets).max(1) as f64;
        format!(
            "oracle: {packets} packets, {rules} foreign rules, {configurations} configurations ({refused} refused); \
             captured {captured}, passed {passed}, dropped {dropped}, unknown {unknown} ({share:.1} %); {seconds:.0} seconds"
        )
    }
}

#[test]
fn answers_are_true() {
    let (seed, jobs) = (number("ORACLE_SEED", 1_u64), number("ORACLE_JOBS", 2));
    let limit = Duration::from_secs(number("ORACLE_SECONDS", 60));
    let (cases, keep) = (number("ORACLE_CASES", u64::MAX), number("ORACLE_KEEP", 3));
    let (start, next) = (Instant::now(), AtomicU64::new(0));
    let (tally, wrong) = (Mutex::new(Tally::default()), Mutex::new(Vec::<String>::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let case = next.fetch_add(1, Ordering::Relaxed);
                    let is_enough = wrong.lock().expect("no panic").len() as u64 >= keep;
                    if case >= cases || start.elapsed() >= limit || is_enough {
                        return;
                    }
                    let found = try_case(seed.wrapping_add(case), &tally);
                    wrong.lock().expect("no panic").extend(found);
                }
            });
        }
    });
    let printed = tally.lock().expect("no panic").printed(start.elapsed().as_secs_f64());
    // The only output of this test that is not captured.
    let _ = writeln!(std::io::stderr(), "{printed}");
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{printed}\n{} false answers:\n{}", wrong.len(), wrong.join("\n\n"));
}

fn try_case(seed: u64, tally: &Mutex<Tally>) -> Option<String> {
    let mut random = Random::new(seed.wrapping_mul(0x2545_F491_4F6C_DD1D));
    let setup = setup(&mut random);
    let mut scene = Scene::new(&setup);
    let packets = random_packets(&mut random, &setup.configuration);
    let dispositions = if scene.refused.is_some() { Vec::new() } else { scene.dispositions(&packets) };
    tally.lock().expect("no panic").add(&scene, &dispositions);
    let found = wrong(&mut scene, &dispositions, None)?;
    let setup = scene.setup.clone();
    drop(scene);
    // A result that is not reproduced is due to the machine or to earlier packets, so all packets are resent.
    let again = reproduce(&setup, &packets, found.subject);
    let (setup, found) = match again {
        Some(again) => smallest(setup, &packets, again),
        None => return None,
    };
    Some(printed(seed, &setup, &found))
}

fn setup(random: &mut Random) -> Setup {
    let configuration = Configuration::random(random);
    let backend = random.of(&["nftables", "nftables", "iptables-nft", "iptables-legacy"]);
    let before = grammar::foreign(random, "fb");
    let after = if random.one_in(2) { grammar::foreign(random, "fa") } else { Vec::new() };
    Setup { configuration, backend, before, after }
}

/// Packets from every party, including packets with which `status` checks its claims.
fn random_packets(random: &mut Random, configuration: &Configuration) -> Vec<Packet> {
    let (proxy, proxy_mark) = scene::proxy(&configuration.capture());
    let mut packets: Vec<Packet> = witnesses();
    packets.extend(question::usual(&configuration.capture()));
    while packets.len() < PACKETS {
        let family = random.of(&Family::BOTH);
        let is_inbound = random.one_in(3);
        let protocol = random.of(&[Protocol::Tcp, Protocol::Tcp, Protocol::Udp]);
        let other =
            Identity { uid: random.of(&[0, 1000, 1337, 2000]), gid: random.of(&[0, 1000, 1337, 2000]) };
        let is_proxy = random.one_in(5);
        let (identity, mark) = match is_inbound {
            true => (APP, 0),
            false if is_proxy => (proxy, proxy_mark),
            false if random.one_in(2) => (APP, random.of(&[0, 0, 0, 1, 0x111, 0x2000])),
            false => (other, 0),
        };
        let from = random.one_in(3).then(|| outside(family)).filter(|_| is_inbound);
        let ip = random.of(&question::destinations(family, is_inbound));
        let to = SocketAddr::new(ip, random.of(&grammar::PORTS));
        packets.push(Packet { protocol, is_inbound, identity, mark, from, to });
    }
    packets
}

fn outside(family: Family) -> std::net::IpAddr {
    if family == Family::V4 { [192, 0, 2, 1].into() } else { [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into() }
}

fn elsewhere(family: Family) -> std::net::IpAddr {
    match family {
        Family::V4 => [192, 0, 2, 10].into(),
        Family::V6 => [0x2001, 0xdb8, 0, 0, 0, 0, 0, 10].into(),
    }
}

/// A packet for each claim of `status` about all traffic: from the application, from outside, and a DNS query.
fn witnesses() -> Vec<Packet> {
    let of = |family: Family| {
        let elsewhere = elsewhere(family);
        let pod = support::address::Place::Pod.ip(family);
        let packet = |protocol, is_inbound, from, ip, port| Packet {
            protocol,
            is_inbound,
            identity: APP,
            mark: 0,
            from,
            to: SocketAddr::new(ip, port),
        };
        [
            packet(Protocol::Tcp, false, None, elsewhere, 8080),
            packet(Protocol::Tcp, true, Some(outside(family)), pod, 8080),
            packet(Protocol::Udp, false, None, elsewhere, 53),
        ]
    };
    Family::BOTH.into_iter().flat_map(of).collect()
}

fn is_witness(packet: &Packet) -> bool {
    witnesses().contains(packet)
}

/// A scene's first false answer, on one subject if given.
fn wrong(scene: &mut Scene, dispositions: &[Disposition], only: Option<Subject>) -> Option<False> {
    let is_meant = |subject: Subject| only.is_none_or(|only| only == subject);
    if is_meant(Subject::Explain)
        && let Some(disposition) =
            dispositions.iter().find(|disposition| !disposition.agrees(&disposition.predicted))
    {
        return Some(False {
            subject: Subject::Explain,
            text: scene.explanation(disposition),
            disposition: Some(disposition.clone()),
        });
    }
    if is_meant(Subject::Json) && !scene.has_routes() {
        let requested = dispositions.iter().skip(dispositions.len() % ASKED).step_by(ASKED);
        if let Some(found) = requested.filter_map(|disposition| json(scene, disposition)).next() {
            return Some(found);
        }
    }
    claims::all(scene, dispositions).into_iter().find(|found| is_meant(found.subject))
}

/// Compares program and library; `None` if they agree on a packet.
fn json(scene: &Scene, disposition: &Disposition) -> Option<False> {
    let answer = scene.explained(&disposition.packet, disposition.source);
    let (verdict, port) = match disposition.predicted.verdict {
        Verdict::Pass => ("not_captured", None),
        Verdict::Redirect(ports) => ("captured", Some(ports.first().number())),
        Verdict::Tproxy(port) => ("captured", Some(port.number())),
        Verdict::Drop => ("dropped", None),
        Verdict::Unknown => ("unknown", None),
    };
    let transparent = port.map(|_| matches!(disposition.predicted.verdict, Verdict::Tproxy(_)));
    let is_same = answer["verdict"] == verdict
        && answer["transparent"] == serde_json::Value::from(transparent)
        && answer["port"] == serde_json::Value::from(port);
    (!is_same).then(|| {
        let text = format!("explain --live answers {answer:#}\nand the library {verdict} {port:?}");
        False { subject: Subject::Json, text, disposition: Some(disposition.clone()) }
    })
}

fn reproduce(setup: &Setup, packets: &[Packet], subject: Subject) -> Option<False> {
    let mut scene = Scene::new(setup);
    let dispositions = if scene.refused.is_some() { Vec::new() } else { scene.dispositions(packets) };
    wrong(&mut scene, &dispositions, Some(subject))
}

/// Removes packets, commands and flags as long as the answer stays false.
fn smallest(mut setup: Setup, packets: &[Packet], mut found: False) -> (Setup, False) {
    let deadline = Instant::now() + TIMEOUT;
    let (subject, mut packets) = (found.subject, packets.to_vec());
    if let Some(disposition) = &found.disposition {
        let one = vec![disposition.packet.clone()];
        if let Some(same) = reproduce(&setup, &one, subject) {
            (packets, found) = (one, same);
        }
    } else if let Some(same) = reproduce(&setup, &[], subject) {
        (packets, found) = (Vec::new(), same);
    }
    let mut step = setup.before.len().max(setup.after.len()).div_ceil(2).max(1);
    loop {
        let (mut at, mut is_smaller) = (0, false);
        while at < setup.parts() && Instant::now() < deadline {
            let smaller = setup.without(at, step);
            match reproduce(&smaller, &packets, subject) {
                Some(same) => (setup, found, is_smaller) = (smaller, same, true),
                None => at += step,
            }
        }
        if step == 1 && !is_smaller || Instant::now() >= deadline {
            return (setup, found);
        }
        step = (step / 2).max(1);
    }
}

impl Setup {
    fn parts(&self) -> usize {
        self.before.len() + self.after.len() + self.configuration.flags.len()
    }

    fn without(&self, first: usize, count: usize) -> Self {
        let mut smaller = self.clone();
        let mut index = 0;
        let mut stays = || {
            index += 1;
            !(first + 1..=first + count).contains(&index)
        };
        smaller.before.retain(|_| stays());
        smaller.after.retain(|_| stays());
        smaller.configuration.flags.retain(|_| stays());
        smaller
    }
}

fn lands(disposition: &Disposition) -> String {
    format!("{:?} from {}\nlanded: {:?}", disposition.packet, disposition.source, disposition.landings)
}

fn printed(seed: u64, setup: &Setup, found: &False) -> String {
    let script = script::script(setup, &setup.configuration.capture(), found, seed);
    let path = format!("{}/oracle-{seed}.sh", env!("CARGO_TARGET_TMPDIR"));
    let place = match std::fs::write(&path, &script) {
        Ok(()) => format!("bash {path}"),
        Err(error) => format!("{path} can't be written: {error}"),
    };
    let disposition = found.disposition.as_ref().map(lands).unwrap_or_default();
    let commands = setup.before.iter().map(|command| format!("{command}\n"));
    let applied = format!("apply --backend={} {}\n", setup.backend, setup.configuration.words().join(" "));
    let commands = commands.chain([applied]).chain(setup.after.iter().map(|command| format!("{command}\n")));
    let commands: String = commands.collect();
    format!(
        "== ORACLE_SEED={seed} ORACLE_CASES=1: {:?}\n{commands}{}\n{disposition}\n{place}",
        found.subject, found.text
    )
}
