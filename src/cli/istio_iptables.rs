//! The drop-in for `istio-iptables`.

use super::{Exit, report};
use crate::{
    backend::{Backend, Kernel, Variant, iptables::Lock},
    capture,
    config::{CaptureConfig, Interception, Mode, Preview, Resolved, Run, VariantChoice},
    operations::{self, Applied, Validate, Wanted},
    sys::{namespace, route},
};
use rules::{Checked, Family, State, render};
use std::{
    error::Error,
    io::{self, Write},
    path::PathBuf,
    time::Instant,
};

/// Seconds to wait for the lock of iptables.
const LOCK_WAIT: u32 = 30;

/// Runs the command.
pub(super) fn run(resolved: &Resolved) -> Exit {
    let Resolved { capture, run, .. } = resolved;
    let done = match run.mode {
        Mode::Preview(form) => return told(preview(capture, form).map_err(Into::into)),
        Mode::Clean => return told(change(run, &Wanted::default(), "rules removed")),
        Mode::Apply => change(run, &wanted(capture), "rules applied"),
        Mode::Nothing => Ok(()),
    };
    match (told(done), validation(resolved)) {
        (Exit::Done, Some(what)) => match operations::validate(&what) {
            Ok(()) => {
                tracing::info!(target: "validation", "capture works");
                Exit::Done
            }
            Err(error) => report::failure(&error, Exit::ValidationFailed),
        },
        (exit, _) => exit,
    }
}

fn told(done: Result<(), Box<dyn Error>>) -> Exit {
    match done {
        Ok(()) => Exit::Done,
        Err(error) => report::failure(&*error, Exit::Failed),
    }
}

fn preview(capture: &CaptureConfig, form: Preview) -> io::Result<()> {
    let mut text = String::new();
    for family in capture.families() {
        let rules = capture::rules(capture, family);
        match form {
            Preview::Restore => {
                text.push_str(match family {
                    Family::V4 => "# iptables-restore\n",
                    Family::V6 => "# ip6tables-restore\n",
                });
                text.push_str(&render::iptables::restore(&rules));
            }
            Preview::Commands => text.push_str(&render::iptables::commands(&rules)),
        }
    }
    io::stdout().write_all(text.as_bytes())
}

/// What a configuration wants of the namespace.
fn wanted(config: &CaptureConfig) -> Wanted {
    let rules = |family| State::of(Checked::rules(&capture::rules(config, family)));
    let routing = capture::routing(config);
    let mut routes: Vec<route::Object> = Vec::new();
    if let Some(capture::PolicyRoute { mark, table }) = routing.transparent {
        let families = [Some(route::Family::V4), routing.transparent_ipv6.then_some(route::Family::V6)];
        for family in families.into_iter().flatten() {
            let (mark, table) = (mark.value, table.number());
            routes.push(route::Object::Rule { family, mark, table });
            routes.push(route::Object::Route { family, table });
        }
    }
    routes.extend(routing.passthrough_ipv6.then_some(route::Object::Address));
    Wanted {
        tables: config.families().map(|family| (family, rules(family))).collect(),
        routes: routes.into_iter().collect(),
    }
}

fn change(run: &Run, wanted: &Wanted, done: &'static str) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    if namespace::is_that_of_process_1() == Some(true) {
        tracing::warn!(target: "iptables", "this is the network namespace of process 1, perhaps the machine's own");
    }
    let mut kernel = Kernel::open(lock(run))?;
    let before = kernel.read()?;
    let forced = run.variant.map(|choice| match choice {
        VariantChoice::Legacy => Variant::Legacy,
        VariantChoice::Nft => Variant::Nft,
    });
    let variant = operations::choose(&before, forced, || kernel.programs(Variant::Nft).is_some());
    let Applied { steps } = operations::apply(&mut kernel, &before, wanted, variant, run.force)?;
    let count = |family| wanted.tables.get(&family).map_or(0, State::count_ours);
    let families: Vec<String> = wanted.tables.keys().map(ToString::to_string).collect();
    tracing::info!(
        target: "iptables",
        variant = %variant,
        families = families.join(","),
        rules_v4 = count(Family::V4),
        rules_v6 = count(Family::V6),
        changed = !steps.is_empty(),
        milliseconds = start.elapsed().as_secs_f64() * 1e3,
        "{done}"
    );
    Ok(())
}

fn lock(run: &Run) -> Lock {
    // On a node all pods share the file system, and with it the lock that each would wait for. The
    // namespace's own file serves as a lock that only its users share.
    let own = || run.namespace.clone().unwrap_or_else(|| PathBuf::from("/proc/thread-self/ns/net"));
    Lock { wait: LOCK_WAIT, file: run.cni.then(own), version: run.iptables_version }
}

fn validation(resolved: &Resolved) -> Option<Validate> {
    let Resolved { capture, run, .. } = resolved;
    let what = run.validation?;
    if capture.interception == Interception::None {
        return None;
    }
    Some(Validate {
        listeners: vec![
            capture.outbound_listener.first().number(),
            capture.inbound_listener.first().number(),
        ],
        probe_port: what.probe_port.number(),
        owner: (
            capture.proxy_uids.first().map_or(0, |uid| uid.number()),
            capture.proxy_gids.first().map_or(0, |gid| gid.number()),
        ),
        ipv6: capture.ipv6,
        timeout: what.timeout,
    })
}
