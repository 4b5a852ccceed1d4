//! `status`: is the rollout done, progressing or blocked?

use std::io::Write;
use std::str::FromStr;

use clap::Args;

use super::history::{no_revision, revisions_unknown};
use super::output::{self, Output, formats};
use super::parse::{from_environment, grouping_label, parse_names_of_any_flavor, parse_revision_number};
use super::session::{GlobalArgs, Session};
use super::several::{self, Answer};
use super::status_watch::{self, Map, WatchArgs};
use super::watch::check_watch;
use super::{Failure, RunCommand, gate, proposed};
use crate::cluster::manifest::Apply;
use crate::cluster::{CoverageScope, Flavors, Query, Wanted};
use crate::coverage::stale_config::add_stale_config;
use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::facts::index::nodes_needing_all_pods;
use crate::facts::revisions::Revisions;
use crate::io::Io;
use crate::model::node::ZONE;
use crate::model::snapshot::{Snapshot, UnknownName};
use crate::render;
use crate::report::acceptance::Acceptance;
use crate::report::rollout_status::{RolloutStatus, RolloutStatusReport, Verdict};
use crate::rollout::new_pods::trial_of_current;
use crate::rollout::recent_changes::add_to_failing;
use crate::rollout::status::{self as rollout_status, Question, Templates};

/// Show whether rollouts are complete, and what blocks them
///
/// For each rollout that is blocked: on what, whose fault it is, and how to continue.
#[derive(Debug, Clone, Args)]
#[command(before_help = "# Show which rollouts are not complete
kubectl ds status -A

