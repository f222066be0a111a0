//! Subject of a question: a configuration from flags, or each pod of a manifest with flags that override its settings.

use crate::explain::{
    ApplicationUser, Explanation, PacketQuery, PodContext, QuestionContext, RuleView, explain, packet,
};
use crate::{basis::Basis, picture, picture::Picture};
use mesh::pod::{Application, EXCLUDED_NAMESPACES, GivenSettings, ManifestObject, Reading, Skip};
use mesh::settings::{Setting, counterparts};
use mesh::sources::{Dialect, Given, Host, ObjectPlace, Raw, RemoteHost, SettingReader, Source};
use mesh::{Capture, InputProblem, Mesh, Problems, pod};
use rules::finding::{Code, Finding};
use rules::simulate::Packet;

/// Creates the host that provides undeclared facts, if no manifest describes a pod.
pub type HostOf = fn(&Raw) -> Box<dyn Host>;

#[derive(Clone)]
pub struct Subject {
    /// Kind, namespace and name of the object.
    pub title: Option<String>,
    /// Location of the object; `None` for flags.
    pub place: Option<ObjectPlace>,
    pub raw: Raw,
    /// Problems found before values are parsed.
    pub before: Vec<InputProblem>,
    reading: Option<Reading>,
    machine: HostOf,
}

impl Subject {
    /// Subject from only flags, on the current machine. `problems` concern the flags' syntax.
    pub fn of_flags(raw: Raw, problems: Vec<InputProblem>, machine: HostOf) -> Self {
        Self { title: None, place: None, raw, before: problems, reading: None, machine }
    }

    /// Pods of a manifest, at least one, with flags that override their settings; `name` names the manifest in messages.
    pub fn of_manifest(
        raw: &Raw,
        problems: &[InputProblem],
        name: &str,
        text: &str,
        machine: HostOf,
    ) -> Result<Vec<Self>, Problems> {
        let objects =
            pod::objects(name, text).map_err(|found| Problems([problems, &found.0[..]].concat()))?;
        Ok(objects.iter().map(|object| Self::of_object(raw, problems, object, machine)).collect())
    }

    /// A pod with flags that override its settings.
    pub fn of_object(raw: &Raw, problems: &[InputProblem], object: &ManifestObject, machine: HostOf) -> Self {
        let reading = pod::read(object, EXCLUDED_NAMESPACES);
        let settings = GivenSettings::from(raw.clone()).over(reading.settings.clone());
        let problems = problems.iter().cloned().chain(foreign(raw, settings.raw.mesh()));
        let before = problems.chain(settings.problems()).collect();
        Self {
            title: Some(object.origin.title.clone()),
            place: object.origin.place.clone(),
            raw: settings.raw,
            before,
            reading: Some(reading),
            machine,
        }
    }

    /// Basis, if it is a pod or flags; `None` if the question concerns the existing rules.
    pub fn described(&self) -> Option<Basis> {
        match &self.title {
            Some(title) => Some(Basis::Object(title.clone())),
            None => self.raw.describes_rules().then_some(Basis::Flags),
        }
    }

    /// `None` for the current namespace.
    pub fn namespace(&self) -> Option<String> {
        let given = self.raw.get(Setting::NetworkNamespace)?;
        (!given.value.is_empty()).then(|| given.value.clone())
    }

    pub fn warnings_of_form(&self) -> &[Finding] {
        self.reading.as_ref().map_or(&[], |reading| &reading.warnings)
    }

    pub fn applications(&self) -> &[Application] {
        self.reading.as_ref().map_or(&[], |reading| &reading.applications)
    }

    pub fn reading(&self) -> Option<&Reading> {
        self.reading.as_ref()
    }

    /// Assumption about a pod that has neither addresses in its manifest nor a network namespace to read.
    pub fn assumption(&self) -> Option<&'static str> {
        let is_described = self.reading.is_some() && self.skip().is_none() && self.namespace().is_none();
        let unknown = is_described && self.raw.get(Setting::PodIps).is_none();
        unknown.then_some(
            "its addresses are unknown: assuming IPv4, plus IPv6 if its settings request it; set addresses with --pod-ips",
        )
    }

    /// Reason why nothing of the pod is ever captured.
    pub fn skip(&self) -> Option<&Skip> {
        self.reading.as_ref()?.skip.as_ref().filter(|skip| !skip.is_before_injection())
    }

    pub fn dialect(&self) -> Dialect {
        Dialect::of(&self.raw)
    }

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

    /// Host that provides facts; unknown for a pod that is described elsewhere.
    pub fn host(&self) -> Box<dyn Host> {
        match self.reading {
            Some(_) if self.namespace().is_none() => RemoteHost::host(&self.raw),
            Some(_) | None => (self.machine)(&self.raw),
        }
    }

    pub fn explain<'a>(&self, rule_view: &'a RuleView, query: &'a PacketQuery) -> Explanation<'a> {
        let mut remarks = self.warnings_of_form().iter();
        let doubt = remarks.find(|remark| remark.code == Code::OwnNetworkStack);
        explain(&rule_view.view, &rule_view.routing, &query.packet)
            .with_endpoint_names(&query.endpoint_names)
            .in_words_of(&self.dialect())
            .of_skipped(self.skip())
            .in_doubt(doubt.map(|remark| remark.text.as_str()))
            .over(rule_view, query)
    }
}

