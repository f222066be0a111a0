//! The host's part: whose calls get the probe address, and what its table holds.

use crate::meshes::ambient::scene::Scene;
use crate::meshes::ambient::ztunnel::At;
use crate::support::address::Place;
use crate::support::namespace::{Namespace, join};
use crate::support::pod::APP;
use crate::support::program::{Outcome, Run, binary};
use crate::support::setting::{Family, Variant};
use crate::support::traffic::{Call, Listener, Protocol, Socket};
use std::net::IpAddr;
use std::sync::mpsc::channel;

fn run(host: &Namespace, flags: &[&str]) -> Outcome {
    let path = host.path();
    let words = ["ambient-host", "--network-namespace", &path];
    binary(&words).args(flags).outcome()
}

fn done(host: &Namespace, flags: &[&str]) -> serde_json::Value {
    let output = run(host, &[flags, &["--format", "json"]].concat()).with(0, &flags.join(" "));
    serde_json::from_str(&output.stdout).expect("JSON")
}

fn check(host: &Namespace, flags: &[&str], changed: bool, pods: &[&str]) {
    let printed = done(host, flags);
    assert_eq!(
        (&printed["changed"], &printed["pods"]),
        (&changed.into(), &pods.into()),
        "{flags:?}: {printed}"
    );
}

fn listing(host: &Namespace) -> String {
    host.stdout("nft", &["--stateless", "list", "ruleset"])
}

#[test]
fn the_hosts_own_calls_come_from_the_probe_address_and_forwarded_ones_keep_theirs() {
    const CLIENT: [&str; 2] = ["10.80.0.2", "fd80::2"];
    let (host, pod, client) = (Namespace::new(), Namespace::new(), Namespace::new());
    join((&pod, "eth0", ["10.77.0.2/24", "fd77::2/64"]), (&host, "pod0", ["10.77.0.1/24", "fd77::1/64"]));
    join((&client, "eth0", ["10.80.0.2/24", "fd80::2/64"]), (&host, "net0", ["10.80.0.1/24", "fd80::1/64"]));
    pod.ip("route add default via 10.77.0.1\nroute add default via fd77::1");
    client.ip("route add default via 10.80.0.1\nroute add default via fd80::1");
    host.set("ipv4/ip_forward", "1");
    host.set("ipv6/conf/all/forwarding", "1");
    let (note, noted) = channel();
    let sockets = Family::BOTH.map(|family| {
        let socket = Socket { protocol: Protocol::Tcp, address: Place::Pod.at(family, 8080), owner: APP };
        Listener::start(&pod, socket, (), note.clone())
    });
    let came_from = |from: &Namespace, family: Family| -> IpAddr {
        let to = Place::Pod.at(family, 8080);
        let call = Call { protocol: Protocol::Tcp, identity: APP, from: None, mark: None, to };
        call.place(from).unwrap_or_else(|error| panic!("{call:?}: {error}"));
        noted.try_recv().expect("it has arrived").peer.ip()
    };
    for family in Family::BOTH {
        let own: IpAddr = ["10.77.0.1", "fd77::1"][family as usize].parse().expect("an address");
        let forwarded: IpAddr = CLIENT[family as usize].parse().expect("an address");
        let pod = Place::Pod.ip(family).to_string();
        done(&host, &[]);
        assert_eq!(came_from(&host, family), own, "no pod of the mesh");
        done(&host, &["--add", &pod]);
        assert_eq!(came_from(&host, family), Place::Probe.ip(family));
        assert_eq!(came_from(&client, family), forwarded);
        done(&host, &["--probe-address", "169.254.9.9,fd16::9"]);
        let other: IpAddr = ["169.254.9.9", "fd16::9"][family as usize].parse().expect("an address");
        assert_eq!(came_from(&host, family), other);
        done(&host, &["--remove", &pod]);
        assert_eq!(came_from(&host, family), own);
        done(&host, &["--clean"]);
    }
    drop(sockets);
}

