//! `history`: the revisions of a DaemonSet, and how two templates differ.

use std::io::Write;

use clap::Args;

use super::change::only_one;
use super::output::{self, Output, formats};
use super::parse::{Named, parse_name};
use super::session::{GlobalArgs, warn};
use super::{Failure, RunCommand};
use crate::cluster::{Flavors, Query, Wanted, manifest};
use crate::coverage::gaps::incomplete_for_history;
use crate::encode::sanitize::sanitize;
use crate::encode::yaml;
use crate::error::{CommandError, Exit};
use crate::facts::revisions::{Address, NoTemplate, Revision, Revisions, name_of};
use crate::io::Io;
use crate::model::hold::Hold;
use crate::model::snapshot::{Kind, Snapshot};
use crate::model::template::Template;
use crate::render;
use crate::render::unified::{self, Labeled};
use crate::render::view::View;
use crate::report::coverage::Incomplete;
use crate::report::fix::{Command, Fix};
use crate::report::history::{DiffSide, TemplateSource};
use crate::rollout::history::{diff, history, manifest_with, side};

/// Show the revisions of a DaemonSet, and what changed in each
///
/// And which pods run on each.
///
/// With --diff: how two templates differ, by default the current one and the one before it. A and B are
/// revisions (`3`), steps before the current one (`-1`, `-2`), `live` for the template of the DaemonSet itself, or a
/// manifest for B. A alone is compared with the current template.
#[derive(Debug, Args)]
#[command(before_help = "# List the revisions of a DaemonSet, and what changed in each
kubectl ds history fluent-bit -n logging

# Show what the last change did
kubectl ds history fluent-bit -n logging --diff

# Compare revisions 3 and 4 as lines of YAML
kubectl ds history fluent-bit -n logging --diff 3..4 --unified

# Output the template of revision 1, to apply it again
kubectl ds history fluent-bit -n logging --revision 1 -o yaml")]
pub struct HistoryArgs {
    /// The DaemonSet; `ads/NAME` for an Advanced DaemonSet of OpenKruise
    name: Option<String>,
    /// Compare two templates, by default the last two.
    ///
    /// A with the current one, A with B, or the previous with the current one; a range that begins with a minus is given as
    /// --diff=-2..-1.
    // Do not use allow_hyphen_values: it would accept `-ojson` as a range.
    #[arg(long, value_name = "A[..B]", num_args = 0..=1, default_missing_value = "", allow_negative_numbers = true)]
    #[arg(conflicts_with = "revision")]
    diff: Option<String>,
    /// With --diff: show the differences as lines of YAML
    #[arg(long, requires = "diff", conflicts_with = "output")]
    unified: bool,
    /// With --diff: exit with 1 if there is a difference.
    ///
    /// And with 2 if something went wrong, as diff does.
    #[arg(long, requires = "diff")]
    exit_code: bool,
    /// Show one revision.
    ///
    /// With -o yaml or json a DaemonSet with its template, to be applied again.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    revision: Option<String>,
    /// Output format. One of: (wide, json, yaml, name)
    #[arg(short, long, value_name = "FORMAT", value_parser = formats(&[Output::Wide, Output::Json, Output::Yaml, Output::Name]), hide_possible_values = true)]
    output: Option<Output>,
}

/// Number of lines of context in a diff.
const CONTEXT: usize = 3;

/// The request.
enum Question {
    /// The revisions.
    Revisions,
    /// One revision's template.
    Template(Address),
    /// The differences between two templates; as a unified diff, if requested.
    Diff { sides: Sides, unified: bool },
}

/// The templates to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sides {
    /// The current one and the previous one.
    Newest,
    /// Those at two addresses.
    Two(Address, Address),
    /// That at an address and that in a manifest.
    Manifest(Address, String),
}

