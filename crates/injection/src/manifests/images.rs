//! Images of an installation: complete, and pinned. Under a tag that moves, pods of one Deployment would run different programs,
//! and a proxy could be newer than its control plane.

use super::InstallOptions;
use mesh::InputProblem;

/// What is wrong with the images of the options.
pub(super) fn problems(options: &InstallOptions<'_>) -> Vec<InputProblem> {
    let injector = "registry.example/sidecar-injector:0.1.0";
    let proxy = "istio/proxyv2:1.31.0, the version of the control plane";
    let mut problems = Vec::new();
    for (flag, image, example, is_required) in [
        ("--image", options.image, injector, true),
        ("--proxy-image", options.proxy_image, proxy, true),
        ("--init-image", options.init_image, "registry.example/sidecar-init:0.1.0", false),
    ] {
        if let Some(image) = image {
            let text = fault(image, flag != "--image");
            let text = text.map(|text| format!("{text}; expected a name such as {example}"));
            problems.extend(text.map(|text| InputProblem::with_item(flag, image, text)));
        } else if is_required {
            let text = format!("is missing; expected an image with a tag or a digest, such as {example}");
            problems.push(InputProblem::of(flag, text));
        }
    }
    problems
}

fn fault(image: &str, of_pods: bool) -> Option<&'static str> {
    if image.is_empty() || image.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Some("is not an image");
    }
    if of_pods && !image.contains('/') {
        return Some("has no slash, so it would be sought in the hub of the values");
    }
    if let Some((_, digest)) = image.split_once('@') {
        // The algorithms and forms of OCI's go-digest; container runtimes refuse any other.
        let is_digest = digest.split_once(':').is_some_and(|(algorithm, hash)| {
            matches!((algorithm, hash.len()), ("sha256", 64) | ("sha384", 96) | ("sha512", 128))
                && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        });
        return (!is_digest).then_some(
            "has a digest that is not one, such as sha256: and 64 hexadecimal digits in small letters",
        );
    }
    // A colon before the last slash precedes the port of a registry.
    let last = image.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        None => Some("has neither tag nor digest, which means the tag latest"),
        Some((_, "")) => Some("has an empty tag"),
        Some((_, "latest")) => Some("has the tag latest, which names another image tomorrow"),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::installation::tests::PLAIN;

    #[test]
    fn images_are_pinned_or_required() {
        let digest = format!("mesh/proxy@sha256:{}", "0a".repeat(32));
        for image in ["mesh/proxy:1", "localhost:5000/proxy:latest-1", "a.b/c/proxy:v1.2", &digest] {
            assert_eq!(fault(image, true), None, "{image}");
        }
        for (image, text) in [
            ("", "not an image"),
            ("mesh/proxy 1", "not an image"),
            ("proxy:1", "no slash"),
            ("mesh/proxy", "neither tag nor digest"),
            ("localhost:5000/proxy", "neither tag nor digest"),
            ("mesh/proxy:", "empty tag"),
            ("mesh/proxy:latest", "the tag latest"),
            ("mesh/proxy:1@sha256:12", "a digest that is not one"),
            ("mesh/proxy@", "a digest that is not one"),
            (&digest[..digest.len() - 1], "a digest that is not one"),
            (digest.replace("0a", "0A").as_str(), "a digest that is not one"),
            (digest.replace("sha256", "md5").as_str(), "a digest that is not one"),
        ] {
            assert!(fault(image, true).is_some_and(|fault| fault.contains(text)), "{image}");
        }
        assert_eq!(fault("injector:1", false), None, "an image of the nodes");
        let none = InstallOptions { image: None, proxy_image: None, ..PLAIN };
        let problems: Vec<String> = problems(&none).iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[1].contains("--proxy-image: is missing; expected an image"), "{problems:?}");
    }
}
