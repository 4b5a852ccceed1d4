//! How a change of a template is carried out, the same for every command that makes one: shown, sent locked on
//! what was read, and watched until it is a revision.

use std::io::Write;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::Failure;
use super::parse::{Named, parse_duration, parse_name};
use super::session::{GlobalArgs, Session};
use crate::cluster::write::Sending;
use crate::cluster::{Flavors, PodsOf, Query, Wanted};
use crate::coverage::gaps::incomplete_for_history;
use crate::encode::sanitize::sanitize;
use crate::encode::{json, yaml};
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::model::daemon_set::{DaemonSet, Flavor, UpdateStrategy};
use crate::model::snapshot::{Kind, Snapshot};
use crate::model::template::Template;
use crate::plan::Write as Plan;
use crate::render::change as words;
use crate::render::changes;
use crate::render::view::View;
use crate::report::coverage::Incomplete;
use crate::report::plan::{ChangePlan, Outcome, Stage};
use crate::rollout::concurrent_edit;
use crate::rollout::difference::difference;
use crate::rollout::revisions::{Revisions, name_of};

/// How often a change is locked anew on an object of which only the status has changed.
const MOST_LOCKS: usize = 20;

/// The flags of a command that changes a template.
#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// Show what would be done: `client` sends nothing, `server` has the server try it out and keep nothing
    #[arg(long, value_name = "HOW", value_enum, num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t, default_missing_value = "client", hide_default_value = true)]
    dry_run: DryRun,
    /// How to print: name, json or yaml for the DaemonSet as it became, plan for the plan and its outcome in JSON
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    output: Option<Output>,
    /// Do not wait until the controller has made a revision of it
    #[arg(long)]
    no_wait: bool,
    /// How long to wait for the controller, such as `30s` or `5m`
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration, conflicts_with = "no_wait")]
    timeout: Duration,
}

/// What `--dry-run` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum DryRun {
    /// The change is made.
    #[default]
    None,
    /// Nothing is sent.
    Client,
    /// The server tries it out.
    Server,
}

/// What `-o` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// The DaemonSet's name.
    Name,
    /// The DaemonSet as it became, in JSON.
    Json,
    /// The DaemonSet as it became, in YAML.
    Yaml,
    /// The plan and its outcome, in JSON.
    Plan,
}

/// What a change is called once it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// It went back to a revision.
    RolledBack,
    /// It restarts.
    Restarted,
}

/// What the flags mean.
#[derive(Debug)]
pub struct Settings {
    flavors: Flavors,
    namespace: Option<String>,
    name: String,
    dry_run: DryRun,
    output: Option<Output>,
    /// How long to wait for the controller; nothing where nobody waits.
    patience: Option<Duration>,
}

impl ChangeArgs {
    /// Makes sense of the flags, for the DaemonSet that is named.
    ///
    /// # Errors
    ///
    /// Fails where something else than a DaemonSet is named.
    pub fn resolve(self, name: &str) -> Result<Settings, CommandError> {
        let ChangeArgs { dry_run, output, no_wait, timeout } = self;
        let Named { flavors, namespace, name } = parse_name(name)?;
        // Whoever asks for the object has it with the server's answer.
        let waits = !no_wait && dry_run == DryRun::None && matches!(output, None | Some(Output::Plan));
        Ok(Settings { flavors, namespace, name, dry_run, output, patience: waits.then_some(timeout) })
    }
}