/// Parses the value of `--diff`.
fn sides(text: &str) -> Result<Sides, CommandError> {
    let of = |text: &str| address(text).ok_or_else(|| unknown_address(text));
    match text.split_once("..") {
        None if text.is_empty() => Ok(Sides::Newest),
        None => Ok(Sides::Two(of(text).map_err(|error| error.hint("the name goes before --diff"))?, Address::Live)),
        Some((_, "")) => Err(CommandError::usage(format!("nothing to compare with after {text:?}"))
            .hint("write A..B, such as 2..4, 2..live or 2..agent.yaml; A alone is compared with the current one")),
        // As in git, three dots are accepted.
        Some((from, to)) => Ok(match address(to).or_else(|| address(to.strip_prefix('.')?)) {
            Some(to) => Sides::Two(of(from)?, to),
            None => Sides::Manifest(of(from)?, to.to_owned()),
        }),
    }
}

/// Parses a revision number, a step back, or `live`.
fn address(text: &str) -> Option<Address> {
    match (text, text.strip_prefix('-')) {
        ("live", _) => Some(Address::Live),
        (_, Some(steps)) => steps.parse().ok().filter(|steps| *steps > 0).map(Address::Back),
        _ => text.parse().ok().map(Address::Number),
    }
}

fn unknown_address(text: &str) -> CommandError {
    CommandError::usage(format!("invalid revision {text:?}"))
        .hint("give a number such as 3, a step back such as -1, or live")
}

impl RunCommand for HistoryArgs {
    async fn run(self, target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let as_diff = self.exit_code;
        match answer(self, target, io, out).await {
            // 1 means that there is a difference, so errors use 2.
            Err(Failure::Error(error)) if as_diff && error.exit == Exit::Error => Err(error.exit(Exit::Usage).into()),
            result => result,
        }
    }
}

async fn answer(
    arguments: HistoryArgs,
    target: GlobalArgs,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let HistoryArgs { name, diff: compared, unified, exit_code, revision, output } = arguments;
    let (flavors, namespace, names) = match name.as_deref().map(parse_name).transpose()? {
        Some(Named { flavors, namespace, name }) => (flavors, namespace, vec![name]),
        None => (Flavors::Any, None, Vec::new()),
    };
    let question = match (compared, revision) {
        (Some(text), _) => Question::Diff { sides: sides(&text)?, unified },
        (None, Some(text)) => Question::Template(address(&text).ok_or_else(|| unknown_address(&text))?),
        (None, None) => Question::Revisions,
    };
    let is_table = matches!(question, Question::Revisions);
    if !is_table && output.is_some_and(|output| !output.is_data()) {
        return Err(CommandError::usage("-o wide and -o name are for the table of revisions").into());
    }
    if is_table && names.is_empty() {
        let changes = target.add_scope(Command::kubectl(&["ds", "changes"]));
        return Err(CommandError::usage("history needs the name of a DaemonSet")
            .hint(Fix::new("to list the rollouts of all", changes))
            .into());
    }
    if target.reads_input() && matches!(&question, Question::Diff { sides, .. } if sides.reads_input()) {
        return Err(CommandError::usage("--from - and a manifest from - cannot both read standard input").into());
    }
    let session = target.open(namespace, &names, io).await?;
    let view = session.view_for(output);
    let wanted = if is_table { Wanted::History } else { Wanted::Revisions };
    let query = Query { names, flavors, wanted, ..Query::default() };
    let snapshot = session.read(query, io).await?;
    let (sides, unified) = match question {
        Question::Revisions => {
            let mut report = history(&Revisions::of(only_one(&snapshot)?, &snapshot), &snapshot);
            output::print(output, &mut report, &view, out, |report, page| {
                render::history::one(report, output == Some(Output::Wide), page);
            })?;
            return Ok(Exit::Success);
        }
        Question::Template(address) => {
            let revisions = Revisions::of(only_one(&snapshot)?, &snapshot);
            if output.is_some() && Hold::in_force(revisions.daemon_set).is_some() {
                let name = sanitize(&name_of(revisions.daemon_set).title());
                let what = "the manifest has the update strategy from before";
                warn(vec![format!("{name} is held by kubectl ds: {what}; applied now, it would end the hold")], io)?;
            }
            print_template(&revisions, address, &snapshot, output, &view, out)?;
            return Ok(Exit::Success);
        }
        Question::Diff { sides, unified } => (sides, unified),
    };
    let revisions = Revisions::of(only_one(&snapshot)?, &snapshot);
    let manifest = match &sides {
        Sides::Manifest(_, path) => {
            io.await_input(path, "a manifest")?;
            let (template, warnings) = manifest::read_template(path, io.input)?;
            warn(warnings, io)?;
            Some(Template::new(template))
        }
        _ => None,
    };
    let (from, to) = choose(&revisions, &sides, manifest.as_ref())
        .map_err(|error| revisions_unknown(&revisions, &snapshot).unwrap_or(error))?;
    // A manifest relies on the API's defaults: only the complete forms can be compared line by line.
    let lines = |template: &Template| match &manifest {
        Some(_) => template.normal(),
        None => template.value().clone(),
    };
    let labeled = |side: &DiffSide, template: &Template| {
        let name = &revisions.daemon_set.metadata.name;
        let label = match side.source {
            TemplateSource::Manifest => render::history::label(side),
            TemplateSource::Live => format!("{name}.the-live-template"),
            TemplateSource::Revision => format!("{name}.revision-{}", side.revision.unwrap_or_default()),
        };
        Labeled { label, value: lines(template) }
    };
    let (left, right) = (labeled(&from.0, from.1), labeled(&to.0, to.1));
    let mut report = diff(&revisions, from, to);
    if output::print_data(output, &mut report, &view, out)? {
        return Ok(if exit_code && !report.changes.is_empty() { Exit::Error } else { Exit::Success });
    }
    let lines = if unified { unified::diff(&left, &right, CONTEXT, &view) } else { None };
    let differ = lines.is_some() || (!unified && !report.changes.is_empty());
    let text = lines.unwrap_or_else(|| view.text(|page| render::history::diff(&report, page)));
    out.write_all(text.as_bytes())?;
    Ok(if exit_code && differ { Exit::Error } else { Exit::Success })
}

