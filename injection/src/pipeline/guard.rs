//! The last look at an injected pod: what its init container says is read as everybody else reads it, by the policy, and has
//! to be what was meant.

use super::PROXY;
use super::pod::{Item, List, Pod};
use crate::sidecar::{Mode, Sidecar};
use policy::istio::CaptureConfig;
use policy::pod::{Way, objects, read};
use policy::{Host, Problem, Problems};
use serde_json::{Map, Value, json};
use std::io;
use std::net::{IpAddr, Ipv4Addr};

/// How strictly an injected pod is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    /// All of it comes from declared templates, so that whatever is wrong is an error.
    Declared,
    /// Somebody's own template or container has part in it: he may have his reasons.
    Own,
}

/// A pod has no address before it runs. What it will capture does not hang on which one it gets, so that one for documentation
/// (RFC 5737) stands for it.
struct Somewhere;

impl Host for Somewhere {
    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(vec![Ipv4Addr::new(192, 0, 2, 1).into()])
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }
}

/// Looks at it. Returns warnings.
///
/// # Errors
/// What is wrong, if all of it comes from declared templates.
pub(super) fn check(
    pod: &Pod,
    overlay: &Pod,
    own: &Pod,
    sidecar: &Sidecar,
    strictness: Strictness,
) -> Result<Vec<String>, Problems> {
    let injected: Vec<&Item> = pod
        .items(List::InitContainers)
        .iter()
        .filter(|container| overlay.item(List::InitContainers, container.name()).is_some())
        .collect();
    let by_user = injected
        .iter()
        .any(|container| own.container(container.name()).is_some_and(|_| container.name() != PROXY));
    let strictness = if by_user { Strictness::Own } else { strictness };
    let found = match capture(pod, &injected) {
        Ok(Some((name, capture))) => faults(pod, own, sidecar, &name, &injected, &capture),
        Ok(None) => Vec::new(),
        Err(problems) => problems.0,
    };
    match strictness {
        Strictness::Declared if !found.is_empty() => Err(Problems(found)),
        Strictness::Declared | Strictness::Own => Ok(found.iter().map(ToString::to_string).collect()),
    }
}

/// What the injected init container captures, and its name; `None` where none of them sets or checks rules.
fn capture(pod: &Pod, starting: &[&Item]) -> Result<Option<(String, CaptureConfig)>, Problems> {
    let fields = ["name", "command", "args", "env", "envFrom", "securityContext"];
    let known = |container: &Item| {
        let fields =
            fields.iter().filter_map(|field| Some(((*field).to_owned(), container.0.get(*field)?.clone())));
        Value::Object(fields.collect::<Map<_, _>>())
    };
    // What others of the pod's containers say is nobody's business here.
    let proxy: Vec<Value> = pod.container(PROXY).map(|(_, proxy)| known(proxy)).into_iter().collect();
    let starting: Vec<Value> = starting
        .iter()
        .filter(|container| container.name() != PROXY)
        .map(|container| known(container))
        .collect();
    let reduced = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "injected", "annotations": pod.annotations},
        "spec": {"initContainers": starting, "containers": proxy},
    });
    let described = objects("the injected pod", &reduced.to_string())?;
    let Some(object) = described.first() else { return Ok(None) };
    let reading = read(object, &[""; 0]);
    let Way::InitContainer(name) = &reading.way else { return Ok(None) };
    let resolved = reading.said.resolve(&Somewhere)?;
    Ok(Some((name.clone(), resolved.capture)))
}

fn faults(
    pod: &Pod,
    own: &Pod,
    sidecar: &Sidecar,
    name: &str,
    starting: &[&Item],
    found: &CaptureConfig,
) -> Vec<Problem> {
    let mut faults = Vec::new();
    if sidecar.mode == Mode::None {
        return faults;
    }
    // Who writes the container himself wants it other than it would be.
    if name == super::INIT && own.container(name).is_none() {
        let meant = starting.iter().filter(|container| container.name() == name).map(|container| {
            let mut meant = (*container).clone();
            meant.0.insert("args".to_owned(), json!(sidecar.arguments));
            meant
        });
        let meant: Vec<Item> = meant.collect();
        let meant = capture(pod, &meant.iter().collect::<Vec<_>>());
        if !matches!(meant, Ok(Some((_, meant))) if meant == *found) {
            let text = format!(
                "captures something else than the pod's settings mean; expected the arguments {}",
                sidecar
                    .arguments
                    .iter()
                    .map(|word| if word.is_empty() { "\"\"" } else { word })
                    .collect::<Vec<_>>()
                    .join(" ")
            );
            faults.push(Problem::of(&format!("init container {name}"), text));
        }
    }
    faults.extend(loops(pod, found));
    faults
}

/// A proxy whose own connections would come back to it.
fn loops(pod: &Pod, capture: &CaptureConfig) -> Option<Problem> {
    let (_, proxy) = pod.container(PROXY)?;
    let of_pod = |field: &str| pod.spec("securityContext").and_then(|context| context.get(field)?.as_i64());
    let id = |field: &str| proxy.runs_as(field).or_else(|| of_pod(field));
    let user = id("runAsUser")?;
    let group = id("runAsGroup");
    let is = |number: u32, id: i64| i64::from(number) == id;
    let known = capture.proxy_uids.iter().any(|uid| is(uid.number(), user))
        || group.is_some_and(|group| capture.proxy_gids.iter().any(|gid| is(gid.number(), group)));
    if known {
        return None;
    }
    let group = group.map_or_else(String::new, |group| format!(" and group {group}"));
    let text = format!(
        "runs as user {user}{group}, neither of which the rules leave alone, so that its own connections would come back to \
         it; give it a runAsUser other than 0, or none"
    );
    Some(Problem::of(&format!("container {PROXY}"), text))
}