/// Reads the DaemonSet, makes the plan, shows it, and carries it out.
///
/// # Errors
///
/// Fails where there is no plan, the change is refused, or the output cannot be written.
pub async fn run(
    settings: &Settings,
    target: GlobalArgs,
    io: &mut Io<'_>,
    out: &mut dyn Write,
    changed: Changed,
    make_plan: impl Fn(&Revisions<'_>, &Snapshot) -> Result<(ChangePlan, Option<Plan>), CommandError>,
) -> Result<Exit, Failure> {
    let mut target = target.resolve(io)?;
    target.enter(settings.namespace.clone())?;
    if !target.selector.is_empty() {
        return Err(CommandError::usage("a name and --selector cannot be given together").into());
    }
    if target.is_dump() && settings.dry_run != DryRun::Client {
        return Err(CommandError::usage("a dump cannot be changed")
            .hint("add --dry-run=client to see what would be done")
            .into());
    }
    let session = target.open(io).await?;
    let query = Query {
        names: vec![settings.name.clone()],
        flavors: settings.flavors,
        wanted: Wanted::History(PodsOf::OnDelete),
        ..Query::default()
    };
    let snapshot = session.read_history(query, io).await?;
    let daemon_set = only_one(&snapshot, &settings.name)?;
    let revisions = Revisions::of(daemon_set, &snapshot);
    let (mut plan, write) = make_plan(&revisions, &snapshot)?;
    let view = View::new(io.width(), target.ascii);
    let unread = unread(&snapshot, daemon_set);
    let mut change = Change { settings, session: &session, view, daemon_set, changed, unread };
    let Some(write) = write else {
        change.say_not_needed(&plan, out)?;
        return Ok(Exit::Success);
    };
    change.show(&plan, io, out)?;
    match settings.dry_run {
        DryRun::Client => {
            let object = write.applied_to(&daemon_set.object);
            let object = object.map_err(|error| CommandError::new("cannot make the change").because(error))?;
            change.print_result(&plan, &object, out)?;
            Ok(Exit::Success)
        }
        DryRun::Server => {
            let object = change.send(&write, Sending::DryRun, io).await?;
            plan.outcome.stage = Stage::TriedOut;
            note_what_the_server_made(&mut plan, &write, daemon_set, &object);
            if settings.output.is_none() {
                words::made_by_server(&plan, &change.view, out)?;
            }
            change.print_result(&plan, &object, out)?;
            Ok(Exit::Success)
        }
        DryRun::None => {
            let object = change.send(&write, Sending::ForReal, io).await?;
            plan.outcome.stage = Stage::Applied;
            note_what_the_server_made(&mut plan, &write, daemon_set, &object);
            change.finish(&mut plan, &revisions, &snapshot, &object, out).await
        }
    }
}

/// Returns the one DaemonSet that was found.
fn only_one<'a>(snapshot: &'a Snapshot, name: &str) -> Result<&'a DaemonSet, CommandError> {
    let all: Vec<_> = snapshot.daemon_sets_of_any_flavor().collect();
    match all.as_slice() {
        [one] => Ok(one),
        several => {
            let namespaces: Vec<_> = several.iter().map(|one| one.metadata.namespace.as_str()).collect();
            Err(CommandError::usage(format!("{} DaemonSets are named {name:?}", several.len()))
                .hint(format!("choose one with -n: {}", namespaces.join(", "))))
        }
    }
}

/// Returns what could not be read of what is said about pods, which is something only under OnDelete.
fn unread(snapshot: &Snapshot, daemon_set: &DaemonSet) -> Vec<Incomplete> {
    let mut unread = incomplete_for_history(snapshot, &daemon_set.metadata.namespace);
    let is_on_delete = daemon_set.spec.update_strategy == UpdateStrategy::OnDelete;
    unread.retain(|incomplete| is_on_delete && incomplete.resource == Kind::Pods.resource());
    unread
}

/// Notes how the server's own template differs from what was asked for, through webhooks and defaults.
fn note_what_the_server_made(plan: &mut ChangePlan, write: &Plan, daemon_set: &DaemonSet, made: &Value) {
    let template = |object: &Value| object.pointer("/spec/template").cloned().map(Template::new);
    let planned = write.applied_to(&daemon_set.object).ok().and_then(|object| template(&object));
    if let (Some(planned), Some(made)) = (planned, template(made)) {
        plan.outcome.made_by_server = difference(&planned, &made);
    }
}

/// One change on its way.
struct Change<'a> {
    settings: &'a Settings,
    session: &'a Session,
    view: View,
    daemon_set: &'a DaemonSet,
    changed: Changed,
    unread: Vec<Incomplete>,
}

