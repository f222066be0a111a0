//! `kubectl capture lint`: suspicious pods, Services and webhooks in a cluster or namespace.

use crate::arguments::{LintArguments, LintForm};
use crate::failure::{CaptureFailure, CommandOutcome, DIFFERENT};
use crate::kubectl::{CallKind, Kubectl, KubectlCall};
use command_line::{columns, output::print_styled};
use injection::Namespaces;
use injection::cluster_lint::{ClusterQuestion, RESOURCES, config_maps, lint_cluster, sarif, text};
use mesh::pod::KubernetesObject;
use std::process::ExitCode;

pub(crate) fn run(arguments: &LintArguments) -> CommandOutcome {
    let objects = objects(&Kubectl::new(&arguments.connection), arguments)?;
    let question = ClusterQuestion {
        objects: &objects,
        namespaces: Namespaces::default(),
        is_whole: arguments.all_namespaces,
    };
    let mut found = lint_cluster(&question);
    found.select(arguments.notes, &arguments.allow);
    let is_denied = arguments.deny && found.has_warning();
    print_styled(&match arguments.output {
        LintForm::Text => text(&found, columns::of_terminal()),
        LintForm::Json => format!("{:#}\n", serde_json::json!(found)),
        LintForm::Sarif => sarif(&found, env!("CARGO_PKG_VERSION")),
    })?;
    Ok(if is_denied { DIFFERENT.into() } else { ExitCode::SUCCESS })
}

fn objects(kubectl: &Kubectl, arguments: &LintArguments) -> Result<Vec<KubernetesObject>, CaptureFailure> {
    let mut objects = Vec::new();
    for resource in RESOURCES {
        let is_namespaced = resource.is_namespaced;
        let all = (is_namespaced && arguments.all_namespaces).then_some("--all-namespaces");
        let words: Vec<&str> = [resource.name].into_iter().chain(all).collect();
        let namespace = arguments.connection.namespace.as_deref().filter(|_| is_namespaced);
        let call = KubectlCall::get(CallKind::ListForLint(resource), namespace, &words);
        objects.extend(KubernetesObject::of(kubectl.object(&call)?));
    }
    for (namespace, name) in config_maps(&objects) {
        // One argument, so that no name is parsed as a flag: the API server does not check names in webhooks.
        let map = format!("configmap/{name}");
        let call = KubectlCall::get(CallKind::GetConfigMap, Some(&namespace), &[map.as_str()]);
        match kubectl.object(&call) {
            Ok(map) => objects.extend(KubernetesObject::of(map)),
            // An injector does not use all of the names.
            Err(failure) if failure.is_not_found() => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    Ok(objects)
}
