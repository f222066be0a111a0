//! Hosts that the author of a Service may route. The operator writes VirtualServices with its own rights, and one applies to the
//! calls of the whole mesh, so that an administrator allows hosts outside of the Service's namespace.

use super::inventory::Service;
use super::syntax::is_domain;
use std::str::FromStr;

/// Hosts that every namespace may route: a name of DNS, `*.` and a name for all below it, or `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedHost(pub(crate) String);

impl FromStr for AllowedHost {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_valid = text == "*" || is_domain(text.strip_prefix("*.").unwrap_or(text));
        let expected =
            "expected a host such as shop.example.com, *.example.com for all below it, or * for all hosts";
        is_valid.then(|| Self(text.to_owned())).ok_or(expected)
    }
}

impl AllowedHost {
    fn allows(&self, host: &str) -> bool {
        self.0.strip_prefix('*').map_or(host == self.0, |end| host.ends_with(end))
    }
}

/// Permission of a Service to route a host: one of its namespace, or an allowed one.
pub(super) fn may_route(service: &Service, host: &str, allowed: &[AllowedHost]) -> bool {
    // `a.shop` may be a domain of the internet, and `a.shop.svc.example.com`, too.
    let is_own = match host.split('.').collect::<Vec<_>>()[..] {
        [name] => !name.contains('*'),
        [_, namespace, "svc"] | [_, namespace, "svc", "cluster", "local"] => namespace == service.namespace,
        _ => false,
    };
    is_own || allowed.iter().any(|pattern| pattern.allows(host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hosts_of_other_namespaces_need_permission() {
        let service =
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "cart", "namespace": "shop"}});
        let service = Service::read(&service, "").expect("a Service");
        for (host, allowed, expected) in [
            ("other", "", true),
            ("cart.shop.svc.cluster.local", "", true),
            ("*.shop.svc", "", true),
            ("cart.shop", "", false),
            ("cart.shop.svc.example.com", "", false),
            ("pay.bank.svc.cluster.local", "", false),
            ("*shop.svc.cluster.local", "", false),
            ("*", "", false),
            ("m.example", "m.example", true),
            ("*.m.example", "m.example", false),
            ("a.m.example", "*.m.example", true),
            ("*.m.example", "*.m.example", true),
            ("m.example", "*.m.example", false),
            ("*", "*", true),
        ] {
            let allowed: Vec<AllowedHost> = allowed.parse().into_iter().collect();
            assert_eq!(may_route(&service, host, &allowed), expected, "{host} {allowed:?}");
        }
        for text in ["", "*example.com", "a.*.example", "A.example", "a,b"] {
            assert!(text.parse::<AllowedHost>().is_err(), "{text}");
        }
    }
}
