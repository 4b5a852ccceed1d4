//! `coverage -f`: what would change if manifests were applied?

use std::io::Write;

use super::Failure;
use super::coverage::{NodeSelector, check_label, check_selected, view};
use super::gate;
use super::output::{self, Output};
use super::session::{Session, Target};
use crate::cluster::error::ClusterError;
use crate::cluster::manifest::{self, Manifest};
use crate::cluster::{CoverageScope, Query, Source, Wanted};
use crate::coverage::revisions::{Revision, Revisions};
use crate::coverage::what_if::what_if;
use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::{Kind, Snapshot};
use crate::render;
use crate::report::coverage::Incomplete;
use crate::report::plan::Warning;
use crate::report::what_if::{WhatIfReport, WhatIfReportList};
use crate::rollout::planned::with_template;
use crate::rollout::replacement_warnings::{Replacement, replacement_warnings};

/// Which manifests, and what is shown of the nodes.
pub(super) struct WhatIf {
    /// Files, directories, and `-` for standard input.
    pub(super) manifests: Vec<String>,
    /// The only node that is looked at.
    pub(super) node: Option<String>,
    /// The label by whose values the nodes are counted.
    pub(super) by: Option<String>,
    /// Whether every node has a row.
    pub(super) nodes: bool,
}

/// Prints what manifests would change, and returns the answer for `--exit-code`.
///
/// # Errors
///
/// Fails if a manifest or the source cannot be read, and if the API server would reject a DaemonSet.
pub(super) async fn run(
    question: WhatIf,
    target: &Target,
    node_selector: NodeSelector,
    output: Option<&Output>,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Result<Exit, CommandError>, Failure> {
    let WhatIf { manifests, node, by, nodes } = question;
    if manifests.iter().any(|path| path == "-") && target.reads_input() {
        return Err(CommandError::usage("--from - and --filename - cannot both read standard input").into());
    }
    let mut session = target.open(io).await?;
    let manifests = manifest::read_daemon_sets(
        &manifests,
        io.input,
        session.requested_namespace.as_deref(),
        &session.default_namespace,
    )?;
    let mut answers = Vec::new();
    for manifest in &manifests {
        if manifest.lacks_namespace() && session.requested_namespace.is_none() {
            let (name, namespace) = (sanitize(manifest.name()), sanitize(manifest.namespace()));
            writeln!(io.err, "DaemonSet {name} has no namespace in its manifest; namespace {namespace} is assumed")?;
        }
        answers.push(dry_run(manifest, &session, io).await?);
    }
    let namespace = manifests[0].namespace();
    let is_one_namespace = manifests.iter().all(|manifest| manifest.namespace() == namespace);
    if !is_one_namespace {
        session.namespace = None;
    }
    let query = Query {
        namespace: is_one_namespace.then(|| namespace.to_owned()),
        wanted: Wanted::Coverage(CoverageScope {
            node: node.clone(),
            node_selector: node_selector.selector.clone(),
            admission: true,
        }),
        ..Query::default()
    };
    let all_nodes = |snapshot: &Snapshot| snapshot.nodes.iter().map(|node| node.metadata.name.clone()).collect();
    let snapshot = session.read(query, io, all_nodes).await?;
    check_selected(&snapshot, &node_selector)?;
    if snapshot.gap(Kind::Nodes, "").is_some() {
        let error = CommandError::new("what the manifest would change is not known: the nodes could not be read");
        return Err(CommandError { exit: Exit::Partial, ..error }.into());
    }
    let version = match answers.iter().any(Option::is_none) {
        true => session.server_version(io).await.ok().flatten(),
        false => None,
    };
    if let Some(label) = &by {
        check_label(&snapshot, label)?;
    }
    let mut reports = Vec::new();
    for (manifest, answer) in manifests.iter().zip(answers) {
        let proposed = match answer {
            Some(daemon_set) => daemon_set,
            None => {
                let (daemon_set, warnings) = manifest.validate(&snapshot, version.as_deref())?;
                for warning in warnings {
                    writeln!(io.err, "warning: {}", sanitize(&warning))?;
                }
                daemon_set
            }
        };
        let mut report = what_if(&snapshot, &proposed, by.as_deref());
        report.warnings = replacements_of_manifest(&proposed, &snapshot);
        reports.push(report);
    }
    let shown = match (node, nodes) {
        (Some(_), _) => render::what_if::Shown::Node,
        (None, true) => render::what_if::Shown::Nodes,
        (None, false) => render::what_if::Shown::Groups,
    };
    print(&reports, shown, output, &view(output, target, io), out)?;
    let all_fit = reports.iter().all(|report| report.does_not_fit.is_empty());
    let incomplete: Vec<Incomplete> = reports.into_iter().flat_map(|report| report.incomplete).collect();
    Ok(gate::all_fit(all_fit, &incomplete))
}

/// Warns of what applying a manifest does to the pods of the DaemonSet that exists.
fn replacements_of_manifest(proposed: &DaemonSet, snapshot: &Snapshot) -> Vec<Warning> {
    let key = |daemon_set: &DaemonSet| (daemon_set.metadata.namespace.clone(), daemon_set.metadata.name.clone());
    let Some(live) = snapshot.daemon_sets.iter().find(|live| key(live) == key(proposed)) else { return Vec::new() };
    let revisions = Revisions::of(live, snapshot);
    let template = proposed.template();
    let is_same_template = template.same_meaning(&revisions.live);
    if is_same_template && proposed.spec.update_strategy == live.spec.update_strategy {
        // Nothing is rolled out that is not already.
        return Vec::new();
    }
    let same = |revision: &&Revision<'_>| revision.template.as_ref().is_ok_and(|other| other.same_meaning(&template));
    let hash = revisions.all.iter().find(same).map_or("", |revision| revision.object.hash());
    let mut after = if is_same_template { live.clone() } else { with_template(live, &template) };
    after.spec.update_strategy = proposed.spec.update_strategy.clone();
    replacement_warnings(&revisions, &Replacement::of_template(&after, hash, is_same_template), snapshot)
}

fn print(
    reports: &[WhatIfReport],
    shown: render::what_if::Shown,
    output: Option<&Output>,
    view: &render::view::View,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let printed = match reports {
        [report] => output::print_data(output, report, out)?,
        _ => {
            let list = WhatIfReportList {
                api_version: "kubectl-ds/v1".to_owned(),
                kind: "WhatIfReportList".to_owned(),
                items: reports.to_vec(),
            };
            output::print_data(output, &list, out)?
        }
    };
    if !printed {
        for (index, report) in reports.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            render::what_if::what_if(report, shown, view, out)?;
        }
        if reports.len() > 1 {
            writeln!(out, "\nEach DaemonSet is previewed alone: the pods of the others take no room.")?;
        }
    }
    Ok(())
}

