//! Calls of proxy-init, and what is refused. The rules of each call are held in `tests/configurations`.

use super::*;
use crate::Setting;
use crate::registry::resolve;
use crate::sources::{NullHost, Raw};

fn raw(words: &[(Setting, &str)]) -> Raw {
    let flags = [(Setting::Mesh, "linkerd")].iter().chain(words);
    Raw::new(flags.map(|(setting, value)| (*setting, (*value).to_owned())), |_| true, |_| None)
}

fn configured(words: &[(Setting, &str)]) -> CaptureConfig {
    let resolved =
        resolve(&raw(words), &NullHost, Vec::new()).unwrap_or_else(|problems| panic!("{problems}"));
    match resolved.capture {
        Capture::Linkerd(config) => config,
        other => panic!("not linkerd's: {other:?}"),
    }
}

const PORTS: [(Setting, &str); 3] =
    [(Linkerd::IncomingProxyPort, "4143"), (Linkerd::OutgoingProxyPort, "4140"), (Linkerd::ProxyUid, "-1")];

const IN: &str = "-A PREROUTING -j R";
const OUT: &str = "-A OUTPUT -j O";
const LO: &str = "-A O -o lo -j RETURN";

/// The commands of a call without what all have: the table, and comments.
fn commands_of(words: &[(Setting, &str)], family: Family) -> Vec<String> {
    let words: Vec<_> = PORTS.iter().chain(words).copied().collect();
    let commands = commands(&configured(&words), family);
    let short = commands.iter().map(|command| {
        let command = command.strip_prefix("-t nat ").expect("the table");
        let command = command.split(" -m comment --comment proxy-init/").next().expect("a part");
        command.replace("PROXY_INIT_REDIRECT", "R").replace("PROXY_INIT_OUTPUT", "O")
    });
    short.collect()
}

#[test]
fn commands_are_those_of_proxy_init() {
    let (to_in, to_out) =
        ("-A R -p tcp -j REDIRECT --to-port 4143", "-A O -p tcp -j REDIRECT --to-port 4140");
    assert_eq!(commands_of(&[], Family::V4), ["-N R", to_in, IN, "-N O", LO, to_out, OUT]);
    let usual = [
        (Linkerd::ProxyUid, "2102"),
        (Linkerd::ProxyGid, "2102"),
        (Linkerd::InboundPortsToIgnore, "4190,4191,4567-4568"),
        (Linkerd::OutboundPortsToIgnore, "4567,4568"),
        (Linkerd::SubnetsToIgnore, "172.17.1.0/16"),
    ];
    let expected = [
        "-N R",
        "-A R -p tcp --match multiport --dports 4190,4191,4567:4568 -j RETURN",
        "-A R -p all -j RETURN -s 172.17.1.0/16",
        to_in,
        IN,
        "-N O",
        "-A O -m owner --uid-owner 2102 -j RETURN",
        "-A O -m owner --gid-owner 2102 -j RETURN",
        LO,
        "-A O -p tcp --match multiport --dports 4567,4568 -j RETURN",
        to_out,
        OUT,
    ];
    assert_eq!(commands_of(&usual, Family::V4), expected);
    let of_v6: Vec<&str> = expected.into_iter().filter(|line| !line.contains("172.17")).collect();
    assert_eq!(commands_of(&usual, Family::V6), of_v6);
    let port = "-A R -p tcp --destination-port 80 -j REDIRECT --to-port 4143";
    assert_eq!(commands_of(&[(Linkerd::PortsToRedirect, "80")], Family::V4)[1], port);
    let whole = commands(&configured(&usual), Family::V4);
    assert_eq!(
        whole[2],
        "-t nat -A PROXY_INIT_REDIRECT -p all -j RETURN -s 172.17.1.0/16 -m comment --comment \
         proxy-init/ignore-subnet-172.17.1.0/16"
    );
}

#[test]
fn ports_without_a_default_are_missing_where_they_are_not_given() {
    let missing = |words: &[(Setting, &str)]| super::missing(&raw(words)).collect::<Vec<_>>();
    assert_eq!(missing(&[]), [Linkerd::IncomingProxyPort, Linkerd::OutgoingProxyPort]);
    assert_eq!(missing(&[(Linkerd::IncomingProxyPort, "1")]), [Linkerd::OutgoingProxyPort]);
    assert_eq!(missing(&[(Linkerd::IncomingProxyPort, "1"), (Linkerd::OutgoingProxyPort, "2")]), []);
}
