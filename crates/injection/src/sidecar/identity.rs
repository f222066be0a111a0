//! The users and groups of the proxy and the init container, and the number that identifies the proxy to the rules.

use super::{InitMode, Mode, annotations::Annotations};
use crate::{admission::Namespace, pipeline::pod::PodSpecItem};
use mesh::{InputProblem, istio::defaults::PROXY_ID, settings::mapping::PROXY};
use serde_json::Value;

/// The namespace's annotation with OpenShift's user range for its pods.
pub(crate) const OPENSHIFT_USERS: &str = "openshift.io/sa.scc.uid-range";
const OPENSHIFT_GROUPS: &str = "openshift.io/sa.scc.supplemental-groups";

/// The API's maximum of a user or group number.
const MAX_ID: u32 = i32::MAX.unsigned_abs();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub user: i64,
    pub group: i64,
}

#[derive(Clone, Copy, Debug)]
pub struct Identities {
    /// `ProxyUID` and `ProxyGID` of Go templates: 1337, or the end of an OpenShift namespace's range.
    pub of_namespace: Identity,
    /// The proxy's identity: root if the mode or low ports require it, else from the pod's container istio-proxy.
    pub proxy: Identity,
    pub init: Identity,
    /// The value of `-u`. Without `-g`, the rules use it for the proxy's group too.
    pub(super) known_by: i64,
}

pub(super) fn identities(
    annotations: &mut Annotations<'_>,
    pod: &Value,
    namespace: &Namespace,
    (mode, init): (Mode, InitMode),
    binds_low_ports: bool,
) -> Identities {
    let Annotations { problems, warnings, .. } = annotations;
    let default = i64::from(PROXY_ID);
    let mut range = |name: &str| {
        let text = namespace.annotations.get(name)?;
        let last = last_of(text);
        if last.is_none() {
            warnings.push(format!(
                "the namespace's annotation {name} is {text:?}, which is not a range such as 1000620000/10000, and has no effect"
            ));
        }
        last
    };
    let users = range(OPENSHIFT_USERS);
    let groups =
        if namespace.annotations.contains_key(OPENSHIFT_GROUPS) { range(OPENSHIFT_GROUPS) } else { users };
    let of_namespace = Identity { user: users.unwrap_or(default), group: groups.unwrap_or(default) };
    let tproxy = mode == Mode::Tproxy;
    let mut proxy = match tproxy || binds_low_ports {
        true => Identity { user: 0, group: default },
        false => of_namespace,
    };
    let (user, group) = (own(pod, "runAsUser", problems), own(pod, "runAsGroup", problems));
    // Transparent sockets require root: the author's user is ignored.
    if !tproxy {
        proxy.user = user.unwrap_or(proxy.user);
    }
    proxy.group = group.unwrap_or(proxy.group);
    // The application's root must not count as the proxy: a proxy that is root is identified by its group, and `-u` is never 0.
    let otherwise = if tproxy || binds_low_ports { default } else { of_namespace.user };
    let known_by = [proxy.user, proxy.group].into_iter().find(|id| *id != 0).unwrap_or(otherwise);
    let init = match init {
        InitMode::Capture | InitMode::Nothing => Identity { user: 0, group: 0 },
        // Validation connections must look like the proxy's.
        InitMode::Validation => Identity { user: known_by, group: proxy.group },
    };
    Identities { of_namespace, proxy, init, known_by }
}

fn own(pod: &Value, field: &str, problems: &mut Vec<InputProblem>) -> Option<i64> {
    let mut containers = ["containers", "initContainers"].iter().flat_map(|list| pod["spec"].list(list));
    let proxy = containers.find(|container| container.name() == PROXY)?;
    let value = Some(&proxy["securityContext"][field]).filter(|value| !value.is_null())?;
    let number = value.as_i64().filter(|number| (0..=i64::from(MAX_ID)).contains(number));
    if number.is_none() {
        let name = format!("container {PROXY}: securityContext.{field}");
        let text = "is not a user or group number; expected one from 0 to 2147483647";
        problems.push(InputProblem::with_item(&name, &value.to_string(), text));
    }
    number
}