# Show on what a rollout is blocked, and how to continue
kubectl ds status fluent-bit -n logging")]
#[command(
    after_help = "Exit codes: 0 complete; 1 error; 2 usage; 3 not complete, or a revision has removed most of the nodes; 4 timed out; 5 not known; 130 interrupted."
)]
pub struct StatusArgs {
    /// The DaemonSets; by default all in the namespace.
    ///
    /// `ads/NAME` is an Advanced DaemonSet of OpenKruise; by default those of Kubernetes' own are shown.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Check the DaemonSets of an applied manifest.
    ///
    /// Exit with 3 if the cluster has another template. A file, a directory, or - for standard input; may be repeated.
    #[arg(short, long, value_name = "MANIFEST", conflicts_with_all = ["names", "selector", "all_namespaces", "to_revision"])]
    filename: Vec<String>,
    /// Exit with 3 unless this revision is rolled out.
    ///
    /// That is, unless it is current and its rollout is complete.
    #[arg(long, value_name = "N", value_parser = parse_revision_number, allow_negative_numbers = true)]
    to_revision: Option<i64>,
    /// Output format. One of: (wide, json, yaml)
    #[arg(short, long, value_name = "FORMAT", value_parser = formats(&[Output::Wide, Output::Json, Output::Yaml]), hide_possible_values = true)]
    output: Option<Output>,
    /// Show a map of the nodes, a glyph for each
    #[arg(long)]
    map: bool,
    /// The node label that the map is grouped by.
    ///
    /// That of --map and of --watch. The default is that of KUBECTL_DS_BY, or topology.kubernetes.io/zone.
    #[arg(long, value_name = "LABEL")]
    by: Option<String>,
    #[command(flatten)]
    accept: AcceptArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// The flag that says what is accepted.
#[derive(Debug, Clone, Args)]
pub(super) struct AcceptArgs {
    /// What a rollout may lack and still be complete.
    ///
    /// node, cluster or a reason code, each with a limit if given (node=10%); on-delete, or on-delete=7d for old pods that are
    /// younger; fewer-nodes, that a revision has removed most of the nodes; none, to ignore what the annotation kubectl-ds/accept
    /// accepts; may be repeated. The default is that of KUBECTL_DS_ACCEPT.
    #[arg(long, value_name = "WHAT", value_parser = Acceptance::from_str, value_delimiter = ',')]
    accept: Vec<Acceptance>,
}

impl AcceptArgs {
    /// Returns what is accepted, by default from the environment.
    pub(super) fn resolve(self, io: &Io<'_>) -> Result<Vec<Acceptance>, CommandError> {
        let accept = match self.accept.is_empty() {
            true => from_environment("KUBECTL_DS_ACCEPT", io, |text| text.split(',').map(str::parse).collect())?,
            false => Some(self.accept),
        };
        Ok(accept.unwrap_or_default())
    }
}

impl RunCommand for StatusArgs {
    async fn run(self, target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let StatusArgs { names, filename, to_revision, output, map, by, accept, watch } = self;
        let (flavors, namespace, names) = parse_names_of_any_flavor(&names)?;
        if to_revision.is_some() && names.len() != 1 {
            return Err(CommandError::usage("--to-revision needs one DaemonSet: give its name").into());
        }
        if target.are_several() {
            for (is_given, flag) in [(watch.watch, "--watch"), (!filename.is_empty(), "--filename"), (map, "--map")] {
                if is_given {
                    return Err(several::refuse(flag));
                }
            }
        }
        let accept = accept.resolve(io)?;
        if watch.watch {
            check_watch(&target, output)?;
            watch.check(&accept)?;
        }
        if by.is_some() && !map && !watch.watch {
            return Err(CommandError::usage("--by groups a map: add --map or --watch").into());
        }
        let by = grouping_label(by, io)?;
        let map = Map { is_shown: map, label: by.unwrap_or_else(|| ZONE.to_owned()) };
        let query = Rollouts::query(names, flavors);
        let mut rollouts = Rollouts { query, to_revision, map, accept, templates: None };
        if target.are_several() {
            let ask = async |session: &Session, io: &mut Io<'_>| rollouts.answer(session, io).await;
            let named = (namespace.as_deref(), rollouts.query.names.as_slice());
            return several::run(&target, named, output, io, out, ask, render::status::clusters).await;
        }
        let session = if filename.is_empty() {
            target.open(namespace, &rollouts.query.names, io).await?
        } else {
            let (session, names, templates) = read_templates(&filename, &target, io).await?;
            (rollouts.query, rollouts.templates) = (Rollouts::query(names, flavors), Some(templates));
            session
        };
        let is_named = rollouts.query.names.len() == 1;
        if watch.watch {
            return status_watch::run(watch, rollouts, output, &session, io, out).await;
        }
        let Answer { mut report, exit } = rollouts.answer(&session, io).await?;
        output::print(output, &mut report, &session.view_for(output), out, |report, page| {
            render::status::status(report, is_named, page);
            let maps = report.daemon_sets.iter().map(|one| (&*one.namespace, &*one.name, one.map.as_ref()));
            render::node_map::maps(maps, page);
        })?;
        Ok(exit?)
    }
}

/// The requested rollouts, and what is accepted in them.
pub(super) struct Rollouts {
    pub(super) query: Query,
    pub(super) to_revision: Option<i64>,
    pub(super) map: Map,
    pub(super) accept: Vec<Acceptance>,
    /// The templates in manifests.
    pub(super) templates: Option<Templates>,
}

impl Rollouts {
    /// Returns the query: for a single named DaemonSet also the ConfigMaps and Secrets that it uses.
    fn query(names: Vec<String>, flavors: Flavors) -> Query {
        let config = names.len() == 1;
        let wanted = Wanted::Coverage(CoverageScope { config, secrets: config, ..CoverageScope::default() });
        Query { names, flavors, wanted, ..Query::default() }
    }

