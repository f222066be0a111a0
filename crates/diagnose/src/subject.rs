//! The subject of a question: what flags configure, or each pod of a manifest with the flags over it.

use crate::basis::Basis;
use crate::explain::PodContext;
use crate::picture::{self, Picture};
use mesh::pod::{self, Application, EXCLUDED_NAMESPACES, GivenSettings, ManifestObject, Reading, Skip};
use mesh::settings::{Setting, counterparts};
use mesh::sources::{Dialect, Given, Host, Raw, RemoteHost};
use mesh::{Capture, InputProblem, Mesh, Problems};
use rules::finding::Finding;

/// Makes the host that answers what is not declared, where no manifest describes a pod.
pub type HostOf = fn(&Raw) -> Box<dyn Host>;

#[derive(Clone)]
pub struct Subject {
    /// The object's kind, namespace and name.
    pub title: Option<String>,
    pub raw: Raw,
    /// Problems before it comes to values.
    pub before: Vec<InputProblem>,
    reading: Option<Reading>,
    machine: HostOf,
}

impl Subject {
    /// The subject that flags alone configure on the machine where they are read. `problems` are those of their form.
    pub fn of_flags(raw: Raw, problems: Vec<InputProblem>, machine: HostOf) -> Self {
        Self { title: None, raw, before: problems, reading: None, machine }
    }

    /// The pods of a manifest, which `name` names in messages, with the flags over their settings.
    ///
    /// # Errors
    /// When it is not a manifest, or describes no pod.
    pub fn of_manifest(
        raw: &Raw,
        problems: &[InputProblem],
        name: &str,
        text: &str,
        machine: HostOf,
    ) -> Result<Vec<Self>, Problems> {
        let objects =
            pod::objects(name, text).map_err(|found| Problems([problems, &found.0[..]].concat()))?;
        let subject = |object: &ManifestObject| {
            let reading = pod::read(object, EXCLUDED_NAMESPACES);
            let settings = GivenSettings::from(raw.clone()).over(reading.settings.clone());
            let problems = problems.iter().cloned().chain(foreign(raw, settings.raw.mesh()));
            let before = problems.chain(settings.problems()).collect();
            Self {
                title: Some(object.title.clone()),
                raw: settings.raw,
                before,
                reading: Some(reading),
                machine,
            }
        };
        Ok(objects.iter().map(subject).collect())
    }

    /// The basis, if it is a pod or flags; `None` where the question is about the rules that are there.
    pub fn described(&self) -> Option<Basis> {
        match &self.title {
            Some(title) => Some(Basis::Object(title.clone())),
            None => self.raw.describes_rules().then_some(Basis::Flags),
        }
    }

    /// `None` for the current one.
    pub fn namespace(&self) -> Option<String> {
        let given = self.raw.get(Setting::NetworkNamespace)?;
        (!given.value.is_empty()).then(|| given.value.clone())
    }

    pub fn warnings_of_form(&self) -> &[Finding] {
        self.reading.as_ref().map_or(&[], |reading| &reading.warnings)
    }

    /// The containers of the pod that run beside its proxy.
    pub fn applications(&self) -> &[Application] {
        self.reading.as_ref().map_or(&[], |reading| &reading.applications)
    }

    /// `None` for flags.
    pub fn reading(&self) -> Option<&Reading> {
        self.reading.as_ref()
    }

    /// The assumption about a pod whose manifest has no addresses, and that is in no network namespace which has them.
    pub fn assumption(&self) -> Option<&'static str> {
        let is_described = self.reading.is_some() && self.skip().is_none() && self.namespace().is_none();
        let unknown = is_described && self.raw.get(Setting::PodIps).is_none();
        unknown.then_some(
            "its addresses are not known: assuming IPv4, and IPv6 if it asks for both; set them with --pod-ips",
        )
    }

    /// The reason why nothing of the pod is ever captured.
    pub fn skip(&self) -> Option<&Skip> {
        self.reading.as_ref()?.skip.as_ref().filter(|skip| !skip.is_before_injection())
    }

    pub fn dialect(&self) -> Dialect {
        Dialect::of(&self.raw)
    }

    /// All traffic of the pod, or of one with these flags.
    pub fn traffic(&self, config: &Capture, pod: &PodContext) -> Picture {
        let picture = match self.skip() {
            Some(reason) => picture::of_skipped(&reason.to_string()),
            None => picture::of(config, &self.dialect(), pod),
        };
        match &self.title {
            Some(title) => picture.of_object(title),
            None => picture,
        }
    }

    /// The host to ask for facts: those of a pod that is described elsewhere are not known.
    pub fn host(&self) -> Box<dyn Host> {
        match self.reading {
            Some(_) if self.namespace().is_none() => RemoteHost::host(&self.raw),
            Some(_) | None => (self.machine)(&self.raw),
        }
    }
}

/// Flags of another mesh than that of the pod to which they are added.
fn foreign(flags: &Raw, mesh: Mesh) -> Vec<InputProblem> {
    let foreign = flags.iter().filter(|(setting, _)| !setting.is_for(mesh));
    let problem = |(setting, given): (Setting, &Given)| {
        let of = setting.mesh().unwrap_or_default();
        let same = counterparts(setting, mesh);
        let remedy = match same.is_empty() {
            true => format!("drop it, as {mesh} has nothing like it"),
            false => format!("add --mesh {mesh} and use {}", same.join(" or ")),
        };
        let text = format!("is {of}'s, and the pod is {mesh}'s; {remedy}");
        InputProblem::of(&flags.named(&given.source), text)
    };
    foreign.map(problem).collect()
}

/// Does the same for each subject, and returns the problems of all at once, those of flags once.
///
/// # Errors
/// Every problem found.
pub fn each<'a, S: 'a, T>(
    subjects: impl IntoIterator<Item = &'a S>,
    prepare: impl Fn(&'a S) -> Result<T, Problems>,
) -> Result<Vec<T>, Problems> {
    let (mut prepared, mut problems) = (Vec::new(), Vec::new());
    for subject in subjects {
        match prepare(subject) {
            Ok(done) => prepared.push(done),
            Err(Problems(found)) => problems.extend(found),
        }
    }
    Problems::check(problems).map(|()| prepared)
}