/// The last number of the first range, `START/COUNT` or `START-END`, in a comma-separated list.
fn last_of(text: &str) -> Option<i64> {
    let first = text.split(',').next()?.trim();
    let number = |text: &str| text.parse::<u32>().ok();
    let last = match (first.split_once('/'), first.split_once('-')) {
        (Some((start, count)), _) => number(start)?.checked_add(number(count)?.checked_sub(1)?)?,
        (None, Some((start, end))) => {
            number(end).filter(|end| number(start).is_some_and(|start| start <= *end))?
        }
        (None, None) => return None,
    };
    (last <= MAX_ID).then_some(i64::from(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Input: the author's security context and the namespace's range; result: `-u`, proxy and validation identities.
    fn check(
        mode: Mode,
        low: bool,
        own: &Value,
        range: Option<&str>,
        expected: (i64, (i64, i64), (i64, i64)),
    ) {
        let pod = json!({"spec": {"containers": [{"name": PROXY, "securityContext": own}]}});
        let annotations =
            range.map(|range| (OPENSHIFT_USERS.to_owned(), range.to_owned())).into_iter().collect();
        let namespace = Namespace { annotations, ..Namespace::default() };
        let mut annotations = Annotations::of(&pod);
        let found = identities(&mut annotations, &pod, &namespace, (mode, InitMode::Validation), low);
        let [proxy, init] = [found.proxy, found.init].map(|one| (one.user, one.group));
        assert_eq!((found.known_by, proxy, init), expected, "{mode:?} {own} {range:?}");
        assert_eq!((annotations.problems, annotations.warnings), (Vec::new(), Vec::<String>::new()));
    }

    #[test]
    fn the_rules_identify_the_proxy_by_its_user_or_group() {
        use Mode::{Redirect, Tproxy};
        let none = json!({});
        check(Redirect, false, &none, None, (1337, (1337, 1337), (1337, 1337)));
        check(Redirect, false, &none, Some("1000/10"), (1009, (1009, 1009), (1009, 1009)));
        check(Redirect, false, &none, Some("1000-1005"), (1005, (1005, 1005), (1005, 1005)));
        check(Redirect, false, &json!({"runAsUser": 7}), None, (7, (7, 1337), (7, 1337)));
        check(Redirect, false, &json!({"runAsUser": 0}), None, (1337, (0, 1337), (1337, 1337)));
        let root = json!({"runAsUser": 0, "runAsGroup": 0});
        check(Redirect, false, &root, None, (1337, (0, 0), (1337, 0)));
        check(Redirect, false, &root, Some("1000/10"), (1009, (0, 0), (1009, 0)));
        check(Redirect, true, &none, Some("1000/10"), (1337, (0, 1337), (1337, 1337)));
        check(Tproxy, false, &none, Some("1000/10"), (1337, (0, 1337), (1337, 1337)));
        check(Tproxy, false, &json!({"runAsUser": 7}), None, (1337, (0, 1337), (1337, 1337)));
        check(Tproxy, false, &json!({"runAsUser": 7, "runAsGroup": 8}), None, (8, (0, 8), (8, 8)));
    }

    #[test]
    fn ranges_of_openshift() {
        assert_eq!(last_of("1000620000/10000"), Some(1_000_629_999));
        assert_eq!(last_of("5-9,20-30"), Some(9));
        for bad in ["", "5", "9-5", "5/0", "a/b", "-1/3", "4294967295/2", "2147483648-2147483649"] {
            assert_eq!(last_of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn invalid_ranges_and_numbers_are_reported() {
        let determined = |annotations: &[(&str, &str)], context: Value| {
            let native = json!({"name": PROXY, "securityContext": context});
            let pod = json!({"spec": {"containers": [{"name": "a"}], "initContainers": [native]}});
            let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let namespace = Namespace { annotations: annotations.collect(), ..Namespace::default() };
            let mut annotations = Annotations::of(&pod);
            let modes = (Mode::Redirect, InitMode::Capture);
            let found = identities(&mut annotations, &pod, &namespace, modes, false);
            let Annotations { problems, warnings, .. } = annotations;
            assert_eq!((found.init.user, found.init.group), (0, 0), "setting rules requires root");
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let [of_namespace, proxy] = [found.of_namespace, found.proxy].map(|one| (one.user, one.group));
            (of_namespace, proxy, problems, warnings)
        };
        let none = || json!({});
        let warning = |name: &str| {
            format!(
                "the namespace's annotation {name} is \"5\", which is not a range such as 1000620000/10000, and has no effect"
            )
        };
        let sound = |of_namespace, proxy| (of_namespace, proxy, vec![], vec![]);
        let both = [(OPENSHIFT_USERS, "10/5"), (OPENSHIFT_GROUPS, "20/5")];
        assert_eq!(determined(&both, none()), sound((14, 24), (14, 24)));
        assert_eq!(determined(&both[..1], none()), sound((14, 14), (14, 14)));
        assert_eq!(determined(&both[1..], none()), sound((1337, 24), (1337, 24)));
        assert_eq!(
            determined(&[(OPENSHIFT_USERS, "10/5"), (OPENSHIFT_GROUPS, "5")], none()),
            ((14, 1337), (14, 1337), vec![], vec![warning(OPENSHIFT_GROUPS)])
        );
        assert_eq!(
            determined(&[(OPENSHIFT_USERS, "5")], none()),
            ((1337, 1337), (1337, 1337), vec![], vec![warning(OPENSHIFT_USERS)])
        );
        assert_eq!(
            determined(&[], json!({"runAsUser": 2_147_483_647, "runAsGroup": null})),
            sound((1337, 1337), (2_147_483_647, 1337))
        );
        let problem = |field: &str, value: &str| {
            format!(
                "container istio-proxy: securityContext.{field}: {value:?} is not a user or group number; expected one from 0 \
                 to 2147483647"
            )
        };
        assert_eq!(
            determined(&[], json!({"runAsUser": 2_147_483_648_i64, "runAsGroup": -1})).2,
            [problem("runAsUser", "2147483648"), problem("runAsGroup", "-1")]
        );
        assert_eq!(determined(&[], json!({"runAsUser": 1.5})).2, [problem("runAsUser", "1.5")]);
    }
}