fn foreign(flags: &Raw, mesh: Mesh) -> Vec<InputProblem> {
    let foreign = flags.iter().filter(|(setting, _)| !setting.is_for(mesh));
    let problem = |(setting, given): (Setting, &Given)| {
        let of = setting.mesh().unwrap_or_default();
        let same = counterparts(setting, mesh);
        let remedy = match same.is_empty() {
            true => format!("drop it: {mesh} has no counterpart"),
            false => format!("add --mesh {mesh} and use {}", same.join(" or ")),
        };
        let text = format!("is a flag of {of}, but the pod belongs to {mesh}; {remedy}");
        InputProblem::of(&flags.named(&given.source), text)
    };
    foreign.map(problem).collect()
}

/// Prepares each subject, and returns the problems of all at once, without duplicates.
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

pub struct SubjectPacket {
    pub subject: Subject,
    /// Heading of the answer, if there are several.
    pub title: Option<String>,
    pub destination: usize,
    pub user: Option<ApplicationUser>,
    pub is_first: bool,
}

impl SubjectPacket {
    /// Packets to these destinations, or the packet that settings describe.
    pub fn all(subject: &Subject, destinations: &[String]) -> Vec<Self> {
        let users = ApplicationUser::all(subject.applications());
        let users = if users.is_empty() { vec![None] } else { users.into_iter().map(Some).collect() };
        let mut all = Vec::new();
        for destination in 0..destinations.len().max(1) {
            let (mut subject, mut title) = (subject.clone(), subject.title.clone());
            if let [_, _, ..] = destinations {
                let source = Source::Flag(Setting::Destination.row().long);
                let given = Given { value: destinations[destination].clone(), source };
                title = Some(headed(title.as_deref(), &given.value));
                subject.raw = Raw::of([(Setting::Destination, given)]).over(subject.raw);
            }
            for user in users.iter().cloned() {
                let (subject, title, is_first) = (subject.clone(), title.clone(), all.is_empty());
                all.push(Self { subject, title, destination, user, is_first });
            }
        }
        all
    }

    /// Keeps one answer if the users make no difference; otherwise, titles name the user.
    pub fn distinct<T>(mut all: Vec<(Self, T)>, packet: impl Fn(&T) -> Option<&Packet>) -> Vec<(Self, T)> {
        all.dedup_by(|(next, of_next), (before, of_before)| {
            !next.is_first
                && next.destination == before.destination
                && packet(of_next).is_some_and(|next| Some(next) == packet(of_before))
        });
        let titles: Vec<Option<String>> = all.iter().map(|(one, _)| one.title.clone()).collect();
        for (Self { title, user, .. }, _) in &mut all {
            let is_of_several = titles.iter().filter(|one| *one == title).count() > 1;
            if let Some(user) = user.take_if(|_| is_of_several) {
                *title = Some(headed(title.as_deref(), &user.to_string()));
            }
        }
        all
    }
}

fn headed(of: Option<&str>, what: &str) -> String {
    of.map_or_else(|| what.to_owned(), |of| format!("{of}: {what}"))
}

pub struct Prepared {
    pub capture: Capture,
    pub pod: PodContext,
    pub packet: Option<PacketQuery>,
    pub warnings: Vec<String>,
}

impl Prepared {
    /// Parses a subject with this user, and the packet if `asks`. Fails with all problems.
    pub fn of(subject: &Subject, user: Option<&ApplicationUser>, asks: bool) -> Result<Self, Problems> {
        let mut reader = SettingReader::new(&subject.raw, subject.before.clone());
        let host = subject.host();
        let capture = mesh::configure(&mut reader, &*host, false);
        let pod = PodContext::from_settings(&subject.raw, Some(&*capture), Some(&*host));
        let pod = user.into_iter().fold(pod, PodContext::with_application);
        let place = QuestionContext { pod: &pod, routes: &pod, names: &|_| None };
        let packet = if asks { packet(&mut reader, &place) } else { None };
        let warnings = reader.finish()?;
        Ok(Self { capture, pod, packet, warnings })
    }
}
