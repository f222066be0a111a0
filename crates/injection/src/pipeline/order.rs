//! The order of containers, which is the order in which they start.

use super::pod::{CheckedPod, PodSpecItem, PodSpecList};
use crate::sidecar::{INIT, PROXY, VALIDATION};
use serde_json::Value;
use std::collections::BTreeMap;

/// The init container of older templates that lets the proxy dump its core.
const CORE_DUMP: &str = "enable-core-dump";

/// The proxy comes after the application's containers, so that `kubectl exec` goes to those, or before them if they wait for it. The
/// validation of a plugin's rules comes before all others; a container that sets rules comes after them, so that they are not
/// captured before the proxy runs. Where the proxy starts among them, both come before it, and it before the rest. `hold` counts for
/// every kind of proxy: a template may have it among the containers though it would be a native sidecar.
pub(super) fn arrange(pod: &mut CheckedPod, hold: bool) {
    let containers = pod.items_mut(PodSpecList::Containers);
    if hold {
        first(containers, PROXY);
    } else {
        last(containers, PROXY);
    }
    let starting = pod.items_mut(PodSpecList::InitContainers);
    if starting.iter().any(|container| container.name() == PROXY) {
        for name in [CORE_DUMP, PROXY, VALIDATION, INIT] {
            first(starting, name);
        }
    } else {
        first(starting, VALIDATION);
        last(starting, INIT);
        last(starting, CORE_DUMP);
    }
}

fn first(items: &mut [Value], name: &str) {
    items.sort_by_key(|item| item.name() != name);
}

fn last(items: &mut [Value], name: &str) {
    items.sort_by_key(|item| item.name() == name);
}

/// Brings the items that are also among the others into their order. The rest stays where it is.
pub(super) fn as_in(others: &[Value], items: &mut [Value]) {
    // Reversed, so that of two with one name the first one counts.
    let places: BTreeMap<&str, usize> =
        others.iter().enumerate().rev().map(|(at, other)| (other.name(), at)).collect();
    let place = |item: &Value| places.get(item.name()).copied();
    let slots: Vec<usize> = (0..items.len()).filter(|at| place(&items[*at]).is_some()).collect();
    let mut known: Vec<Value> = slots.iter().map(|at| items[*at].clone()).collect();
    known.sort_by_key(place);
    for (at, item) in slots.into_iter().zip(known) {
        items[at] = item;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(native: bool, hold: bool, containers: &str, expected: &str) {
        let list = if native { PodSpecList::InitContainers } else { PodSpecList::Containers };
        let mut pod = CheckedPod::default();
        let items =
            |names: &str| names.split_whitespace().map(|name| json!({"name": name})).collect::<Vec<_>>();
        pod.edit(list, |list| *list = items(containers));
        arrange(&mut pod, hold);
        assert_eq!(pod.items(list), items(expected));
    }

    #[test]
    fn who_starts_before_whom() {
        check(false, false, "a istio-proxy b", "a b istio-proxy");
        check(false, true, "a istio-proxy b", "istio-proxy a b");
        check(true, false, "a istio-init b", "a b istio-init");
        check(true, false, "a istio-init b istio-validation", "istio-validation a b istio-init");
        check(true, true, "a istio-proxy istio-init b", "istio-init istio-proxy a b");
        check(true, false, "enable-core-dump a istio-init b", "a b istio-init enable-core-dump");
        check(true, false, "a enable-core-dump istio-proxy", "istio-proxy enable-core-dump a");
        check(true, false, "a istio-validation istio-proxy", "istio-validation istio-proxy a");
    }

    #[test]
    fn an_order_is_taken_over() {
        let items = |names: &str| -> Vec<Value> {
            names.chars().map(|name| json!({"name": name.to_string()})).collect()
        };
        let mut found = items("xabyc");
        as_in(&items("cab"), &mut found);
        assert_eq!(found, items("xcayb"));
        let mut found = items("bca");
        as_in(&items("acba"), &mut found);
        assert_eq!(found, items("acb"));
    }
}
