//! `manifests`: prints the objects that install the injector, or writes them to a kustomize folder; and `uninstall`.

use crate::environment::HostFlags;
use crate::output::{self, ObjectFormat, document, print, report};
use clap::Args;
use injection::manifests::{Installation, ManifestFile, NAMESPACE, files, kustomization, removed};
use mesh::Problems;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::{error::Error, fs, io, process::ExitCode};

#[derive(Args, Clone, Debug)]
pub(crate) struct ManifestsFlags {
    /// Namespace of the injector
    #[arg(long, value_name = "NAME", default_value = NAMESPACE)]
    namespace: String,
    /// Omit the Namespace object
    #[arg(long)]
    no_namespace: bool,
    /// Image of this program, with a tag other than latest, or a digest; required
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// Image of injected proxies, with a tag other than latest, or a digest; required
    #[arg(long, value_name = "NAME")]
    proxy_image: Option<String>,
    /// Image of injected init containers [default: --proxy-image]
    #[arg(long, value_name = "NAME")]
    init_image: Option<String>,
    /// Revision, the value of `istio.io/rev`; `default` also serves namespaces and pods without one
    #[arg(long, value_name = "NAME", default_value = "default")]
    revision: String,
    /// Another name of the revision; repeatable
    #[arg(long = "tag", value_name = "NAME")]
    tags: Vec<String>,
    /// Also inject pods without labels in namespaces without labels, except Kubernetes' own
    #[arg(long)]
    auto: bool,
    /// Pods per Deployment
    #[arg(long, value_name = "COUNT", default_value = "2", value_parser = count, allow_hyphen_values = true)]
    replicas: u16,
    /// PriorityClass of the pods, such as system-cluster-critical [default: none]
    #[arg(long, value_name = "NAME")]
    priority_class: Option<String>,
    /// Omit the pods' NetworkPolicy
    #[arg(long)]
    no_network_policy: bool,
    /// Pass each pod's environment to its proxy, in namespaces with the label environment-tag-injection=enabled
    #[arg(long)]
    environment_tag: bool,
    /// Comma-separated labels; the first one on a pod sets its environment
    #[arg(
        long,
        alias = "env-label",
        value_name = "LABELS",
        default_value = "virtual-env",
        requires = "environment_tag"
    )]
    environment_labels: String,
    /// Add the operator for environment routes
    #[arg(long)]
    operator: bool,
    #[command(flatten)]
    hosts: HostFlags,
    /// Name webhook configurations as istiod does: istio-sidecar-injector and istio-revision-tag-TAG;
    /// istiod's injector must be off
    #[arg(long)]
    istio_names: bool,
    /// yaml, json (a List), or kustomize and a folder
    #[arg(short, long, value_names = ["FORMAT", "FOLDER"], num_args = 1..=2, default_value = "yaml")]
    output: Vec<String>,
    /// Overwrite foreign files in the folder
    #[arg(long)]
    force: bool,
}

#[derive(Debug)]
enum ManifestsOutput {
    Objects(ObjectFormat),
    Folder(PathBuf),
}

pub(crate) fn run(flags: &ManifestsFlags) -> Result<ExitCode, Box<dyn Error>> {
    let output = chosen(&flags.output)?;
    if flags.force && matches!(output, ManifestsOutput::Objects(_)) {
        return Err("--force: requires --output kustomize FOLDER".into());
    }
    let labels = flags.environment_tag.then_some(&flags.environment_labels);
    let values = json!({
        "image": flags.image.as_deref().unwrap_or_default(),
        "proxyImage": flags.proxy_image.as_deref().unwrap_or_default(),
        "initImage": flags.init_image.as_deref().unwrap_or_default(),
        "revision": flags.revision,
        "istioNames": flags.istio_names,
        "tags": flags.tags,
        "auto": flags.auto,
        "replicas": flags.replicas,
        "environmentLabels": Vec::from_iter(labels),
        "operator": { "enabled": flags.operator, "allowHosts": flags.hosts.allow_hosts },
        "networkPolicy": { "enabled": !flags.no_network_policy },
        "priorityClassName": flags.priority_class.as_deref().unwrap_or_default(),
    });
    let target = Installation::read(&flags.namespace, !flags.no_namespace, values)?;
    let files = files(&target);
    match output {
        ManifestsOutput::Objects(format) => {
            let objects: Vec<Value> = files.into_iter().flat_map(|file| file.objects).collect();
            print(&output::objects(&objects, format))?;
        }
        ManifestsOutput::Folder(folder) => write(&folder, &files, flags.force)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn chosen(words: &[String]) -> Result<ManifestsOutput, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["yaml"] => Ok(ManifestsOutput::Objects(ObjectFormat::Yaml)),
        ["json"] => Ok(ManifestsOutput::Objects(ObjectFormat::Json)),
        ["kustomize", folder] => Ok(ManifestsOutput::Folder(folder.into())),
        ["kustomize"] => Err("--output kustomize: expected a folder".to_owned()),
        _ => Err(format!(
            "--output: {:?} is not a format; expected yaml, json, or kustomize FOLDER",
            words.join(" ")
        )),
    }
}

