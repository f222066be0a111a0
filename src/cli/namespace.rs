//! The network namespace that a call is about (`--network-namespace`).

use mesh::settings::nearest;
use mesh::sources::{Given, Raw, Source};
use mesh::{InputProblem, Setting};
use sidecar_init::sys::lookup::{self, LookupError, LookupPlaces};
use std::io;

/// Enters the namespace that `--network-namespace` names. To a drop-in, an empty name means the current one, as upstream.
pub(super) fn enter_namespace(raw: &Raw, is_drop_in: bool) -> Option<InputProblem> {
    if let Some(given) = raw.get(Setting::NetworkNamespace)
        && given.value.is_empty()
        && matches!(given.source, Source::Flag(_))
        && !is_drop_in
    {
        let text = "names no network namespace; leave the flag out for the current one";
        return Some(InputProblem::with_item(&given.source, "", text));
    }
    let given = namespace_to_enter(raw)?;
    enter(&given.value).err().map(|text| InputProblem::with_item(&given.source, &given.value, text))
}

/// Enters the namespace with this name, or returns what is wrong with it.
pub(super) fn enter(word: &str) -> Result<(), String> {
    let form = "expected a name of ip netns, a container's id or at least its first 4 digits, pid:N, or a network namespace such as \
                /run/netns/NAME or /proc/PID/ns/net";
    let text = |error: &LookupError| {
        // The namespace is found, so that another word does not help.
        if let LookupError::Open(cause) = error
            && cause.kind() == io::ErrorKind::PermissionDenied
        {
            return format!("{error}; this needs root, with CAP_SYS_ADMIN");
        }
        let nearest = nearest(word, error.known()).map(|name| format!("; did you mean {name}?"));
        format!("{error}{}; {form}", nearest.unwrap_or_default())
    };
    let found = lookup::find(word, &LookupPlaces::default()).map_err(|error| text(&error))?;
    found.enter().map_err(|error| text(&LookupError::Open(error)))
}

/// The namespace to enter, if any. A preview whose facts are all declared does not read it, and so needs no right to enter.
pub(super) fn namespace_to_enter(raw: &Raw) -> Option<&Given> {
    let given = raw.get(Setting::NetworkNamespace).filter(|given| !given.value.is_empty())?;
    let removal = raw.is_on(Setting::CleanupOnly);
    let asks_nothing = raw.is_on(Setting::DryRun) && !removal && raw.get(Setting::PodIps).is_some();
    (!asks_nothing).then_some(given)
}