    async fn answer(&self, session: &Session, io: &mut Io<'_>) -> Result<Answer<RolloutStatusReport>, Failure> {
        let Rollouts { query, to_revision, map, accept, templates } = self;
        let mut snapshot = session.read_with_pods(query.clone(), io, nodes_needing_all_pods).await?;
        session.note_admissions(&mut snapshot, io).await;
        if query.names.len() == 1 {
            session.note_written_limits(&mut snapshot).await;
        }
        // Nothing was refused yet if no pod was replaced, and what is suggested may replace the first one.
        if let [one] = snapshot.daemon_sets.as_slice()
            && one.status.updated_number_scheduled < one.status.desired_number_scheduled
        {
            let asked = session.ask(trial_of_current(&snapshot, one), io).await;
            snapshot.admissions.extend(asked);
        }
        if let Some(number) = *to_revision {
            check_revision(&snapshot, number)?;
        }
        map.check(&snapshot, io)?;
        let map_label = map.is_shown.then_some(map.label.as_str());
        let question = Question { requested: *to_revision, map_label, accept, templates: templates.as_ref() };
        let mut report = rollout_status::answer(&snapshot, &question);
        check_templates(templates.as_ref(), &report, session)?;
        add_to_failing(&mut report, &snapshot);
        if query.names.len() == 1 {
            add_stale_config(&mut report, &snapshot);
        }
        let exit = session.check_unknown_names(&snapshot).and_then(|()| answer(&report, session));
        Ok(Answer { report, exit })
    }
}

/// Reads the DaemonSets in manifests, and returns their names, and the templates that the cluster should have.
async fn read_templates(
    paths: &[String],
    target: &GlobalArgs,
    io: &mut Io<'_>,
) -> Result<(Session, Vec<String>, Templates), Failure> {
    let (session, read) = proposed::open(paths, target, io).await?;
    let names: Vec<String> = read.daemon_sets.iter().map(|manifest| manifest.name().to_owned()).collect();
    let query = Query { names: names.clone(), ..Query::default() };
    let snapshot = session.read(query, io).await?;
    session.check_unknown_names(&snapshot)?;
    let mut templates = Templates::new();
    for manifest in &read.daemon_sets {
        let (namespace, name) = (manifest.namespace().to_owned(), manifest.name().to_owned());
        let Some(live) = proposed::live(&snapshot, manifest) else {
            return Err(session.source.unknown_daemon_set(Some(&namespace), unknown(&name)).into());
        };
        let how = match Apply::last_used_on(live) {
            // Fields that another manager has overwritten differ from the manifest.
            Apply::ServerSide { .. } => Apply::ServerSide { force_conflicts: true },
            how => how,
        };
        let template = proposed::proposed(&read, manifest, how, &snapshot, &session, io).await?;
        templates.insert((namespace, name), template.template());
    }
    Ok((session, names, templates))
}

/// Checks that the DaemonSets in the manifests still exist: those with the same names in other namespaces do not count.
fn check_templates(
    templates: Option<&Templates>,
    report: &RolloutStatusReport,
    session: &Session,
) -> Result<(), CommandError> {
    let is_told = |(namespace, name): &(String, String)| {
        report.daemon_sets.iter().any(|one| (&one.namespace, &one.name) == (namespace, name))
    };
    let Some((namespace, name)) = templates.and_then(|templates| templates.keys().find(|key| !is_told(key))) else {
        return Ok(());
    };
    Err(session.source.unknown_daemon_set(Some(namespace), unknown(name)).into())
}

fn unknown(name: &str) -> UnknownName {
    UnknownName { name: name.to_owned(), near: Vec::new(), elsewhere: Vec::new() }
}

/// Checks that a revision exists.
pub(super) fn check_revision(snapshot: &Snapshot, number: i64) -> Result<(), CommandError> {
    let mut daemon_sets = snapshot.daemon_sets_of_any_flavor();
    let (Some(daemon_set), None) = (daemon_sets.next(), daemon_sets.next()) else { return Ok(()) };
    let revisions = Revisions::of(daemon_set, snapshot);
    // An unread revision may exist.
    if revisions_unknown(&revisions, snapshot).is_some() || revisions.number(number).is_some() {
        return Ok(());
    }
    Err(no_revision(&revisions, number).hint("rolling back to a revision gives it the highest number"))
}

/// Returns the exit code: 0 only if every rollout is complete, and no revision has removed most of the nodes.
fn answer(report: &RolloutStatusReport, session: &Session) -> Result<Exit, CommandError> {
    let rollouts = &report.daemon_sets;
    if rollouts.is_empty() {
        return Err(session.none_found());
    }
    let is_known =
        |one: &RolloutStatus| one.verdict != Verdict::Unknown || one.is_of_another_template() || one.has_lost_nodes();
    let is_no = |one: &RolloutStatus| is_known(one) && !one.is_well();
    if rollouts.iter().any(is_no) {
        return Ok(Exit::No);
    }
    let is_unknown = |rollout: &RolloutStatus| {
        rollout.verdict == Verdict::Unknown || rollout.requested.is_some_and(|requested| requested.current.is_none())
    };
    if rollouts.iter().any(is_unknown) || report.incomplete.iter().any(|gap| gap.affects_counts) {
        return Err(partial(report));
    }
    Ok(Exit::Success)
}

/// Builds the error for an answer that is unknown because something could not be read.
pub(super) fn partial(report: &RolloutStatusReport) -> CommandError {
    let gaps = report.incomplete.iter().filter(|gap| gap.affects_counts);
    let error = gate::unknown("the answer is partial: whether every rollout is complete is not known", gaps);
    let lacking = report.daemon_sets.iter().filter_map(|one| Some((one, one.lacks.as_ref()?)));
    let hints = lacking.map(|(one, lacks)| sanitize(&format!("{}/{}: {lacks}", one.namespace, one.name)));
    error.hints(hints)
}
