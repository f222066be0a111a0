//! The network namespace that a call is about (`--network-namespace`).

use mesh::settings::nearest;
use mesh::sources::{Given, Raw};
use mesh::{Problem, Setting};
use sidecar_init::sys::lookup::{self, LookupError, Places};

/// Enters the namespace that was asked for, before anything is asked of it.
pub(super) fn enter_namespace(raw: &Raw) -> Option<Problem> {
    let given = namespace_to_enter(raw)?;
    enter(&given.value).err().map(|text| Problem::with_item(&given.source, &given.value, text))
}

/// Enters the namespace that a word means, or says what is wrong with the word.
pub(super) fn enter(word: &str) -> Result<(), String> {
    let form = "expected a name of ip netns, a container's id or 4 of its first digits, pid:N, or a network namespace such as \
                /run/netns/NAME or /proc/PID/ns/net, and the right to enter it";
    let lost = |error: &LookupError| {
        let nearest = nearest(word, error.known()).map(|name| format!("; did you mean {name}?"));
        format!("{error}{}; {form}", nearest.unwrap_or_default())
    };
    let held = lookup::find(word, &Places::default()).map_err(|error| lost(&error))?;
    held.enter().map_err(|error| lost(&LookupError::Open(error)))
}

/// The namespace that was asked for. A preview whose facts are all declared asks nothing, and so needs no right to enter.
pub(super) fn namespace_to_enter(raw: &Raw) -> Option<&Given> {
    let given = raw.get(Setting::NetworkNamespace).filter(|given| !given.value.is_empty())?;
    let removal = raw.is_on(Setting::CleanupOnly);
    let asks_nothing = raw.is_on(Setting::DryRun) && !removal && raw.get(Setting::PodIps).is_some();
    (!asks_nothing).then_some(given)
}
