//! `-f FILE`: what pods of a manifest say, where flags would say it.

use super::data::{self, Answer, Answers, Encoding, Tree};
use super::host::System;
use super::run::Logging;
use super::{Exit, logging::Stdout, report, start_logging, yaml};
use policy::pod::{self, EXCLUDED_NAMESPACES, Reading, Said, Skip};
use policy::sources::{Dialect, Given, Host, Raw, Reader, Source};
use policy::{Problem, Problems, Setting};
use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// What a command is asked about: flags, or an object of a manifest with the flags over it.
pub(super) struct Subject {
    /// The object's kind, namespace and name.
    pub(super) title: Option<String>,
    pub(super) raw: Raw,
    /// What is wrong before it comes to values.
    pub(super) before: Vec<Problem>,
    reading: Option<Reading>,
}

/// The subjects of a call: one, where no manifest is given.
///
/// # Errors
/// When the manifest can't be read, or describes no pod.
pub(super) fn subjects(raw: Raw, problems: Vec<Problem>) -> Result<Vec<Subject>, Problems> {
    let Some(Given { value: file, source }) = raw.get(Setting::Filename).cloned() else {
        return Ok(vec![Subject { title: None, raw, before: problems, reading: None }]);
    };
    let with = |mut found: Vec<Problem>| {
        found.splice(0..0, problems.iter().cloned());
        Problems(found)
    };
    let text = match read(&file) {
        Ok(text) => text,
        Err(error) => {
            let text = format!("can't be read: {error}; expected a manifest as YAML or JSON, or - for input");
            let mut reader = Reader::new(&raw, problems);
            reader.problem(&source, &file, text);
            return reader.finish().map(|_| Vec::new());
        }
    };
    let name = if file == "-" { "input" } else { &file };
    let objects = pod::objects(name, &text).map_err(|found| with(found.0))?;
    let subject = |object: &pod::Object| {
        let reading = pod::read(object, EXCLUDED_NAMESPACES);
        let said = Said::from(raw.clone()).over(reading.said.clone());
        let before = problems.iter().cloned().chain(said.problems()).collect();
        Subject { title: Some(object.title.clone()), raw: said.raw, before, reading: Some(reading) }
    };
    Ok(objects.iter().map(subject).collect())
}

fn read(file: &str) -> io::Result<String> {
    match file {
        "-" => io::read_to_string(io::stdin()),
        path => fs::read_to_string(path),
    }
}

/// Does the same for each subject, and tells the problems of all at once, those of flags once.
///
/// # Errors
/// Every problem found.
pub(super) fn each<'a, T>(
    subjects: &'a [Subject],
    prepare: impl Fn(&'a Subject) -> Result<T, Problems>,
) -> Result<Vec<T>, Problems> {
    let (mut prepared, mut problems) = (Vec::new(), Vec::new());
    for subject in subjects {
        match prepare(subject) {
            Ok(done) => prepared.push(done),
            Err(Problems(found)) => {
                let new = found.into_iter().filter(|problem| !problems.contains(problem)).collect::<Vec<_>>();
                problems.extend(new);
            }
        }
    }
    if problems.is_empty() { Ok(prepared) } else { Err(Problems(problems)) }
}

/// The only subject there is, for what can be done to one network namespace.
///
/// # Errors
/// When there are several.
pub(super) fn only(subjects: &[Subject]) -> Result<&Subject, Problems> {
    match subjects {
        [subject] => Ok(subject),
        several => {
            let titles: Vec<&str> = several.iter().filter_map(|subject| subject.title.as_deref()).collect();
            let text = format!(
                "describes {} pods ({}), and a network namespace is one pod's; give one",
                several.len(),
                titles.join(", ")
            );
            Err(Problems(vec![Problem::of(&Source::Flag(Setting::Filename.row().long), text)]))
        }
    }
}

