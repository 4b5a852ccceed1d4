//! The screen of a followed rollout: as much as fits into the given rows, the most important first.

use jiff::Timestamp;

use super::common_cause::blame;
use super::list::styled;
use super::region::Line;
use super::removed_nodes::sentence;
use super::status::{at_once, change, headline, table};
use super::text::{columns, count, some_of, time_since, wrap};
use super::view::View;
use super::{node_map, style};
use crate::report::age::format_age;
use crate::report::coverage::ReasonGroup;
use crate::report::fix::Fix;
use crate::report::node_event::{NodeEvent, NodeEventKind};
use crate::report::node_map::MapState;
use crate::report::reason::ReasonCode;
use crate::report::rollout_status::{RolloutStatus, RolloutStatusReport, Verdict};

/// The widest progress bar, in columns.
const MAX_BAR: usize = 40;

/// The most causes that are shown.
const MAX_CAUSES: usize = 4;

/// The most events that are shown.
const MAX_EVENTS: usize = 8;

/// The state of the rollouts at one moment.
pub struct Moment<'a> {
    /// The progress of the rollouts.
    pub report: &'a RolloutStatusReport,
    /// The events on nodes, the newest first; only if there is one rollout.
    pub events: &'a [&'a NodeEvent],
    /// Why the report may be stale.
    pub notices: &'a [String],
}

/// Returns the lines of a screen with a given number of rows.
pub fn lines(moment: &Moment<'_>, view: &View, rows: usize) -> Vec<Line> {
    match moment.report.daemon_sets.as_slice() {
        [one] => one_rollout(one, moment, view, rows),
        _ => {
            let mut lines: Vec<String> = moment.notices.iter().flat_map(|text| notice(text, view)).collect();
            let table = view.text(|page| table(&moment.report.into(), page));
            lines.extend(table.lines().map(str::to_owned));
            clip(lines, rows)
        }
    }
}

/// Limits lines to a number of rows, and says so.
pub(crate) fn clip(mut lines: Vec<String>, rows: usize) -> Vec<Line> {
    if lines.len() > rows {
        let hidden = lines.len() - rows.saturating_sub(1);
        lines.truncate(rows.saturating_sub(1));
        let text = format!("+{} more (enlarge the terminal)", count(hidden, "line"));
        lines.push(style::context(text));
    }
    lines.into_iter().map(Line::from).collect()
}

/// Remaining rows.
struct RowsLeft {
    rows: usize,
    /// The columns of the terminal.
    columns: usize,
}

impl RowsLeft {
    /// Takes lines, unless fewer than `least` would fit.
    fn take(&mut self, lines: Vec<impl Into<Line>>, least: usize) -> Vec<Line> {
        let mut left = self.rows;
        let fits = |line: &Line| {
            let after = left.checked_sub(line.rows(self.columns));
            left = after.unwrap_or(left);
            after.is_some()
        };
        let taken: Vec<Line> = lines.into_iter().map(Into::into).take_while(fits).collect();
        if taken.len() < least {
            return Vec::new();
        }
        self.rows = left;
        taken
    }
}

fn one_rollout(rollout: &RolloutStatus, moment: &Moment<'_>, view: &View, rows: usize) -> Vec<Line> {
    let now = moment.report.now;
    let is_stuck = matches!(rollout.verdict, Verdict::Blocked | Verdict::Degraded | Verdict::Paused);
    // The width excludes the last column.
    let mut room = RowsLeft { rows, columns: view.width + 1 };
    // Rows are assigned in order of importance, not in the order on the screen.
    let removed = rollout.removed_nodes.iter().flat_map(|it| wrap(&view.show(&sentence(it, now)), view.width));
    let removed: Vec<String> = removed.map(style::problem).collect();
    let head = wrap(&view.show(&headline(rollout, now)), view.width).into_iter();
    let head = head.map(|line| style::summary(styled(rollout.status)(line)));
    let head = room.take(removed.into_iter().chain(head).collect(), 1);
    let bar = room.take(vec![bar(rollout, view)], 1);
    let notices = room.take(moment.notices.iter().flat_map(|text| notice(text, view)).take(3).collect(), 1);
    let way_out = if is_stuck { way_out(&rollout.way_out, view) } else { Vec::new() };
    let first = way_out.first().map_or(0, Vec::len);
    let way_out = room.take(way_out.concat(), first);
    // Nothing explains yet why a deleted pod that is about to be recreated is missing.
    let is_problem = |cause: &&ReasonGroup| !cause.passing && (is_stuck || cause.code != ReasonCode::Unexplained);
    let problems: Vec<&ReasonGroup> = rollout.problems.iter().filter(is_problem).collect();
    let causes: Vec<String> = problems.iter().take(MAX_CAUSES).flat_map(|it| cause(it, now, view)).collect();
    // Failing nodes are named, but do not hide a rollout that progresses.
    let for_causes = if is_stuck { causes.len() } else { (room.rows / 2).max(2) };
    let causes = room.take(causes.into_iter().take(for_causes).collect(), 1);
    let mut remarks: Vec<String> = Vec::new();
    remarks.extend(blame(&rollout.common_causes, rollout.suspect.as_ref(), now));
    remarks.extend(rollout.replaced_at_once.map(|pods| at_once(rollout, pods)));
    let remarks: Vec<Vec<String>> = remarks.iter().map(|text| wrap(&view.show(text), view.width)).collect();
    let least = remarks.first().map_or(0, Vec::len);
    let remarks = room.take(remarks.concat(), least);
    let for_map = (room.rows * 2).div_ceil(3).max(3).min(room.rows);
    let map = rollout.map.as_ref().map(|map| node_map::lines(map, view, Some(for_map))).unwrap_or_default();
    let map = room.take(map, 2);
    let changed = change(rollout, now).map(|text| view.show(&text));
    let changed = changed.map_or_else(Vec::new, |text| match wrap(&text, view.width) {
        lines if lines.len() <= 2 && lines.len() < room.rows => lines,
        _ => vec![text],
    });
    let changed = room.take(changed, 1);
    let events: Vec<String> = moment.events.iter().take(MAX_EVENTS).map(|event| event_line(event, now, view)).collect();
    let events = room.take(events, 1);
    let top = [head, changed, bar, notices].concat();
    let sections = [top, [causes, remarks].concat(), way_out, map, events];
    let sections: Vec<Vec<Line>> = sections.into_iter().filter(|lines| !lines.is_empty()).collect();
    // Empty lines separate sections if there is enough space.
    let separator = if room.rows + 1 >= sections.len() { vec![Line::from("")] } else { Vec::new() };
    sections.join(&*separator)
}

