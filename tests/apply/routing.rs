//! Policy rules and routes of others, in the place of ours or beside it.

use crate::apply::stage::{FULL, VARIANTS, call, routing, same};
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::scope;
use crate::support::setting::Variant;

/// What resembles ours does not count for ours: each selector and the type of a route matter.
#[test]
fn what_only_resembles_ours_is_not_taken_for_it() {
    let rules = [
        "fwmark 1337/0xff lookup 133",
        "from 10.0.0.0/8 fwmark 1337 lookup 133",
        "not fwmark 1337 lookup 133",
        "iif eth9 fwmark 1337 lookup 133",
        "fwmark 1337 uidrange 5-6 lookup 133",
    ];
    for rule in scope::of(rules.to_vec(), 2) {
        let namespace = Namespace::new();
        // Before ours, where the kernel finds it first when it is asked for ours.
        namespace.ip(&format!("rule add pref 50 {rule} protocol 137"));
        run(&namespace, &call("diff", Variant::Nft, FULL)).with(3, rule);
        succeed(&namespace, &call("apply", Variant::Nft, FULL));
        run(&namespace, &call("diff", Variant::Nft, FULL)).with(0, rule);
        assert!(namespace.stdout("ip", &["rule", "show"]).contains("fwmark 0x539 lookup 133"), "{rule}");
        settles_and_is_named(&namespace, "policy rule of preference");
    }
}

/// A second `apply` has nothing to do, and `clean` leaves and names what carries our protocol and is not ours.
#[track_caller]
fn settles_and_is_named(namespace: &Namespace, what: &str) {
    let printed =
        succeed(namespace, &[&call("apply", Variant::Nft, FULL)[..], &["--format", "json"]].concat());
    assert!(printed.stdout.contains("\"changed\": false"), "{}", printed.stdout);
    for _ in 0..2 {
        let printed = run(namespace, &["clean"]).with(1, "clean").stderr;
        assert!(printed.contains(what) && printed.contains("of routing protocol 137"), "{printed}");
    }
    let left = namespace.stdout("ip", &["-d", "rule", "show"]) + &routing(namespace);
    assert!(left.contains("proto 137"), "{left}");
    assert!(!left.contains(":\tfrom all fwmark 0x539 lookup 133"), "{left}");
}

/// The same at another place of the order is ours as well, as often as it stands there.
#[test]
fn a_policy_rule_of_ours_with_a_preference_is_a_copy() {
    let namespace = Namespace::new();
    let before = routing(&namespace);
    namespace.ip("rule add pref 100 fwmark 1337 lookup 133 protocol 137\nrule add pref 101 fwmark 1337 lookup 133 protocol 137");
    run(&namespace, &call("diff", Variant::Nft, FULL)).with(3, "two of them");
    succeed(&namespace, &call("apply", Variant::Nft, FULL));
    run(&namespace, &call("diff", Variant::Nft, FULL)).with(0, "settled");
    succeed(&namespace, &["clean"]);
    same(&before, &routing(&namespace), "clean");
}

/// A route of our protocol number elsewhere kept `apply` at work for ever.
#[test]
fn a_route_elsewhere_is_no_concern() {
    for route in ["default dev lo", "local 10.9.0.0/16 dev lo table 133", "local default dev lo table main"] {
        let namespace = Namespace::new();
        namespace.ip(&format!("route add {route} protocol 137"));
        succeed(&namespace, &call("apply", Variant::Nft, FULL));
        let printed =
            succeed(&namespace, &[&call("apply", Variant::Nft, FULL)[..], &["--format", "json"]].concat());
        assert!(printed.stdout.contains("\"changed\": false"), "{route}: {}", printed.stdout);
        settles_and_is_named(&namespace, "route in table");
    }
}

/// The kernel says that a default route is there, whatever it does with packets.
#[test]
fn another_route_in_the_place_of_ours_is_an_error() {
    for variant in VARIANTS {
        let namespace = Namespace::new();
        namespace.ip("route add unreachable default table 133");
        let before = routing(&namespace);
        let printed =
            run(&namespace, &call("apply", variant, FULL)).with(1, "another route is in the way").stderr;
        assert!(printed.contains("table 133") && printed.contains("is in its place"), "{printed}");
        same(&before, &routing(&namespace), "a failed run changed something");
    }
}

/// What others have set up for marks of their own serves as well, and stays when ours goes. Whether upstream made it,
/// nothing tells.
#[test]
fn the_same_of_others_serves_as_well() {
    let flags = &[FULL, &["-t", "7", "-r", "77"]].concat();
    for command in ["apply", "istio-iptables"] {
        let namespace = Namespace::new();
        namespace.ip("route add local default dev lo table 77");
        namespace.ip("rule add fwmark 7 lookup 77");
        let before = routing(&namespace);
        succeed(&namespace, &call(command, Variant::Nft, flags));
        run(&namespace, &call("diff", Variant::Nft, flags)).with(0, "with a route of others");
        let rules = namespace.stdout("ip", &["-4", "rule", "show"]);
        assert_eq!(rules.matches("lookup 77").count(), 1, "{rules}");
        let printed = succeed(&namespace, &["explain", "--live", "--pod-ips", "10.77.0.2", "8080"]).stdout;
        assert!(
            printed.contains("captured: handed unchanged to the proxy's inbound port 15006"),
            "{printed}"
        );
        let printed = run(&namespace, &["clean"]).with(1, "what may be anybody's").stderr;
        assert!(printed.contains("policy rule fwmark 7 lookup 77"), "{printed}");
        same(&before, &routing(&namespace), "what others made");
    }
}
