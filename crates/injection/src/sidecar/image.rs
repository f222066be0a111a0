//! Names of images, from a hub, a name, a tag and a type.

/// The types of images that Istio publishes, as the ends of tags.
const TYPES: [&str; 2] = ["-debug", "-distroless"];
/// The type that no tag's end names.
const DEFAULT: &str = "default";

/// The reference of an image. `name` is one beneath the hub, or with a slash a whole reference, which stays as it is.
pub(super) fn reference(hub: &str, name: &str, tag: &str, kind: &str) -> String {
    if name.contains('/') {
        return name.to_owned();
    }
    let mut reference = if hub.is_empty() { name.to_owned() } else { format!("{hub}/{name}") };
    let tag = typed(tag, kind);
    if !tag.is_empty() {
        reference.push(':');
        reference.push_str(&tag);
    }
    reference
}

/// The tag with the suffix of an image type in place of its own; without a type, the tag as it is.
fn typed(tag: &str, kind: &str) -> String {
    if kind.is_empty() || tag.is_empty() {
        return tag.to_owned();
    }
    let bare = TYPES.iter().find_map(|end| tag.strip_suffix(end)).unwrap_or(tag);
    if kind == DEFAULT { bare.to_owned() } else { format!("{bare}-{kind}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_replaces_that_of_the_tag() {
        let check =
            |hub, name, tag, kind, expected: &str| assert_eq!(reference(hub, name, tag, kind), expected);
        check("hub.example/mesh", "proxyv2", "1.2", "", "hub.example/mesh/proxyv2:1.2");
        check("mesh", "proxyv2", "1.2", "debug", "mesh/proxyv2:1.2-debug");
        check("mesh", "proxyv2", "1.2-distroless", "debug", "mesh/proxyv2:1.2-debug");
        check("mesh", "proxyv2", "1.2-distroless", "default", "mesh/proxyv2:1.2");
        check("mesh", "proxyv2", "1.2-distroless", "", "mesh/proxyv2:1.2-distroless");
        check("mesh", "hub.example/own:3", "1.2", "debug", "hub.example/own:3");
        check("", "proxyv2", "", "debug", "proxyv2");
    }
}
