//! Rules to walk through: of a configuration or of a listing.

use super::pod::PodContext;
use mesh::CapturePolicy;
use mesh::recognition::named;
use rules::simulate::{Routing, View};
use rules::{Action, Checked, Family, Listing, Mark, Table, Target, routing::Object};

/// Rules of one family, with the routing that they rely on.
#[derive(Clone, Debug)]
pub struct RuleView {
    pub family: Family,
    pub view: View,
    pub routing: Routing,
}

impl RuleView {
    pub fn of_config(config: &dyn CapturePolicy, family: Family, pod: &PodContext) -> Self {
        Self::of_rules(&config.rules(family), config, pod)
    }

    /// Of rules that are made already.
    pub(crate) fn of_rules(rules: &Checked, config: &dyn CapturePolicy, pod: &PodContext) -> Self {
        let family = rules.rules().family;
        let marks = config.routing().into_iter().filter_map(|object| match object {
            Object::Rule { family: of, mark, .. } if of == family => Some(mark),
            _ => None,
        });
        Self {
            family,
            view: View::of_rules(rules.rules()),
            routing: Routing { local_marks: marks.collect(), addresses: pod.addresses.clone() },
        }
    }

    pub(crate) fn without_rules(family: Family, pod: &PodContext) -> Self {
        let routing = Routing { local_marks: Vec::new(), addresses: pod.addresses.clone() };
        Self { family, view: View::empty(family), routing }
    }

    /// The rules of a listing, which shows no policy rules: those that TPROXY relies on are taken to be there.
    pub fn of_listing(listing: Listing, pod: &PodContext) -> Self {
        let family = listing.family;
        let routing = Routing { local_marks: tproxy_marks(&listing), addresses: pod.addresses.clone() };
        Self { family, view: named(View::of_listing(listing)), routing }
    }
}

fn tproxy_marks(listing: &Listing) -> Vec<Mark> {
    let mangle = listing.chains.iter().filter(|((table, _), _)| *table == Table::Mangle);
    let actions = mangle.flat_map(|(_, chain)| &chain.rules).map(|listed| listed.line.action());
    let marks = actions.filter_map(|action| match action {
        Action::Target(Target::Tproxy { mark, .. }) if mark.value != 0 => Some(mark),
        _ => None,
    });
    marks.collect()
}
