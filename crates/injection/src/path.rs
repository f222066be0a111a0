//! The path of a webhook's request: pairs of names and values after `/inject`, which become variables of the proxy.

/// Variables that a path sets, in its order.
///
/// Behind `/inject`, `cluster/east/net/a--slash--b` says `ISTIO_META_CLUSTER_ID=east` and `ISTIO_META_NETWORK=a/b`. Other names are
/// taken in upper case. A name without a value is left out. The older form is `:ENV:NAME=VALUE`, as often as need
/// be, with the same names.
pub fn variables(path: &str) -> Vec<(String, String)> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let given = path.strip_prefix("/inject").unwrap_or(path);
    let given = given.strip_prefix('/').unwrap_or(given);
    if given.starts_with(":ENV:") {
        let pairs = given.split(":ENV:").filter_map(|pair| pair.split_once('='));
        let pairs = pairs.filter(|(name, _)| !name.is_empty());
        return pairs.map(|(name, value)| (variable(name), value.to_owned())).collect();
    }
    let words: Vec<&str> = given.split('/').collect();
    let pairs = words.chunks_exact(2).map(|pair| (variable(pair[0]), pair[1].replace("--slash--", "/")));
    pairs.filter(|(name, _)| !name.is_empty()).collect()
}

fn variable(name: &str) -> String {
    match name {
        "cluster" => "ISTIO_META_CLUSTER_ID".to_owned(),
        "net" => "ISTIO_META_NETWORK".to_owned(),
        other => other.to_uppercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: &[(&str, &str)]) {
        let found = variables(path);
        let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn pairs_become_variables() {
        check("/inject", &[]);
        check("/inject/", &[]);
        check("/inject/cluster/east/", &[("ISTIO_META_CLUSTER_ID", "east")]);
        check("/inject/net/a--slash--b/zone/x/odd", &[("ISTIO_META_NETWORK", "a/b"), ("ZONE", "x")]);
    }

    #[test]
    fn the_older_form() {
        check("/inject/:ENV:net=a:ENV:=x:ENV:B:ENV:C=1=2", &[("ISTIO_META_NETWORK", "a"), ("C", "1=2")]);
    }
}