#[test]
fn with_the_pods_own_rules_probes_pass_ztunnel_by() {
    for variant in [Variant::Native, Variant::Nft] {
        for family in Family::BOTH {
            let mut scene = Scene::new(variant, family, &[]);
            // What is on the host's `lo` is its own; the address of probes must be nobody's.
            for address in [Place::Probe.ip(Family::V4), Place::Probe.ip(Family::V6)] {
                scene.outside.stdout("ip", &["addr", "del", &address.to_string(), "dev", "lo"]);
            }
            scene.listen(Protocol::Tcp, Place::Pod, 8080);
            let app = Place::Pod.at(family, 8080);
            let call = scene.call(Protocol::Tcp, Place::Pod, 8080);
            call.place(&scene.outside).expect("through ztunnel");
            let (given, _) = scene.outcome();
            assert_eq!(given.iter().map(|given| given.at).collect::<Vec<_>>(), [At::Inbound]);
            done(&scene.outside, &["--add", &Place::Pod.ip(family).to_string()]);
            call.place(&scene.outside).expect("straight");
            let expected = (Vec::new(), vec![(app, Place::Probe.ip(family))]);
            assert_eq!(scene.outcome(), expected, "{}", variant.backend());
        }
    }
}

#[test]
fn pods_come_and_go_as_often_as_one_likes() {
    let host = Namespace::new();
    check(&host, &[], true, &[]);
    check(&host, &[], false, &[]);
    check(&host, &["--add", "10.1.2.3,fd00::3"], true, &["10.1.2.3", "fd00::3"]);
    check(&host, &["--add", "10.1.2.3"], false, &["10.1.2.3", "fd00::3"]);
    check(&host, &["--remove", "10.9.9.9"], false, &["10.1.2.3", "fd00::3"]);
    let both = ["--add", "10.1.2.4", "--remove", "10.1.2.3,10.9.9.9"];
    check(&host, &both, true, &["10.1.2.4", "fd00::3"]);
    check(&host, &both, false, &["10.1.2.4", "fd00::3"]);
    let many: Vec<String> = (0..3_000).map(|n| format!("10.2.{}.{}", n / 250, n % 250 + 1)).collect();
    let printed = done(&host, &["--add", &many.join(",")]);
    assert_eq!(printed["pods"].as_array().map(Vec::len), Some(3_002));
    let printed = done(&host, &["--remove", &many.join(",")]);
    assert_eq!(printed["pods"].as_array().map(Vec::len), Some(2));
    check(&host, &["--clean"], true, &[]);
    check(&host, &["--clean"], false, &[]);
    assert_eq!(listing(&host), "");
}

/// Rules count on, as nobody touches them for a pod.
#[test]
fn a_pod_that_comes_leaves_the_rules_as_they_are() {
    let host = Namespace::new();
    done(&host, &[]);
    let handles = || {
        let listing = host.stdout("nft", &["-a", "list", "table", "inet", "sidecar_init_ambient_host"]);
        let rules = listing.lines().filter(|line| line.contains("snat")).map(str::to_owned);
        rules.collect::<Vec<String>>()
    };
    let before = handles();
    assert_eq!(before.len(), 2);
    done(&host, &["--add", "10.1.2.3"]);
    done(&host, &["--remove", "10.1.2.3"]);
    assert_eq!(handles(), before);
}

#[test]
fn what_somebody_has_changed_is_put_right_and_pods_stay() {
    let host = Namespace::new();
    done(&host, &["--add", "10.1.2.3,fd00::3", "--probe-address", "169.254.9.9"]);
    let right = listing(&host);
    let table = "inet sidecar_init_ambient_host";
    for change in [
        format!("flush chain {table} nat_POSTROUTING"),
        format!("add rule {table} nat_POSTROUTING counter"),
        format!("add chain {table} more"),
        format!("add table {table} {{ flags dormant; }}"),
    ] {
        host.stdout("nft", &[&change]);
        assert_ne!(listing(&host), right, "{change}");
        // Where the rules are gone, so is the address that they knew.
        check(&host, &["--probe-address", "169.254.9.9"], true, &["10.1.2.3", "fd00::3"]);
        assert_eq!(listing(&host), right, "{change}");
    }
}

#[test]
fn calls_at_the_same_time_lose_no_pod() {
    let host = Namespace::new();
    done(&host, &[]);
    std::thread::scope(|scope| {
        for n in 1..=12 {
            let host = &host;
            scope.spawn(move || done(host, &["--add", &format!("10.1.2.{n}")]));
        }
    });
    assert_eq!(done(&host, &[])["pods"].as_array().map(Vec::len), Some(12));
}
