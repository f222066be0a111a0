//! What the pod says to itself. The application talks to itself directly; what the proxy sends to the pod's
//! own address is a call that has to come in again through the inbound port; what it sends from 127.0.0.6 or
//! ::6 is a delivery, which must not come in again.
//!
//! The modes differ for a proxy that is known by its group alone, and at ports 15008 and 53, since TPROXY has
//! rules of its own in mangle that know no exception but 127.0.0.6 and ::6.

use crate::support::address::Place::{Loopback, Pod, PodSecondNic, Six};
use crate::support::case::Caller::{App, Proxy, ProxyFromSix, ProxyGroup, ProxyUser};
use crate::support::case::Landing::{Inbound, Passes};
use crate::support::case::{Landing, check};
use crate::support::configurations::RESOLVERS;
use crate::support::pod;
use crate::support::setting::{Family, Mode, Setting, Variant, in_every_setting};
use crate::support::traffic::Protocol::Tcp;

in_every_setting! {
    application_to_itself,
    proxy_to_the_application,
    with_dns_capture,
}

const EVERYTHING: [&str; 4] = ["-i", "*", "-b", "*"];

fn application_to_itself(setting: Setting) {
    let pod = pod::Pod::with(setting, &EVERYTHING);
    check(
        &pod,
        &[
            (App, Tcp, Loopback, 8080, Passes),
            (App, Tcp, Six, 8080, Passes),
            (App, Tcp, Pod, 8080, Passes),
            (App, Tcp, PodSecondNic, 8080, Passes),
        ],
    );
}

fn proxy_to_the_application(setting: Setting) {
    let pod = pod::Pod::with(setting, &EVERYTHING);
    check(
        &pod,
        &[
            (Proxy, Tcp, Loopback, 8080, Passes),
            (Proxy, Tcp, Six, 8080, to_six(setting.family)),
            (Proxy, Tcp, Pod, 8080, Inbound),
            (Proxy, Tcp, PodSecondNic, 8080, Inbound),
            (Proxy, Tcp, Pod, 15008, only_with_tproxy(setting.mode)),
            (ProxyFromSix, Tcp, Pod, 8080, Passes),
            (ProxyFromSix, Tcp, Loopback, 8080, Passes),
            (ProxyUser, Tcp, Pod, 8080, Inbound),
            // In nat the rules for the user come first and take whoever is not that user for the application.
            (ProxyGroup, Tcp, Pod, 8080, only_with_tproxy(setting.mode)),
        ],
    );
}

/// A call to ::6 comes from ::6 too, so it counts as a delivery; one to 127.0.0.6 comes from 127.0.0.1.
fn to_six(family: Family) -> Landing {
    match family {
        Family::V4 => Inbound,
        Family::V6 => Passes,
    }
}

fn only_with_tproxy(mode: Mode) -> Landing {
    match mode {
        Mode::Redirect => Passes,
        Mode::Tproxy => Inbound,
    }
}

fn with_dns_capture(setting: Setting) {
    let flags = ["--redirect-dns", "--dns-servers", RESOLVERS];
    let pod = pod::Pod::with(setting, &[&EVERYTHING[..], &flags[..]].concat());
    check(
        &pod,
        &[
            (App, Tcp, Pod, 8080, Passes),
            (App, Tcp, Loopback, 8080, Passes),
            (App, Tcp, Loopback, 53, Passes),
            (Proxy, Tcp, Pod, 8080, Inbound),
            (Proxy, Tcp, Pod, 53, only_with_tproxy(setting.mode)),
            (ProxyFromSix, Tcp, Pod, 8080, Passes),
        ],
    );
}

/// An address that is added without a word about duplicate address detection can't be bound for a moment,
/// which is when the proxy starts.
#[test]
fn six_is_usable_at_once() {
    let setting = Setting { variant: Variant::Nft, family: Family::V6, mode: Mode::Redirect };
    let pod = pod::Pod::with(setting, &EVERYTHING);
    let addresses = pod.inside.stdout("ip", &["-6", "addr", "show", "to", "::6/128"]);
    assert!(addresses.contains(" nodad "), "{addresses}");
}
