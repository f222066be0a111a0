//! What each verb does for an attachment: ADD sets the rules, CHECK compares them, DEL removes them.

use super::{
    Done, lookup,
    namespace::{self, Entered, choice, enter_existing},
    protocol::{self, Attachment, Code, Configuration, Fault, Target},
    state::{Key, Known, Record, State},
    wanted::{Understood, Wanted, understand, wanted},
};
use policy::mesh::{self, Mesh, OWNERS, Policy};
use rules::{Ownership, desired::Desired};
use sidecar_init::{
    backend::Kernel,
    engine::{self, Choice, OnDrift, Options},
};
use std::{
    path::Path,
    time::{Duration, SystemTime},
};

/// What a call has to work with.
pub(super) struct Scene<'a> {
    pub(super) state: &'a State,
    pub(super) timeout: Duration,
}

impl Scene<'_> {
    /// ADD: the container's traffic is captured from here on.
    ///
    /// # Errors
    /// When it is not. The namespace is as it was then, unless the fault says otherwise.
    pub(super) fn add(
        &self,
        target: &Target,
        netns: &Path,
        configuration: &Configuration<'_>,
    ) -> Result<Done, Fault> {
        let skipped = |reason: String| Done::new("skipped", reason).answering(result(configuration));
        let (raw, problems) = match self.wanted(configuration, target)? {
            Wanted::Nothing(reason) => return Ok(skipped(reason)),
            Wanted::Capture(raw, problems) => (raw, problems),
        };
        enter_existing(netns)?;
        let Understood { capture, raw, warnings } = understand(raw, problems, &namespace::addresses()?)?;
        if capture.captures_nothing() {
            return Ok(skipped("its settings capture nothing".to_owned()));
        }
        warnings.iter().for_each(|warning| tracing::warn!(target: "config", "{warning}"));
        let mut kernel = namespace::open(self.timeout, capture.owner())?;
        let key = key(target, &configuration.name);
        self.is_first_or_again(&key, capture.mesh())?;
        let record = Record::new(target.pod.label(), configuration.backend, &raw);
        self.state.keep(&key, &record).map_err(|error| unkept(&error))?;
        let options = Options {
            choice: choice(configuration.backend),
            on_drift: OnDrift::Replace,
            anew: false,
            others: OWNERS,
        };
        let at = policy::trace::utc(SystemTime::now());
        let made = mesh::made(env!("CARGO_PKG_VERSION"), "cni-add", mesh::said(&raw), &at);
        let desired = Desired { made: Some(made), ..capture.desired() };
        let summary = engine::apply(&mut kernel, &desired, &options)
            .map_err(|error| namespace::failed("the container's traffic can't be captured", &error))?;
        warn_of_rivals(&mut kernel, &capture.owner());
        let backend = summary.backend.map(|backend| backend.to_string()).unwrap_or_default();
        let how = if summary.steps.is_empty() { "was in place" } else { "is in place" };
        let reason = format!("{} rules, {backend}: {how}", summary.rules);
        Ok(Done::new("captured", reason).answering(result(configuration)))
    }

    /// Sees to it that nothing was set here for another mesh. What is known of an attachment names one mesh, so that DEL
    /// removes that one's rules and no others.
    fn is_first_or_again(&self, key: &Key, mesh: Mesh) -> Result<(), Fault> {
        match self.state.known(key).map_err(|error| unknown(&error))?.mesh() {
            Some(earlier) if earlier != mesh => {
                let msg = format!(
                    "an earlier ADD has captured this container for {}, and {} is asked for now",
                    earlier.ownership().name,
                    mesh.ownership().name
                );
                Err(Fault::new(Code::Configuration, msg, "DEL removes what is there; call ADD after it"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn wanted(&self, configuration: &Configuration<'_>, target: &Target) -> Result<Wanted, Fault> {
        // The rest is for what comes then.
        let time = self.timeout.mul_f64(0.75);
        wanted(configuration, &target.pod, |kubeconfig, pod| {
            lookup::pod(&super::beside(super::NODE_PROGRAM), kubeconfig, pod, time)
        })
    }

    /// CHECK: the rules are those that ADD has made.
    ///
    /// # Errors
    /// When they are not, or can't be read.
    pub(super) fn check(
        &self,
        target: &Target,
        netns: &Path,
        configuration: &Configuration<'_>,
    ) -> Result<Done, Fault> {
        let recorded = match self
            .state
            .known(&key(target, &configuration.name))
            .map_err(|error| unknown(&error))?
        {
            Known::Whole(record) => Some(record),
            Known::Nothing => None,
            Known::Torn(why) => {
                tracing::warn!(target: "state", "what ADD has written can't be read ({why}); worked out again");
                None
            }
        };
        let (backend, raw, problems) = match &recorded {
            Some(record) => (record.backend().unwrap_or(configuration.backend), record.raw(), Vec::new()),
            None => match self.wanted(configuration, target)? {
                Wanted::Nothing(reason) => return Ok(Done::new("skipped", reason)),
                Wanted::Capture(raw, problems) => (configuration.backend, raw, problems),
            },
        };
        enter_existing(netns)?;
        // What is recorded holds the addresses of then.
        let addresses = if recorded.is_some() { Vec::new() } else { namespace::addresses()? };
        let Understood { capture, .. } = understand(raw, problems, &addresses)?;
        let mut kernel = namespace::open(self.timeout, capture.owner())?;
        let compared = compare(&mut kernel, &*capture, choice(backend))?;
        warn_of_rivals(&mut kernel, &capture.owner());
        Ok(compared)
    }

    /// DEL: nothing of ours is left, in the namespace if it is there, and on the node. What can't be known of a container
    /// that is gone is no reason to fail.
    ///
    /// # Errors
    /// When something of ours is left.
    pub(super) fn del(&self, target: &Target, netns: Option<&Path>, network: &str) -> Result<Done, Fault> {
        let key = key(target, network);
        let known = self.state.known(&key).map_err(|error| unknown(&error))?;
        if known == Known::Nothing {
            return Ok(Done::new("nothing", "nothing was done for it".to_owned()));
        }
        let (outcome, reason) = match netns {
            _ if self.is_shared(&key, &known)? => {
                ("forgotten", "another attachment of the container has the rules".to_owned())
            }
            None => ("forgotten", "no namespace was named".to_owned()),
            Some(path) => match namespace::enter(path)? {
                Entered::Gone => ("forgotten", "its namespace is gone".to_owned()),
                Entered::Inside => {
                    // Where nobody can read what was set, it may be any mesh's.
                    let owner = known
                        .mesh()
                        .map_or_else(|| Mesh::default().ownership().joined_with(OWNERS), Mesh::ownership);
                    let mut kernel = namespace::open(self.timeout, owner)?;
                    let cleaned = engine::clean(&mut kernel, owner, OWNERS);
                    let summary =
                        cleaned.map_err(|error| namespace::failed("our rules can't be removed", &error))?;
                    ("cleaned", format!("{} steps", summary.steps.len()))
                }
            },
        };
        self.state.forget(&key).map_err(|error| unkept(&error))?;
        Ok(Done::new(outcome, reason))
    }

    /// Whether another attachment of the container has the rules of the same mesh, or may have them.
    fn is_shared(&self, key: &Key, known: &Known) -> Result<bool, Fault> {
        let others = self.state.keys().map_err(|error| unknown(&error))?;
        for other in others.iter().filter(|other| *other != key && other.is_of(&key.attachment.container)) {
            let theirs = self.state.known(other).map_err(|error| unknown(&error))?;
            let differs =
                matches!((known.mesh(), theirs.mesh()), (Some(ours), Some(theirs)) if ours != theirs);
            if theirs != Known::Nothing && !differs {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn key(target: &Target, network: &str) -> Key {
    let Target { container, interface, .. } = target;
    let attachment = Attachment { container: container.clone(), interface: interface.clone() };
    Key { network: network.to_owned(), attachment }
}

fn result(configuration: &Configuration<'_>) -> String {
    protocol::result(configuration.before, configuration.version)
}

fn compare(kernel: &mut Kernel, capture: &dyn Policy, choice: Choice) -> Result<Done, Fault> {
    let compared = engine::check(kernel, &capture.desired(), choice)
        .map_err(|error| namespace::failed("the rules can't be compared", &error))?;
    if compared.differences.is_empty() {
        return Ok(Done::new("equal", String::new()));
    }
    let msg = "the container's rules are not those that ADD has made: its traffic may pass the proxy by";
    Err(Fault::new(Code::Drift, msg, compared.differences))
}

/// What of others comes before our rules. No change of ours can mend it.
fn warn_of_rivals(kernel: &mut Kernel, owner: &Ownership) {
    match engine::rivals(kernel, owner) {
        Ok(rivals) => rivals.iter().for_each(|rival| tracing::warn!(target: "iptables", "{rival}")),
        Err(error) => {
            tracing::warn!(target: "iptables", "whether rules of others come before ours can't be told: {error}");
        }
    }
}

fn unkept(error: &std::io::Error) -> Fault {
    Fault::caused(Code::Io, "the state directory can't be written (state_dir)", error)
}

pub(super) fn unknown(error: &std::io::Error) -> Fault {
    Fault::caused(Code::Io, "the state directory can't be read (state_dir)", error)
}