impl Change<'_> {
    /// Shows what is about to happen: the changes, and what to know before.
    fn show(&mut self, plan: &ChangePlan, io: &mut Io<'_>, out: &mut dyn Write) -> Result<(), Failure> {
        if self.settings.output.is_none() {
            words::plan(plan, &self.view, out)?;
            out.flush()?;
        }
        Ok(words::warnings(plan, &self.unread, &self.view, io.err)?)
    }

    /// Sends the change. Where only the status has changed since the object was read, it is locked on the newer
    /// version and sent again.
    async fn send(&self, write: &Plan, sending: Sending, io: &mut Io<'_>) -> Result<Value, Failure> {
        let mut write = write.clone();
        for _ in 0..MOST_LOCKS {
            let answer = self.session.write(&write, sending, io).await;
            match answer.map_err(|failure| self.not_known(failure, sending))? {
                Ok(object) => return Ok(object),
                Err(error) if error.is_conflict() => {
                    let now = self.read_again(io).await?;
                    if let Some(refusal) = self.what_stands_against(&now) {
                        return Err(refusal.into());
                    }
                    write = write.locked_on(&now.metadata.resource_version);
                }
                Err(error) if error.outcome_unknown() => {
                    return Err(self.not_known(CommandError::from(error).into(), sending));
                }
                Err(error) => return Err(CommandError::from(error).into()),
            }
        }
        Err(CommandError::new(format!("{} changes faster than it can be written", name_of(self.daemon_set).title()))
            .hint("nothing was changed; look at who writes its status, and try again")
            .into())
    }

    /// Adds to a failure on the way that nobody knows whether the change was made.
    fn not_known(&self, failure: Failure, sending: Sending) -> Failure {
        let again = match self.changed {
            Changed::RolledBack => "run the command again: what is done already is not done twice",
            Changed::Restarted => "the newest revision's template in `kubectl ds history` tells when it was restarted",
        };
        match failure {
            Failure::Error(error) if sending == Sending::ForReal => {
                error.hint(format!("whether the change was made is not known; {again}")).into()
            }
            failure => failure,
        }
    }

    async fn read_again(&self, io: &mut Io<'_>) -> Result<DaemonSet, Failure> {
        let query = Query {
            names: vec![self.settings.name.clone()],
            flavors: self.flavors(),
            wanted: Wanted::History(PodsOf::None),
            ..Query::default()
        };
        let snapshot = self.session.read_history(query, io).await?;
        Ok(only_one(&snapshot, &self.settings.name)?.clone())
    }

    /// Returns why the change must not be made to the object as it is by now.
    fn what_stands_against(&self, now: &DaemonSet) -> Option<CommandError> {
        let name = name_of(self.daemon_set).title();
        if now.metadata.uid != self.daemon_set.metadata.uid {
            let message = format!("{name} was deleted and made anew in the meantime; nothing was changed");
            return Some(CommandError::new(message).hint("look at it again before you change it"));
        }
        let meanwhile = concurrent_edit::changes(&self.daemon_set.object, &now.object);
        if meanwhile.is_empty() {
            return None;
        }
        let mut lines = Vec::new();
        // Errors are text of their own, without colour and as wide as they are.
        let _ = changes::write(&meanwhile, &View::new(None, self.view.ascii), &mut lines);
        let lines = anstream::adapter::strip_str(&String::from_utf8_lossy(&lines)).to_string();
        let message =
            format!("{name} was changed by somebody else in the meantime; nothing was changed by you:\n{lines}");
        Some(
            CommandError::new(message.trim_end())
                .hint("look at that change, and run the command again if you still want it"),
        )
    }

    /// Prints what the server answered with, or a sentence.
    fn print_result(&self, plan: &ChangePlan, object: &Value, out: &mut dyn Write) -> Result<(), Failure> {
        let dry_run = match self.settings.dry_run {
            DryRun::None => "",
            DryRun::Client => " (dry run)",
            DryRun::Server => " (server dry run)",
        };
        let result = match self.settings.output {
            None => writeln!(out, "{} {}{dry_run}", self.view.show(&plan.daemon_set.full()), self.verb()),
            Some(output) => print_object(output, plan, object, out),
        };
        Ok(result?)
    }

    fn say_not_needed(&self, plan: &ChangePlan, out: &mut dyn Write) -> std::io::Result<()> {
        match self.settings.output {
            None => words::not_needed(plan, &self.view, out),
            Some(output) => print_object(output, plan, &self.daemon_set.object, out),
        }
    }

    /// Says that it is done, waits for the controller, and says what became of the revision.
    async fn finish(
        &self,
        plan: &mut ChangePlan,
        before: &Revisions<'_>,
        snapshot: &Snapshot,
        object: &Value,
        out: &mut dyn Write,
    ) -> Result<Exit, Failure> {
        // Whoever may not read revisions cannot wait for one, and of what is being deleted there will be none.
        let knows_revisions = snapshot.gap(Kind::ControllerRevisions, &plan.daemon_set.namespace).is_none();
        let comes = knows_revisions && !self.daemon_set.metadata.is_terminating();
        let Some(patience) = self.settings.patience.filter(|_| comes) else {
            self.print_result(plan, object, out)?;
            return Ok(Exit::Success);
        };
        let speaks = self.settings.output.is_none();
        if speaks {
            // It is done, whatever becomes of the waiting.
            let done = format!("{} {}", self.view.show(&plan.daemon_set.full()), self.verb());
            write!(out, "{done}").and_then(|()| out.flush())?;
        }
        let seen = self.wait(plan, before, object, patience).await;
        if speaks && !matches!(seen, Ok(Some(_))) {
            writeln!(out).and_then(|()| out.flush())?;
        }
        let Some(outcome) = seen? else {
            if !speaks {
                self.print_result(plan, object, out)?;
            }
            let message =
                format!("the change is made, and no controller has acted on it within {} s", patience.as_secs());
            return Err(CommandError { exit: Exit::TimedOut, ..CommandError::new(message) }
                .hint("does the controller manager run? `kubectl ds coverage` says what it sees of it")
                .into());
        };
        plan.outcome = outcome;
        if speaks {
            words::outcome(plan, &self.view, out)?;
        } else {
            self.print_result(plan, object, out)?;
        }
        Ok(Exit::Success)
    }

    /// Waits until the controller has made a revision of the new template; returns nothing where it does not in time.
    async fn wait(
        &self,
        plan: &ChangePlan,
        before: &Revisions<'_>,
        object: &Value,
        patience: Duration,
    ) -> Result<Option<Outcome>, Failure> {
        let metadata = &self.daemon_set.metadata;
        let query = Query {
            namespace: Some(metadata.namespace.clone()),
            names: vec![metadata.name.clone()],
            flavors: self.flavors(),
            wanted: Wanted::History(PodsOf::None),
            ..Query::default()
        };
        let generation = object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
        let made = Template::new(object.pointer("/spec/template").cloned().unwrap_or_default());
        let target = plan.to_revision.and_then(|number| before.number(number));
        let target = target.map(|target| target.object.metadata.name.clone());
        let seen = self.session.watch(&query, patience, |snapshot| {
            let now = snapshot.daemon_sets_of_any_flavor().next()?;
            let after = Revisions::of(now, snapshot);
            if now.status.observed_generation < generation {
                return None;
            }
            // The newest is the one that was made of the template, unless somebody has changed it again.
            let newest = after.all.first()?;
            let is_it = newest.template.as_ref().is_ok_and(|template| template.same_meaning(&made));
            if !is_it && now.metadata.generation == generation {
                return None;
            }
            let kept = |number: i64| after.number(number).is_some();
            Some(Outcome {
                stage: Stage::Observed,
                revision: Some(newest.number()),
                is_target: target.as_deref() == Some(newest.object.metadata.name.as_str()),
                changed_again: now.metadata.generation > generation,
                can_return: plan.from_revision.is_some_and(kept),
                made_by_server: plan.outcome.made_by_server.clone(),
            })
        });
        seen.await
    }

    fn verb(&self) -> &'static str {
        match self.changed {
            Changed::RolledBack => "rolled back",
            Changed::Restarted => "restarted",
        }
    }

    fn flavors(&self) -> Flavors {
        match self.daemon_set.flavor() {
            Flavor::Apps => Flavors::Apps,
            Flavor::Advanced => Flavors::Advanced,
        }
    }
}

fn print_object(output: Output, plan: &ChangePlan, object: &Value, out: &mut dyn Write) -> std::io::Result<()> {
    let shown = || {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            // As kubectl does: they are the server's accounts, and long.
            metadata.remove("managedFields");
        }
        object
    };
    match output {
        Output::Name => writeln!(out, "{}", sanitize(&plan.daemon_set.full())),
        Output::Json => json::indented(&shown(), out),
        Output::Yaml => yaml::write(&shown(), out),
        Output::Plan => json::indented(plan, out),
    }
}
