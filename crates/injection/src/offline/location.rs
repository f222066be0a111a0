//! The line of a document that a problem is about: an annotation, or a field by its path.

use std::{collections::HashMap, str::FromStr};
use yaml_edit::{MappingEntry, YamlFile, YamlNode};

/// The places of a pod's fields in its document.
pub(super) struct PodLocations<'a> {
    document: &'a str,
    pod: YamlNode,
    /// Those of annotations and labels.
    keys: HashMap<String, usize>,
}

impl<'a> PodLocations<'a> {
    /// Reads the pod or the template at a JSON pointer; `None` if nothing is there.
    pub(super) fn of(document: &'a str, pod: &str) -> Option<Self> {
        let file = YamlFile::from_str(document).ok()?;
        let root = YamlNode::Mapping(file.document()?.as_mapping()?);
        let pod = pod.split('/').skip(1).try_fold(root, |node, step| match node {
            YamlNode::Sequence(_) => node.get_item(step.parse().ok()?),
            _ => node.get(step),
        })?;
        let metadata = pod.get("metadata");
        let of = |field| metadata.as_ref().and_then(|metadata| metadata.get(field));
        let all = ["annotations", "labels"].into_iter().filter_map(of).flat_map(|fields| entries(&fields));
        let keys = all.map(|(key, at, _)| (key, at)).filter(|(key, _)| key.contains('/')).collect();
        Some(Self { document, pod, keys })
    }

    /// How many lines stand before what a problem's name is about; `None` if nothing of it is there.
    pub(super) fn line(&self, name: &str) -> Option<usize> {
        let is_part = |c: char| c.is_alphanumeric() || "-_./".contains(c);
        // Of several annotations or labels that it speaks of, the longest.
        let named = name.split(|c| !is_part(c)).filter_map(|word| self.keys.get_key_value(word));
        let named = named.max_by_key(|(key, _)| key.len()).map(|(_, at)| *at);
        let at = named.or_else(|| field(self.pod.clone(), name.rsplit(": ").next()?))?;
        Some(self.document.get(..at)?.matches('\n').count())
    }
}

/// A field by a path such as `spec.containers[0].env`, as far as it leads.
fn field(mut node: YamlNode, mut path: &str) -> Option<usize> {
    let mut found = None;
    loop {
        let step = match &node {
            YamlNode::Mapping(_) => entries(&node)
                .into_iter()
                .filter_map(|(key, at, value)| {
                    let rest = path.strip_prefix(key.as_str())?;
                    let ends = rest.is_empty() || rest.starts_with(['.', '[']);
                    ends.then_some((at, value?, rest))
                })
                .min_by_key(|(_, _, rest)| rest.len()),
            YamlNode::Sequence(_) => {
                let index = path.strip_prefix('[').and_then(|rest| rest.split_once(']'));
                index.and_then(|(number, rest)| {
                    let item = node.get_item(number.parse().ok()?)?;
                    Some((start(&item), item, rest))
                })
            }
            _ => None,
        };
        let Some((at, inner, rest)) = step else { return found };
        (found, node, path) = (Some(at), inner, rest.strip_prefix('.').unwrap_or(rest));
    }
}

/// The entries of a mapping: the key, its place, and the value.
fn entries(node: &YamlNode) -> Vec<(String, usize, Option<YamlNode>)> {
    let all = node.as_mapping().into_iter().flat_map(|mapping| mapping.entries());
    let read = |entry: MappingEntry| {
        let key = entry.key_node()?;
        Some((key.as_scalar()?.as_string(), start(&key), entry.value_node()))
    };
    all.filter_map(read).collect()
}

/// Its first byte in the document.
fn start(node: &YamlNode) -> usize {
    node.byte_range().start as usize
}

#[cfg(test)]
mod tests {
    use super::PodLocations;

    const LIST: &str = "\
apiVersion: v1
kind: List
items:
- kind: Pod
  metadata:
    labels:
      a/b: x
      app.of: x
      app: web
    annotations:
      é/b.c: 'y
        z'
      short: w
  spec:
    containers:
    - name: a
    - name: b
      envFrom: []
      env:
      - name: x
- kind: Other
";

    #[test]
    fn a_problem_stands_where_as_much_of_its_path_as_there_is_leads() {
        for (pod, name, expected) in [
            ("/items/0", "annotation a/b", Some(6)),
            ("/items/0", "file: document 1: a/b and é/b.c: says \"x\"", Some(10)),
            ("/items/0", "annotation x.a/bc", None),
            ("/items/0", "annotation x.a/b", None),
            ("/items/0", "annotation a/b-c", None),
            ("/items/0", "annotation x.a/b, beside a/b", Some(6)),
            // Without a slash a name may be any word.
            ("/items/0", "what is short", None),
            ("/items/0", "metadata.annotations.short", Some(12)),
            ("/items/0", "pod: kind", Some(3)),
            ("/items/0", "pod: metadata.labels.app", Some(8)),
            ("/items/0", "pod: metadata.labels.app.of", Some(7)),
            ("/items/0", "pod: spec.containers[0]", Some(15)),
            ("/items/0", "pod: spec.containers[1].env[0].name", Some(19)),
            ("/items/0", "pod: spec.containers[1].env[0].value", Some(19)),
            ("/items/0", "pod: spec.containers[1].envFrom[0].name", Some(17)),
            ("/items/0", "pod: spec.containers[1].environment", Some(16)),
            ("/items/0", "pod: spec.containers[2]", Some(14)),
            ("/items/0", "pod: spec.containers[x]", Some(14)),
            ("/items/0", "pod: spec: containers", None),
            ("/items/1", "pod: kind", Some(20)),
            ("/items/1", "annotation a/b", None),
            ("/items/2", "pod: kind", None),
            ("/items/x", "pod: kind", None),
            ("", "pod: items[0].spec", Some(13)),
            ("/nothing", "pod: kind", None),
        ] {
            let found = PodLocations::of(LIST, pod).and_then(|locations| locations.line(name));
            assert_eq!(found, expected, "{pod} {name}");
        }
        assert!(PodLocations::of("- kind\n", "").is_none());
        assert!(PodLocations::of("", "").is_none());
    }
}