/// Starts logging, and tells first what is odd about the input.
///
/// # Errors
/// When a log file can't be opened.
pub(super) fn begin<'a>(
    subjects: &[Subject],
    logging: &Logging,
    warnings: impl IntoIterator<Item = &'a Vec<String>>,
    stdout: Stdout,
) -> Result<(), Problems> {
    if let [subject, ..] = subjects {
        start_logging(&subject.raw, logging, stdout)?;
    }
    subjects.iter().zip(warnings).for_each(|(subject, warnings)| subject.warn(warnings));
    Ok(())
}

impl Subject {
    /// Tells what is odd about it: how the pod says it, and `warnings` about what it says.
    pub(super) fn warn(&self, warnings: &[String]) {
        let of = self.title.as_ref().map(|title| format!("{title}: ")).unwrap_or_default();
        for warning in self.warnings_of_form() {
            tracing::warn!(target: "manifest", "{of}{warning}");
        }
        for warning in warnings {
            tracing::warn!(target: "config", "{of}{warning}");
        }
        if self.reading.is_some() && self.skip().is_none() && self.raw.get(Setting::PodIps).is_none() {
            tracing::info!(
                target: "manifest",
                "{of}its addresses are not known: it is taken for a pod with IPv4, and IPv6 where it asks for both; say them \
                 with --pod-ips"
            );
        }
    }

    /// What is odd about how the pod says it.
    pub(super) fn warnings_of_form(&self) -> &[String] {
        self.reading.as_ref().map_or(&[], |reading| &reading.warnings)
    }

    /// Why nothing of the pod is ever captured.
    pub(super) fn skip(&self) -> Option<&Skip> {
        self.reading.as_ref()?.skip.as_ref().filter(|skip| !skip.is_before_injection())
    }

    /// The names by which its author speaks.
    pub(super) fn dialect(&self) -> Dialect {
        Dialect::of(&self.raw)
    }

    /// Whom to ask for facts: nobody knows those of a pod that is described elsewhere.
    pub(super) fn host(&self) -> Box<dyn Host> {
        let here = self.raw.get(Setting::NetworkNamespace).is_some_and(|given| !given.value.is_empty());
        match self.reading {
            Some(_) if !here => Box::new(Elsewhere { dual_stack: self.raw.is_on(Setting::DualStack) }),
            Some(_) | None => Box::new(System),
        }
    }
}

/// The machine on which a pod of a manifest may run.
struct Elsewhere {
    dual_stack: bool,
}

/// Addresses that nobody has (RFC 5737, RFC 3849).
const STAND_IN: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(198, 51, 100, 7), Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 7));

impl Host for Elsewhere {
    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        let ipv6 = self.dual_stack.then_some(IpAddr::V6(STAND_IN.1));
        Ok([IpAddr::V4(STAND_IN.0)].into_iter().chain(ipv6).collect())
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Err(io::Error::other("it is the pod's, which does not run here"))
    }
}

/// One subject's part of an answer.
pub(super) struct Section {
    pub(super) title: Option<String>,
    /// Text, or a document as JSON, as the command was asked for.
    pub(super) body: String,
}

/// Prints text: a single section as it is, of several each behind its heading.
pub(super) fn print(sections: &[Section], heading: impl Fn(&str) -> String) -> Exit {
    match sections {
        [Section { body, .. }] => report::text(body),
        several => {
            let part = |section: &Section| {
                let title = section.title.as_deref().unwrap_or_default();
                format!("{}\n{}", heading(title), section.body)
            };
            report::text(&several.iter().map(part).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// Prints data: a single section as it is, of several a list, each with its name and what is said of it.
pub(super) fn print_data(encoding: Encoding, sections: &[Section]) -> Exit {
    match (sections, encoding) {
        ([Section { body, .. }], Encoding::Json) => report::text(body),
        ([Section { body, .. }], Encoding::Yaml) => report::text(&yaml::block(&Tree::read(body))),
        (several, _) => {
            let answers = several.iter().map(|Section { title, body }| Answer {
                object: title.as_deref().unwrap_or_default(),
                answer: Tree::read(body),
            });
            report::text(&data::document(encoding, &Answers { answers: answers.collect() }))
        }
    }
}
