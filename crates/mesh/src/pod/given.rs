//! The settings of a pod, and what is wrong with their form before they are understood; and understood, the capture that they make.

use crate::registry::{self, Resolved};
use crate::settings::Setting;
use crate::sources::{Given, Host, Raw, SettingReader, Source};
use crate::{InputProblem, Problems};

/// Settings that were given, and what is wrong with how they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenSettings {
    pub raw: Raw,
    faults: Vec<SettingFault>,
    /// Problems that were found before it came to settings.
    before: Vec<InputProblem>,
}

/// A problem with the value of a setting; of none, where it is unknown which setting it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SettingFault {
    setting: Option<Setting>,
    source: Source,
    item: Option<String>,
    text: String,
}

impl GivenSettings {
    /// Nothing, by a pod of this name.
    pub(crate) fn by(pod: &str) -> Self {
        Self { raw: Raw::default().of_pod(pod), ..Self::default() }
    }

    pub(crate) fn set(&mut self, setting: Setting, value: impl Into<String>, source: Source) {
        let given = Given { value: value.into(), source };
        self.raw = Raw::of([(setting, given)]).over(std::mem::take(&mut self.raw));
    }

    pub(super) fn fault(
        &mut self,
        setting: Option<Setting>,
        source: Source,
        item: Option<&str>,
        text: impl Into<String>,
    ) {
        self.faults.push(SettingFault { setting, source, item: item.map(str::to_owned), text: text.into() });
    }

    /// These words, and for every other setting those `below`.
    pub fn over(self, below: Self) -> Self {
        let mut faults = self.faults;
        faults.extend(below.faults.into_iter().filter(|fault| match fault.setting {
            Some(setting) => self.raw.get(setting).is_none(),
            None => true,
        }));
        let before = self.before.into_iter().chain(below.before).collect();
        Self { raw: self.raw.over(below.raw), faults, before }
    }

    /// Adds problems with annotations of the pod that were found before it came to settings.
    pub(crate) fn add_problems(&mut self, problems: Vec<InputProblem>) {
        let of_pod = |InputProblem { name, item, text }| {
            let name = self.raw.named(&Source::Annotation(name));
            InputProblem { name, item, text }
        };
        self.before.extend(problems.into_iter().map(of_pod));
    }

    /// The same, given after such problems.
    pub(super) fn after(mut self, problems: &[InputProblem]) -> Self {
        self.before.extend_from_slice(problems);
        self
    }

    /// What is wrong, before the problems with the settings' values.
    pub fn problems(&self) -> Vec<InputProblem> {
        let problem = |fault: &SettingFault| {
            let name = self.raw.named(&fault.source);
            InputProblem::about(&name, fault.item.as_deref(), &fault.text)
        };
        Problems::first(self.before.iter().cloned().chain(self.faults.iter().map(problem)))
    }

    /// Resolves them. Users and groups are numbers: their names are not known outside of a pod.
    ///
    /// # Errors
    /// Every problem found.
    pub fn resolve(&self, host: &dyn Host) -> Result<Resolved, Problems> {
        self.resolved(host, true)
    }

    /// Resolves them as the pod does when it starts: `host` looks up the names of users and groups there.
    ///
    /// # Errors
    /// Every problem found.
    pub fn resolve_within(&self, host: &dyn Host) -> Result<Resolved, Problems> {
        self.resolved(host, false)
    }

    fn resolved(&self, host: &dyn Host, numbers_only: bool) -> Result<Resolved, Problems> {
        let mut reader = SettingReader::new(&self.raw, self.problems());
        let capture = registry::configure(&mut reader, host, numbers_only);
        let warnings = reader.finish()?;
        Ok(Resolved { capture, warnings })
    }
}

impl From<Raw> for GivenSettings {
    fn from(raw: Raw) -> Self {
        Self { raw, ..Self::default() }
    }
}