/// Returns the DaemonSet as the server would store it; `None`, with a warning, if the server could not be asked, and for
/// a dump.
async fn dry_run(manifest: &Manifest, session: &Session, io: &mut Io<'_>) -> Result<Option<DaemonSet>, Failure> {
    let Source::Live(live) = &session.source else { return Ok(None) };
    match live.dry_run(manifest).await {
        Ok(object) => Ok(Some(manifest.daemon_set(object)?)),
        Err(error) if cannot_dry_run(&error) => {
            let error = sanitize(&error.to_string());
            writeln!(io.err, "warning: no server-side dry run, validated with the rules of Kubernetes 1.36: {error}")?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Tells whether the server did not get to the manifest itself: the user may not change DaemonSets, the namespace does
/// not exist yet, or a webhook has side effects. What admission refuses is an answer.
fn cannot_dry_run(error: &ClusterError) -> bool {
    let ClusterError::Api { code, message, .. } = error else { return false };
    match code {
        // `forbiddenMessage`, k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go, release 1.36.
        403 => [" cannot update resource ", " cannot create resource "].iter().any(|words| message.contains(words)),
        404 => true,
        // `NewDryRunUnsupportedErr`, k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go, release 1.36.
        400 => message.contains("does not support dry run"),
        _ => false,
    }
}
