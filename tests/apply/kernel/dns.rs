//! DNS capture: the application's queries go to the agent, the agent's queries go out to the resolver. Both may use the same
//! client port. Without separate conntrack zones, the second query would continue the first one's flow, and the agent would
//! answer itself.

use std::net::SocketAddr;

use crate::support::address::Place::Resolver;
use crate::support::address::{Place, RESOLVERS};
use crate::support::pod::{APP, Answerer, Pod, proxy_identity};
use crate::support::rows::rows;
use crate::support::setting::{Mode, Setting, in_each};
use crate::support::traffic::Protocol::Udp;
use crate::support::traffic::{Call, Identity};

rows! {
    queries_of_one_client_port_reach_agent_and_resolver: in_each(&Mode::BOTH, same_client_port);
}

const LISTED: [&str; 5] = ["-i", "*", "--redirect-dns", "--dns-servers", RESOLVERS];
const CLIENT_PORT: u16 = 40_000;

fn same_client_port(setting: Setting) {
    for zones in [&LISTED[..], &["--redirect-dns", "--capture-all-dns"][..]] {
        let pod = Pod::with(setting, zones);
        let proxy = proxy_identity(setting.mode);
        let answerers = [APP, proxy, APP, proxy].map(|identity| query(&pod, identity));
        let (agent, resolver) = (Answerer::Agent, Answerer::Destination);
        assert_eq!(answerers, [agent, resolver, agent, resolver], "{setting} {zones:?}\n{}", pod.rules());
    }
}

fn query(pod: &Pod, identity: Identity) -> Answerer {
    let family = pod.setting.family;
    pod.listen(Udp, Resolver, 53);
    let from = SocketAddr::new(Place::Pod.ip(family), CLIENT_PORT);
    let call = Call { protocol: Udp, identity, from: Some(from), mark: None, to: Resolver.at(family, 53) };
    let answered = call.place(&pod.inside);
    match (answered, pod.arrivals().as_slice()) {
        (Ok(_), [arrival]) => arrival.listener,
        (answered, arrivals) => {
            panic!("{identity:?} got {answered:?}, arrivals {arrivals:?}\n{}", pod.rules())
        }
    }
}