impl Sides {
    fn reads_input(&self) -> bool {
        matches!(self, Sides::Manifest(_, path) if path == "-")
    }
}

type Side<'a> = (DiffSide, &'a Template);

fn choose<'a>(
    revisions: &'a Revisions<'_>,
    sides: &Sides,
    manifest: Option<&'a Template>,
) -> Result<(Side<'a>, Side<'a>), CommandError> {
    let find = |address| side(revisions, address).map_err(|unknown| not_there(revisions, address, unknown));
    // The current revision is named by its number; without one, or if it differs from the live template, that is used.
    let is_live = |revision: &&Revision<'_>| {
        revision.template.as_ref().is_ok_and(|template| template.same_meaning(&revisions.live))
    };
    let current = || match revisions.current().filter(is_live) {
        Some(current) => find(Address::Number(current.number())),
        None => find(Address::Live),
    };
    Ok(match (sides, manifest) {
        (Sides::Newest, _) => (find(Address::Back(1))?, current()?),
        (Sides::Two(from, Address::Live), _) if *from != Address::Live => (find(*from)?, current()?),
        // The live template is compared with the newest revision: they differ while the controller has not acted.
        (Sides::Two(Address::Live, Address::Live), _) => match revisions.all.first() {
            Some(newest) => (find(Address::Number(newest.number()))?, find(Address::Live)?),
            None => (find(Address::Live)?, find(Address::Live)?),
        },
        (Sides::Two(from, to), _) => (find(*from)?, find(*to)?),
        (Sides::Manifest(from, path), manifest) => {
            let side =
                DiffSide { source: TemplateSource::Manifest, file: Some(path.clone()), revision: None, current: false };
            (find(*from)?, (side, manifest.unwrap_or(&revisions.live)))
        }
    })
}

