//! Validates an injected pod: its init container, parsed as in any pod, must match the sidecar's settings.

use super::pod::{CheckedPod, PodSpecItem, PodSpecList};
use super::users::IDS;
use crate::sidecar::{INIT, Mode, PROXY, Sidecar};
use mesh::pod::{CaptureMethod, KubernetesObject, read};
use mesh::{Capture, InputProblem, Problems, sources::RemoteHost};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug)]
pub(super) struct Validation<'a> {
    pub(super) pod: &'a CheckedPod,
    pub(super) overlay: &'a CheckedPod,
    pub(super) original: &'a CheckedPod,
    pub(super) sidecar: &'a Sidecar,
    /// True if all parts are built-in: problems are then errors. Configured templates or the pod may differ on purpose.
    pub(super) is_strict: bool,
}

impl<'a> Validation<'a> {
    fn injected(&self, list: PodSpecList) -> Vec<&'a Value> {
        let overlay = self.overlay.by_name(list);
        self.pod.items(list).iter().filter(|container| overlay.contains_key(container.name())).collect()
    }
}

pub(super) fn check(validation: &Validation<'_>) -> Result<Vec<String>, Problems> {
    if validation.sidecar.mode == Mode::None {
        return Ok(Vec::new());
    }
    let mut injected = validation.injected(PodSpecList::InitContainers);
    injected.retain(|container| container.name() != PROXY);
    let original = validation.original.containers_by_name();
    let by_user = injected.iter().any(|container| original.contains_key(container.name()));
    let found = match capture(validation.pod, &injected) {
        Ok(Some((name, capture))) => {
            let other = other(validation, &name, &injected, &capture);
            other.into_iter().chain(loops(validation, &capture)).collect()
        }
        Ok(None) => Vec::new(),
        Err(problems) => problems.0,
    };
    if validation.is_strict && !by_user {
        return Problems::check(found).map(|()| Vec::new());
    }
    Ok(found.iter().map(ToString::to_string).collect())
}

/// Name and capture of the init container; `None` if no container sets or validates rules.
fn capture(pod: &CheckedPod, starting: &[&Value]) -> Result<Option<(String, Capture)>, Problems> {
    let fields = ["name", "command", "args", "env", "envFrom", "securityContext"];
    let known = |container: &Value| -> Value {
        fields.iter().filter_map(|field| Some((*field, container.get(*field)?.clone()))).collect()
    };
    let proxy: Vec<Value> = pod.container(PROXY).map(|(_, proxy)| known(proxy)).into_iter().collect();
    let starting: Vec<Value> = starting.iter().map(|container| known(container)).collect();
    let reduced = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "injected", "annotations": pod.value()["metadata"]["annotations"]},
        "spec": {"initContainers": starting, "containers": proxy},
    });
    let Some(object) = KubernetesObject::of(reduced).first().and_then(KubernetesObject::pod) else {
        return Ok(None);
    };
    let reading = read(&object, &[""; 0]);
    let CaptureMethod::InitContainer(name) = &reading.way else { return Ok(None) };
    // The caller adds the pod's name.
    let resolved = reading.settings.of_pod("").resolve_within(&RemoteHost::Open)?;
    Ok(Some((name.clone(), resolved.capture)))
}

/// Reports a template's init container, not the pod's own, whose rules differ from the sidecar's settings.
fn other(
    validation: &Validation<'_>,
    name: &str,
    starting: &[&Value],
    found: &Capture,
) -> Option<InputProblem> {
    if name != INIT || validation.original.container(name).is_some() {
        return None;
    }
    let mut intended = (*starting.iter().find(|container| container.name() == name)?).clone();
    let arguments = validation.sidecar.arguments();
    let as_json = json!(arguments);
    if intended.get("args") == Some(&as_json) {
        return None;
    }
    intended["args"] = as_json;
    if matches!(capture(validation.pod, &[&intended]), Ok(Some((_, intended))) if intended == *found) {
        return None;
    }
    let words = arguments.iter().map(|word| if word.is_empty() { "\"\"" } else { word });
    let text = format!(
        "does not capture as the pod's settings require; expected the arguments {}",
        words.collect::<Vec<_>>().join(" ")
    );
    Some(InputProblem::of(&format!("init container {name}"), text))
}

/// Reports rules that capture connections of Istio's proxy or, without it, of all injected containers.
fn loops(validation: &Validation<'_>, capture: &Capture) -> Option<InputProblem> {
    let of_pod = validation.pod.spec("securityContext");
    let id = |container: &Value, field: &str| {
        container.runs_as(field).or_else(|| of_pod.and_then(|context| context.get(field)?.as_i64()))
    };
    let is = |number: u32, id: i64| i64::from(number) == id;
    let proxy = capture.proxy();
    let is_known = |container: &Value| {
        // The image's user is unknown.
        let Some(user) = id(container, IDS[0]) else { return true };
        let group = id(container, IDS[1]);
        proxy.uids.iter().any(|uid| is(uid.number(), user))
            || group.is_some_and(|group| proxy.gids.iter().any(|gid| is(gid.number(), group)))
    };
    let is_native = |container: &&Value| container["restartPolicy"] == "Always";
    let starting = validation.injected(PodSpecList::InitContainers);
    let mut running = validation.injected(PodSpecList::Containers);
    running.extend(starting.into_iter().filter(is_native));
    let proxy = running.iter().find(|container| container.name() == PROXY);
    if proxy.map_or_else(|| running.iter().any(|container| is_known(container)), |proxy| is_known(proxy)) {
        return None;
    }
    let proxy = proxy.or(running.first())?;
    let numbers = IDS.iter().filter_map(|field| Some(format!("{field} {}", id(proxy, field)?)));
    let text = format!(
        "has {}, which the rules do not exclude, so its connections would be captured again (loop); \
         give it a runAsUser other than 0, or none",
        numbers.collect::<Vec<_>>().join(" and ")
    );
    Some(InputProblem::of(&format!("container {}", proxy.name()), text))
}
