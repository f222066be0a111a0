//! The rules of the namespace, as a trace needs them: read at its start, and again when they have changed.

use crate::cli::{host::System, rule_views::live_routing, run::Run};
use diagnose::explain::PodContext;
use diagnose::trace::{Block, Rules};
use mesh::Host;
use mesh::recognition::named;
use rules::Family;
use rules::routing::Object;
use rules::simulate::{At, Routing, View};
use sidecar_init::{
    backend::{self, Kernel},
    engine::RuleIndex,
    sys::owner_ids::OwnerIds,
};
use std::collections::BTreeSet;

/// Rules and routing of the namespace, if they can be read.
pub(super) struct KnownRules<'a> {
    run: &'a Run,
    pub(super) read: Result<LiveRules, backend::Error>,
}

pub(super) struct LiveRules {
    kernel: Kernel,
    pub(super) index: RuleIndex,
    routes: BTreeSet<Object>,
    pod: PodContext,
}

impl<'a> KnownRules<'a> {
    pub(super) fn read(run: &'a Run) -> Self {
        Self { run, read: read(run) }
    }

    /// Describes a packet. Where it met a rule that did not exist when the rules were read, reads them again and retries.
    pub(super) fn describe(
        &mut self,
        describe: impl Fn(Option<&dyn Rules>) -> Result<Block, Box<Block>>,
    ) -> Block {
        let described = |known: &Self| describe(known.read.as_ref().ok().map(|read| read as &dyn Rules));
        let mut block = described(self).unwrap_or_else(|block| match self.is_old() {
            true => {
                self.read = read(self.run);
                described(self).unwrap_or_else(|block| *block)
            }
            false => *block,
        });
        let sender = block.uid.zip(block.gid);
        let ours = sender.and_then(|sender| OwnerIds::here().ours(sender).filter(|ours| *ours != sender));
        (block.uid_here, block.gid_here) = ours.unzip();
        block
    }

    fn is_old(&mut self) -> bool {
        match &mut self.read {
            // The rules of iptables (legacy) have no number for their changes, and reading them takes a program each time.
            Ok(read) => read.index.is_old(&mut read.kernel).unwrap_or(true),
            Err(_) => true,
        }
    }
}

fn read(run: &Run) -> Result<LiveRules, backend::Error> {
    let mut kernel = run.open_for(run.every_owner())?;
    let index = RuleIndex::read(&mut kernel, named)?;
    let routes = kernel.routing()?;
    // Without addresses fewer walks are complete; what the kernel reports is shown all the same.
    let pod = PodContext::new(System::HERE.addresses().unwrap_or_default(), None);
    Ok(LiveRules { kernel, index, routes, pod })
}

impl Rules for LiveRules {
    fn view(&self, family: Family) -> &View {
        self.index.view(family)
    }

    fn routing(&self, family: Family) -> Routing {
        live_routing(&self.routes, family, &self.pod)
    }

    fn chain(&self, of: Family, family: u8, table: &str, chain: &str) -> Option<usize> {
        self.index.chain(of, family, table, chain)
    }

    fn rule(&self, of: Family, family: u8, table: &str, chain: &str, handle: u64) -> Option<At> {
        self.index.rule(of, family, table, chain, handle)
    }
}
