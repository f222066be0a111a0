//! The line of a document that a problem is about: an annotation, or a field by its path.

use std::str::FromStr;
use yaml_edit::{MappingEntry, YamlFile, YamlNode};

/// How many lines stand before what a problem's name is about, in the pod or the template at a JSON pointer; `None` if nothing
/// of it is there.
pub(super) fn line(document: &str, pod: &str, name: &str) -> Option<usize> {
    let file = YamlFile::from_str(document).ok()?;
    let root = YamlNode::Mapping(file.document()?.as_mapping()?);
    let pod = pod.split('/').skip(1).try_fold(root, |node, step| match node {
        YamlNode::Sequence(_) => node.get_item(step.parse().ok()?),
        _ => node.get(step),
    })?;
    let at = annotation(&pod, name).or_else(|| field(pod, name.rsplit(": ").next()?))?;
    Some(document.get(..at)?.matches('\n').count())
}

/// The annotation or label that the name speaks of: of several, the longest.
fn annotation(pod: &YamlNode, name: &str) -> Option<usize> {
    let metadata = pod.get("metadata")?;
    let all = ["annotations", "labels"].into_iter().filter_map(|field| metadata.get(field));
    let named = all.flat_map(|fields| entries(&fields));
    let named = named.filter(|(key, ..)| name.contains(key.as_str()) && key.contains('/'));
    named.max_by_key(|(key, ..)| key.len()).map(|(_, at, _)| at)
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