/// Builds the error for an address without a template.
pub(super) fn not_there(revisions: &Revisions<'_>, address: Address, unknown: NoTemplate) -> CommandError {
    let name = name_of(revisions.daemon_set).title();
    let message = match (unknown, address) {
        (NoTemplate::Unreadable(number, problem), _) => {
            format!("revision {number} of {name} cannot be read: {problem}")
        }
        (NoTemplate::NoSuchRevision, Address::Number(number)) => format!("no revision {number} of {name}"),
        (NoTemplate::NoSuchRevision, Address::Back(1)) => format!("no revision of {name} before the current one"),
        (NoTemplate::NoSuchRevision, Address::Back(steps)) => {
            format!("no {steps} revisions of {name} before the current one")
        }
        (NoTemplate::NoSuchRevision, Address::Live) => return CommandError::new(format!("{name} has no template")),
    };
    CommandError::new(message).hint(existing(revisions))
}

/// Builds the error for a number that no revision has.
pub(super) fn no_revision(revisions: &Revisions<'_>, number: i64) -> CommandError {
    not_there(revisions, Address::Number(number), NoTemplate::NoSuchRevision)
}

/// Returns the error for revisions that could not be read: one that was not found may exist.
pub(super) fn revisions_unknown(revisions: &Revisions<'_>, snapshot: &Snapshot) -> Option<CommandError> {
    let namespace = &revisions.daemon_set.metadata.namespace;
    snapshot.gap(Kind::ControllerRevisions, namespace)?;
    let name = name_of(revisions.daemon_set).title();
    let error = CommandError::new(format!("the revisions of {name} are not known"));
    Some(error.hints(Incomplete::sentences(&incomplete_for_history(snapshot, namespace))))
}

/// Lists the existing revisions.
pub(super) fn existing(revisions: &Revisions<'_>) -> String {
    let one = |revision: &Revision<'_>| {
        let note = match &revision.template {
            Err(_) => " (unreadable)",
            Ok(_) if revision.is_current => " (current)",
            Ok(_) => "",
        };
        format!("{}{note}", revision.number())
    };
    match revisions.all.as_slice() {
        [] => "it has no revisions; the controller creates the first one".to_owned(),
        all => format!("its revisions are {}", all.iter().map(one).collect::<Vec<_>>().join(", ")),
    }
}

fn print_template(
    revisions: &Revisions<'_>,
    address: Address,
    snapshot: &Snapshot,
    output: Option<Output>,
    view: &View,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (side, template) = side(revisions, address).map_err(|unknown| {
        revisions_unknown(revisions, snapshot).unwrap_or_else(|| not_there(revisions, address, unknown))
    })?;
    if output::print_value(output, &manifest_with(revisions.daemon_set, template), out)? {
        return Ok(());
    }
    let name = name_of(revisions.daemon_set).title();
    let line = format!("# {name}: {}", render::history::label(&side));
    writeln!(out, "{}", view.show(&line))?;
    Ok(yaml::write(template.value(), out)?)
}

#[cfg(test)]
mod tests {
    use super::{Address, Sides, sides};

    #[test]
    fn templates_are_named_by_number_by_distance_and_as_live() {
        let number = Address::Number;
        for (text, expected) in [
            ("", Sides::Newest),
            ("2", Sides::Two(number(2), Address::Live)),
            ("-2", Sides::Two(Address::Back(2), Address::Live)),
            ("2..4", Sides::Two(number(2), number(4))),
            ("live..-1", Sides::Two(Address::Live, Address::Back(1))),
            ("2..new/agent.yaml", Sides::Manifest(number(2), "new/agent.yaml".to_owned())),
            ("1...2", Sides::Two(number(1), number(2))),
            ("1..../agent.yaml", Sides::Manifest(number(1), "../agent.yaml".to_owned())),
            ("-1..-", Sides::Manifest(Address::Back(1), "-".to_owned())),
        ] {
            assert_eq!(sides(text).unwrap(), expected, "{text}");
        }
        for text in ["x", "2..", "..2", "-0", "a.yaml..2"] {
            assert!(sides(text).is_err(), "{text}");
        }
    }
}
