//! The host's part: calls that get the probe address.

use crate::meshes::ambient::scene::Scene;
use crate::meshes::ambient::ztunnel::At;
use crate::support::address::Place;
use crate::support::namespace::{Namespace, join};
use crate::support::pod::APP;
use crate::support::program::{Run, binary};
use crate::support::setting::{Family, Variant};
use crate::support::traffic::{Call, Listener, Protocol, Socket};
use std::net::IpAddr;
use std::sync::mpsc::channel;

fn done(host: &Namespace, flags: &[&str]) {
    let path = host.path();
    let words = ["ambient-host", "--network-namespace", &path];
    binary(&words).args(flags).outcome().with(0, &flags.join(" "));
}

#[test]
fn host_calls_get_the_probe_address_and_forwarded_ones_do_not() {
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
        noted.try_recv().expect("an arrival").peer.ip()
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
fn probes_bypass_ztunnel_with_the_pod_rules() {
    for variant in [Variant::Native, Variant::Nft] {
        for family in Family::BOTH {
            let mut scene = Scene::new(variant, family, &[]);
            // Addresses on the host's `lo` are local; the probe address must not be one of them.
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
