//! Rules to walk through, from where they are: the kernel of a network namespace, or a listing.

use super::run::Run;
use diagnose::explain::{Pod, Scene};
use mesh::Reason;
use rules::routing::Object;
use rules::simulate::Routing;
use rules::{Family, Mark, parse};
use sidecar_init::{backend, engine};
use std::{collections::BTreeSet, error::Error, fs, io};

/// The rules of a listing; of the input's, where the file is `-`.
///
/// # Errors
/// When it can't be read.
pub(super) fn from_save(file: &str, pod: &Pod) -> Result<Vec<Scene>, Box<dyn Error>> {
    let text = match file {
        "-" => io::read_to_string(io::stdin())?,
        path => fs::read_to_string(path).map_err(|error| format!("{path} can't be read: {error}"))?,
    };
    let scene = |family| match parse::listing(&text, family) {
        Ok(listing) => Ok(Scene::of_listing(listing, pod)),
        Err(error) => Err(format!("{file} can't be read: {error}").into()),
    };
    Family::BOTH.into_iter().map(scene).collect()
}

/// The rules that are there.
///
/// # Errors
/// When they can't be read.
pub(super) fn from_kernel(run: &Run, pod: &Pod) -> Result<Vec<Scene>, backend::Error> {
    let owner = run.everyone();
    let mut kernel = run.open_for(owner)?;
    let routes = kernel.routing()?;
    for hindered in kernel.hindered()? {
        tracing::warn!(target: "backend", "{hindered}");
    }
    let scene = |family: Family| {
        let view = engine::live(&mut kernel, family, &Reason::origin_of)?;
        for text in engine::kin(&view, &owner) {
            tracing::info!(target: "backend", %family, "{text}");
        }
        let routing = live_routing(&routes, family, pod);
        Ok(Scene { title: family.to_string(), family, view, routing })
    };
    Family::BOTH.into_iter().map(scene).collect()
}

/// The policy rules that are there.
pub(super) fn live_routing(routes: &BTreeSet<Object>, family: Family, pod: &Pod) -> Routing {
    Routing { local_marks: local_marks(routes, family), addresses: pod.addresses.clone() }
}

/// The marks whose packets are delivered here: of policy rules that lead to a table with a local default route.
pub(super) fn local_marks(routes: &BTreeSet<Object>, of_family: Family) -> Vec<Mark> {
    let marks = routes.iter().filter_map(|object| match object {
        Object::Rule { family, mark, table, .. } if *family == of_family => {
            let route = Object::Route { family: *family, table: *table };
            routes.contains(&route).then_some(*mark)
        }
        Object::Rule { .. } | Object::Route { .. } | Object::Address(_) => None,
    });
    marks.collect()
}