fn notice(text: &str, view: &View) -> Vec<String> {
    wrap(&view.show(text), view.width).into_iter().map(style::in_progress).collect()
}

/// Returns the bar, and the numbers next to it.
fn bar(rollout: &RolloutStatus, view: &View) -> String {
    let counts = &rollout.counts;
    let (Some(desired), Some(available)) = (counts.eligible, counts.available) else { return String::new() };
    let done = counts.updated_available.unwrap_or(0);
    let starting = counts.updated.unwrap_or(0).saturating_sub(done);
    let width = (view.width / 4).min(MAX_BAR);
    let part = |number: usize| (number * width).checked_div(desired).unwrap_or(0);
    let (full, half) = (part(done), part(done + starting) - part(done));
    let [done_glyph, half_glyph, rest_glyph] = if view.ascii { ["#", "+", "-"] } else { ["█", "▒", "░"] };
    let rest = rest_glyph.repeat(width.saturating_sub(full + half));
    let drawn = format!(
        "{}{}{}",
        style::healthy(done_glyph.repeat(full)),
        style::in_progress(half_glyph.repeat(half)),
        style::context(rest)
    );
    let failing: usize =
        rollout.map.iter().flat_map(|map| &map.groups).map(|group| group.count(MapState::Failing)).sum();
    // As the headline has it: the part of the bar that is not full is not available yet.
    let percent = ((done + starting) * 100).checked_div(desired).unwrap_or(100);
    let mut text = format!("{drawn} {percent:>3}%");
    if failing > 0 {
        text.push_str(&format!("  {}", style::problem(format!("{failing} failing"))));
    }
    text.push_str(&format!("  {available} of {desired} available"));
    if let Some(budget) = &rollout.budget {
        text.push_str(&format!("  budget: {} of {}", budget.used, budget.allowed));
    }
    text
}

/// Returns the lines of a cause: which nodes, and why.
fn cause(cause: &ReasonGroup, now: Timestamp, view: &View) -> [String; 2] {
    let since = cause.since.map(|since| format!(" for {}", time_since(since, now))).unwrap_or_default();
    let lead = format!("{} on {}{since}: ", cause.code, count(cause.nodes.len(), "node"));
    let nodes = some_of(&cause.nodes, view.width.saturating_sub(columns(&lead)));
    let code = style::problem(cause.code.name());
    let lead = view.show(&lead);
    let rest = lead.strip_prefix(cause.code.name()).unwrap_or_default();
    let gap = " ".repeat(2);
    // `show` drops the trailing space of the lead.
    [format!("{code}{rest} {}", view.show(&nodes)), format!("{gap}{}", view.show(&cause.message))]
}

/// Returns the lines of each way out. A command is never split, so that it can be pasted: the terminal wraps it.
fn way_out(fixes: &[Fix], view: &View) -> Vec<Vec<Line>> {
    let lines = |fix: &Fix| {
        let (advice, command) = view.suggest(fix);
        let Some(command) = command else { return wrap(&advice, view.width).into_iter().map(Line::from).collect() };
        let advice = format!("{advice}:");
        if columns(&advice) + 1 + columns(&command) <= view.width {
            return vec![format!("{advice} {command}").into()];
        }
        let command = Line::whole(format!("    {command}"));
        wrap(&advice, view.width).into_iter().map(Line::from).chain([command]).collect()
    };
    fixes.iter().map(lines).collect()
}

fn event_line(event: &NodeEvent, now: Timestamp, view: &View) -> String {
    let ago = time_since(event.at, now);
    let pod = event.pod.as_deref().unwrap_or("pod");
    let text = match event.change {
        NodeEventKind::Added => "is a new node".to_owned(),
        NodeEventKind::Removed => "is no longer eligible".to_owned(),
        NodeEventKind::Updating => format!("{pod} is being replaced"),
        NodeEventKind::Updated(Some(seconds)) => format!("{pod} available after {}", format_age(seconds)),
        NodeEventKind::Updated(None) => format!("{pod} available"),
        NodeEventKind::OldAvailable => format!("{pod} of an older revision available"),
        NodeEventKind::Failing(Some(code)) => format!("{pod} failing: {code}"),
        NodeEventKind::Failing(None) => format!("{pod} failing"),
        NodeEventKind::Restarted(1) => format!("{pod} restarted"),
        NodeEventKind::Restarted(number) => format!("{pod} restarted ({number} restarts)"),
    };
    let line = format!("{ago:>5} ago  {}  {}", view.show(&event.node), view.show(&text));
    match event.change {
        NodeEventKind::Failing(_) | NodeEventKind::Restarted(_) => style::problem(line),
        _ => line,
    }
}
