//! TPROXY: the proxy sees the client's address, and delivers to the application from that address.

use std::net::SocketAddr;

use crate::support::address::Place;
use crate::support::pod::{APP, Answerer, Pod, proxy_identity};
use crate::support::rows::rows;
use crate::support::setting::{Mode, Setting, in_each};
use crate::support::traffic::Protocol::Tcp;
use crate::support::traffic::{Arrival, Call};

rows! {
    the_proxy_sees_the_client_s_address: in_each(&[Mode::Tproxy], client_address_is_preserved);
    the_application_is_called_under_it: in_each(&[Mode::Tproxy], delivery_under_the_client_address);
}

const EVERYTHING: [&str; 4] = ["-i", "*", "-b", "*"];
const MARK: u32 = 1337;

fn client_address_is_preserved(setting: Setting) {
    for more in [&[][..], &["-t", "4711", "-r", "77"]] {
        let pod = Pod::with(setting, &[&EVERYTHING, more].concat());
        let client = Place::Service.at(setting.family, 50_123);
        assert_eq!(call_from_outside(&pod, client), tproxied(client, Place::Pod.at(setting.family, 8080)));
    }
}

fn delivery_under_the_client_address(setting: Setting) {
    let pod = Pod::with(setting, &EVERYTHING);
    let (client, to) = (Place::Service.at(setting.family, 50_123), Place::Pod.at(setting.family, 8080));
    pod.listen(Tcp, Place::Pod, 8080);
    let identity = proxy_identity(setting.mode);
    let call = Call { protocol: Tcp, identity, from: Some(client), mark: Some(MARK), to };
    let answered = call.place(&pod.inside);
    let arrivals = pod.arrivals();
    let [arrival] = arrivals.as_slice() else {
        panic!("{setting}: the proxy got {answered:?}, arrivals {arrivals:?}\n{}", pod.rules());
    };
    assert_eq!((arrival.listener, arrival.peer, arrival.local), (Answerer::Destination, client, to));
    assert_eq!(answered.expect("the application's answer finds the proxy"), client, "{}", pod.rules());
}

fn call_from_outside(pod: &Pod, client: SocketAddr) -> Vec<Arrival<Answerer>> {
    let to = Place::Pod.at(pod.setting.family, 8080);
    let call = Call { protocol: Tcp, identity: APP, from: Some(client), mark: None, to };
    let answered = call.place(&pod.outside);
    assert!(answered.is_ok(), "{}: the client got {answered:?}\n{}", pod.setting, pod.rules());
    pod.arrivals()
}

fn tproxied(client: SocketAddr, to: SocketAddr) -> Vec<Arrival<Answerer>> {
    vec![Arrival { listener: Answerer::Inbound, peer: client, local: to, original: Some(to) }]
}