fn count(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("expected a whole number from 1 to {}", u16::MAX))
}

/// First line of each file, a mark that this command wrote it.
const MARK: &str = "# Written by `sidecar-injector manifests`, which overwrites it. Your own changes belong in a \
                    kustomization over this folder.\n";

/// Writes and reports each file. `kustomization.yaml` comes last, so it names no missing file, even if writing fails halfway.
fn write(folder: &Path, files: &[ManifestFile], force: bool) -> Result<(), String> {
    let written = |file: &ManifestFile| {
        (folder.join(format!("{}.yaml", file.name)), output::objects(&file.objects, ObjectFormat::Yaml))
    };
    let mut texts: Vec<(PathBuf, String)> = files.iter().map(written).collect();
    texts.push((folder.join("kustomization.yaml"), document(&kustomization(files))));
    let foreign = texts.iter().map(|(path, _)| path).filter(|path| is_foreign(path));
    let foreign: Vec<String> = foreign.map(|path| path.display().to_string()).collect();
    if !foreign.is_empty() && !force {
        return Err(format!(
            "--output: {} not written by this command; nothing was changed; give another folder, or --force to overwrite",
            match &foreign[..] {
                [one] => format!("{one} was"),
                all => format!("{} were", all.join(", ")),
            }
        ));
    }
    fs::create_dir_all(folder)
        .map_err(|error| format!("--output: {} can't be created: {error}", folder.display()))?;
    for (path, text) in texts {
        output::replace(&path, &format!("{MARK}{text}")).map_err(|error| error.to_string())?;
        report(format_args!("wrote {}", path.display()));
    }
    Ok(())
}

/// True for an existing file that this command did not write.
fn is_foreign(path: &Path) -> bool {
    match fs::read(path) {
        Ok(bytes) => !bytes.starts_with(MARK.as_bytes()),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Flags of `manifests` that determine an installation's names, for `check` and `uninstall`.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct InstalledFlags {
    /// Namespace of the injector
    #[arg(long, value_name = "NAME", default_value = NAMESPACE)]
    pub(crate) namespace: String,
    /// Revision of the injector
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) revision: String,
    /// Another name of the revision, as for manifests; repeatable
    #[arg(long = "tag", value_name = "NAME")]
    pub(crate) tags: Vec<String>,
    /// The webhook configurations have istiod's names, as with manifests --istio-names
    #[arg(long)]
    pub(crate) istio_names: bool,
}

/// Placeholder: names don't depend on images.
const ANY_IMAGE: &str = "any/image:1";

impl InstalledFlags {
    pub(crate) fn installation(
        &self,
        names_namespace: bool,
        has_environment_tag: bool,
        has_operator: bool,
    ) -> Result<Installation, Problems> {
        let values = json!({
            "image": ANY_IMAGE, "proxyImage": ANY_IMAGE, "revision": self.revision, "tags": self.tags,
            "environmentLabels": Vec::from_iter(has_environment_tag.then_some("virtual-env")),
            "operator": { "enabled": has_operator }, "istioNames": self.istio_names,
        });
        Installation::read(&self.namespace, names_namespace, values)
    }
}

#[derive(Args, Debug)]
pub(crate) struct UninstallFlags {
    #[command(flatten)]
    installed: InstalledFlags,
    /// Also delete the namespace, with everything in it
    #[arg(long)]
    delete_namespace: bool,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = ObjectFormat::Yaml)]
    output: ObjectFormat,
}

/// Prints the objects to delete, in order, for `kubectl delete -f -`. Needs no cluster.
pub(crate) fn uninstall(flags: &UninstallFlags) -> Result<ExitCode, Box<dyn Error>> {
    let objects = removed(&flags.installed.installation(flags.delete_namespace, false, false)?);
    print(&output::objects(&objects, flags.output))?;
    Ok(ExitCode::SUCCESS)
}
