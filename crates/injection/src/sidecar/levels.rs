//! Levels of log lines that annotations set: what the programs refuse that read them, which would end at each start.

use mesh::Problems;
use mesh::settings::levels::ScopeLevel;

/// The items that a program refuses, and why.
pub(super) type LevelFaults = fn(&str) -> Vec<(&str, String)>;

const OF_ENVOY: [&str; 8] = ["trace", "debug", "info", "warning", "warn", "error", "critical", "off"];
const ENVOYS: &str = "trace, debug, info, warning, error, critical or off";

/// `--log_output_level` of the init container and of Istio's agent.
pub(super) fn of_agent(text: &str) -> Vec<(&str, String)> {
    let items = text.split(',').filter(|item| !item.is_empty());
    let faults = items.filter_map(|item| Some((item, item.parse::<ScopeLevel>().err()?)));
    faults.take(Problems::MAX_ITEMS).collect()
}

/// `--proxyLogLevel`. The agent gives Envoy the last level without a component, and those of components; of several colons
/// it warns.
pub(super) fn of_proxy(text: &str) -> Vec<(&str, String)> {
    let whole = text.split(',').rfind(|item| !item.contains(':')).filter(|item| !item.is_empty());
    let components = text.split(',').filter(|item| item.matches(':').count() == 1);
    let faults = whole.into_iter().chain(components).filter(|item| !has_level(item));
    let faults = faults.map(|item| (item, format!("names no level of Envoy; expected {ENVOYS}")));
    faults.take(Problems::MAX_ITEMS).collect()
}

/// `--proxyComponentLogLevel`, which Envoy gets as it is. Which components there are, depends on its version.
pub(super) fn of_components(text: &str) -> Vec<(&str, String)> {
    let items = text.split(',').filter(|_| !text.is_empty());
    let faults = items.filter(|item| item.matches(':').count() != 1 || !has_level(item));
    let faults = faults.map(|item| {
        (item, format!("is not COMPONENT:LEVEL; expected a level of {ENVOYS}, such as misc:error"))
    });
    faults.take(Problems::MAX_ITEMS).collect()
}

/// Whether an item ends in a level of Envoy.
fn has_level(item: &str) -> bool {
    item.rsplit(':').next().is_some_and(|level| OF_ENVOY.contains(&level))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(faults: LevelFaults, text: &str, expected: &[&str]) {
        let found: Vec<&str> = faults(text).into_iter().map(|(item, _)| item).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn levels_are_refused_where_their_program_would_end() {
        for right in ["", "debug", "default:info,ads:none", "all:fatal", "no-such:trace", "info,"] {
            check(of_agent, right, &[]);
        }
        check(of_agent, "loud,ads:info,ads:warning,a:b:info", &["loud", "ads:warning", "a:b:info"]);
        for right in
            ["", "warning", "warn", "off,http:critical", "loud,info", "info,a:b:c", "http:debug", "loud,"]
        {
            check(of_proxy, right, &[]);
        }
        check(of_proxy, "info,loud,http:fatal,x:", &["loud", "http:fatal", "x:"]);
        for right in ["", "misc:error", "upstream:debug,no-such:trace"] {
            check(of_components, right, &[]);
        }
        check(of_components, "misc,a:b:info,misc:loud,", &["misc", "a:b:info", "misc:loud", ""]);
    }

    #[test]
    fn of_many_faults_the_first_are_reported() {
        let text = "x,".repeat(100_000);
        assert_eq!(of_agent(&text).len(), Problems::MAX_ITEMS);
        assert_eq!(of_components(&text).len(), Problems::MAX_ITEMS);
    }
}
