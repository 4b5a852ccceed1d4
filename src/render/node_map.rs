//! A map of nodes, grouped by a label: a glyph per node, or per several nodes in large clusters.

use std::cmp::Reverse;

use super::page::Page;
use super::style;
use super::text::{columns, count, cut};
use super::view::View;
use crate::report::node_map::{MapState, NodeMap, NodeMapGroup};

/// The widest name of a group, in columns.
const MAX_NAME: usize = 24;

/// The space between two groups on a line.
const GAP: usize = 3;

/// The space between the parts of a group.
const SEPARATOR: usize = 2;

/// Possible numbers of nodes per glyph.
const SCALES: [usize; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, LARGEST_SCALE];
const LARGEST_SCALE: usize = 5_000;

/// Writes the maps of DaemonSets, a glyph per node: each with its namespace and name, which are shown if there are several.
pub(crate) fn maps<'a>(
    daemon_sets: impl ExactSizeIterator<Item = (&'a str, &'a str, Option<&'a NodeMap>)>,
    page: &mut Page<'_>,
) {
    let view = page.view;
    let is_alone = daemon_sets.len() == 1;
    for (namespace, name, map) in daemon_sets {
        let Some(map) = map else { continue };
        writeln!(page);
        if !is_alone {
            writeln!(page, "{}", view.show(&format!("{namespace}/{name}")));
        }
        write(map, page);
    }
}

fn write(map: &NodeMap, page: &mut Page<'_>) {
    let view = page.view;
    let heading = format!("{} nodes of all eligible ones, by {}:", fine(map), map.label);
    writeln!(page, "{}", style::context(view.show(&heading)));
    lines(map, view, None).iter().for_each(|line| writeln!(page, "{line}"))
}

/// Returns the desired state of the nodes in a map.
fn fine(map: &NodeMap) -> &'static str {
    if map.is_coverage { "available" } else { "updated" }
}

/// Returns the lines of a map and its legend, at most `rows` if given.
pub(crate) fn lines(map: &NodeMap, view: &View, rows: Option<usize>) -> Vec<String> {
    let Some(rows) = rows else { return lines_at(map, 1, usize::MAX, view) };
    let room = |scale: usize| rows.saturating_sub(legend(map, scale, view).len());
    let layout = |scale: usize| Layout::new(map, scale, room(scale), view);
    let fitting = SCALES.into_iter().find(|scale| layout(*scale).rows() <= room(*scale));
    if let Some(scale) = fitting {
        return lines_at(map, scale, room(scale), view);
    }
    let scale = SCALES.into_iter().find(|scale| layout(*scale).has_one_row_each()).unwrap_or(LARGEST_SCALE);
    match room(scale) {
        0 => Vec::new(),
        // Some groups, and a line about the others.
        room @ 3.. => lines_at(map, scale, room, view),
        _ if map.groups.len() == 1 => Vec::new(),
        _ => lines(&merged(map), view, Some(rows)),
    }
}

fn lines_at(map: &NodeMap, scale: usize, room: usize, view: &View) -> Vec<String> {
    let mut lines = Layout::new(map, scale, room, view).lines(map, scale, room, view);
    lines.extend(legend(map, scale, view));
    lines
}

/// Returns the map with all nodes in one group.
fn merged(map: &NodeMap) -> NodeMap {
    let nodes = map.groups.iter().flat_map(|group| group.nodes.iter().cloned()).collect();
    NodeMap {
        is_coverage: map.is_coverage,
        label: map.label.clone(),
        groups: vec![NodeMapGroup { value: None, nodes }],
    }
}

/// Returns the glyph of a state, its meaning, and its style.
fn shown(state: MapState, view: &View) -> (&'static str, &'static str, fn(String) -> String) {
    let (glyph, ascii, word, style): (_, _, _, fn(String) -> String) = match state {
        MapState::Updated => ("■", "#", "updated", style::healthy),
        MapState::Available => ("■", "#", "available", style::healthy),
        MapState::Updating => ("▲", "+", "updating", style::in_progress),
        MapState::Starting => ("▲", "+", "starting", style::in_progress),
        MapState::Failing => ("✗", "X", "failing", style::problem),
        MapState::NoPod => ("·", ".", "without a pod", style::plain),
        MapState::Old => ("□", "o", "old", style::context),
        MapState::NotEligible => ("-", "-", "not eligible", style::context),
    };
    (if view.ascii { ascii } else { glyph }, word, style)
}

/// Returns the legend of the glyphs, with the numbers of nodes.
fn legend(map: &NodeMap, scale: usize, view: &View) -> Vec<String> {
    let number = |state: MapState| map.groups.iter().map(|group| group.count(state)).sum::<usize>();
    let states = MapState::ALL.iter().copied().map(|state| (state, number(state))).filter(|(_, number)| *number > 0);
    let items = states.map(|(state, number)| {
        let (glyph, word, style) = shown(state, view);
        let text = format!("{number} {word}");
        (format!("{} {text}", style(glyph.to_owned())), columns(glyph) + 1 + columns(&text))
    });
    let mut items: Vec<(String, usize)> = items.collect();
    if scale > 1 {
        let text = format!("(each glyph is up to {scale} nodes)");
        items.push((style::context(&text), columns(&text)));
    }
    let mut lines: Vec<(String, usize)> = Vec::new();
    for (item, width) in items {
        match lines.last_mut() {
            Some((line, used)) if *used + SEPARATOR + width <= view.width => {
                line.push_str(&" ".repeat(SEPARATOR));
                line.push_str(&item);
                *used += SEPARATOR + width;
            }
            _ => lines.push((item, width)),
        }
    }
    lines.into_iter().map(|(line, _)| line).collect()
}

/// The layout of the groups: columns of equal width.
struct Layout {
    names: Vec<String>,
    name_width: usize,
    number_width: usize,
    columns: usize,
    /// The remaining width of a column for glyphs.
    glyphs: usize,
    /// The rows of each line of groups.
    heights: Vec<usize>,
}

impl Layout {
    /// Lays out with the fewest columns that fit into the given rows.
    fn new(map: &NodeMap, scale: usize, rows: usize, view: &View) -> Self {
        let is_labeled = map.groups.iter().any(|group| group.value.is_some());
        let name = |group: &NodeMapGroup| match &group.value {
            _ if !is_labeled => String::new(),
            Some(value) if !value.is_empty() => cut(&view.show(value), MAX_NAME.min(view.width / 3), view.ascii),
            Some(_) => "\"\"".to_owned(),
            None => "(no label)".to_owned(),
        };
        let names: Vec<String> = map.groups.iter().map(name).collect();
        let width_of = |texts: &mut dyn Iterator<Item = usize>| texts.max().map_or(0, |width| width + SEPARATOR);
        let name_width = if is_labeled { width_of(&mut names.iter().map(|name| columns(name))) } else { 0 };
        let number_width =
            if is_labeled { width_of(&mut map.groups.iter().map(|group| numbers(group).len())) } else { 0 };
        let sizes: Vec<usize> = map.groups.iter().map(|group| glyphs_of(group, scale).map(|(_, n)| n).sum()).collect();
        let lead = name_width + number_width;
        let options = (1..=map.groups.len().max(1)).map_while(|number| {
            let column = (view.width + GAP) / number;
            let glyphs = column.checked_sub(GAP + lead).filter(|glyphs| *glyphs > 0 || number == 1)?;
            let heights: Vec<usize> = sizes
                .chunks(number)
                .map(|line| line.iter().map(|size| size.div_ceil(glyphs.max(1))).max().unwrap_or(0).max(1))
                .collect();
            Some((number, glyphs.max(1), heights))
        });
        let (columns, glyphs, heights) = options
            .min_by_key(|(number, _, heights)| (heights.iter().sum::<usize>().max(rows), *number))
            .unwrap_or((1, 1, Vec::new()));
        let glyphs = glyphs.min(sizes.iter().copied().max().unwrap_or(1)).max(1);
        Layout { names, name_width, number_width, columns, glyphs, heights }
    }

    fn rows(&self) -> usize {
        self.heights.iter().sum()
    }

    fn has_one_row_each(&self) -> bool {
        self.heights.iter().all(|height| *height == 1)
    }

    fn lines(&self, map: &NodeMap, scale: usize, room: usize, view: &View) -> Vec<String> {
        let mut order: Vec<usize> = (0..map.groups.len()).collect();
        let is_cut = self.rows() > room;
        let shown = if is_cut { room.saturating_sub(1) * self.columns } else { order.len() };
        if is_cut {
            // The groups that need attention are shown.
            let rank = |index: &usize| {
                let group = &map.groups[*index];
                (Reverse(group.count(MapState::Failing)), Reverse(group.count_eligible() - group.count_fine()))
            };
            order.sort_by_key(rank);
        }
        let cells = order.iter().take(shown).map(|index| self.cell(*index, &map.groups[*index], scale, view));
        let cells: Vec<Vec<(String, usize)>> = cells.collect();
        let mut lines = Vec::new();
        for line in cells.chunks(self.columns) {
            let height = line.iter().map(Vec::len).max().unwrap_or(0);
            for row in 0..height {
                let mut text = String::new();
                let mut gap = 0;
                for cell in line {
                    let (part, width) = cell.get(row).cloned().unwrap_or_default();
                    text.push_str(&" ".repeat(gap));
                    text.push_str(&part);
                    gap = self.name_width + self.number_width + self.glyphs + GAP - width;
                }
                lines.push(text);
            }
        }
        if is_cut && room > 0 {
            let rest = || order.iter().skip(shown).map(|index| &map.groups[*index]);
            let done: usize = rest().map(NodeMapGroup::count_fine).sum();
            let nodes: usize = rest().map(NodeMapGroup::count_eligible).sum();
            lines.truncate(room - 1);
            lines.push(format!("+{}: {done} of {nodes} nodes {}", count(rest().count(), "more group"), fine(map)));
        }
        lines
    }

    /// Returns the lines of a group with their widths.
    fn cell(&self, index: usize, group: &NodeMapGroup, scale: usize, view: &View) -> Vec<(String, usize)> {
        let name = &self.names[index];
        let lead_width = self.name_width + self.number_width;
        let mut lead = name.clone() + &" ".repeat(self.name_width - columns(name));
        if self.number_width > 0 {
            lead.push_str(&format!("{:>width$}  ", numbers(group), width = self.number_width - SEPARATOR));
        }
        let mut lines = vec![(lead, lead_width)];
        for (state, mut number) in glyphs_of(group, scale) {
            while number > 0 {
                let room = lines.last().map_or(0, |(_, width)| lead_width + self.glyphs - width);
                if room == 0 {
                    lines.push((" ".repeat(lead_width), lead_width));
                    continue;
                }
                let part = number.min(room);
                if let Some((line, width)) = lines.last_mut() {
                    let (glyph, _, style) = shown(state, view);
                    line.push_str(&style(glyph.repeat(part)));
                    *width += part;
                }
                number -= part;
            }
        }
        lines
    }
}

/// Returns how many nodes of a group are updated (for coverage: available).
fn numbers(group: &NodeMapGroup) -> String {
    format!("{}/{}", group.count_fine(), group.count_eligible())
}

/// Returns the number of glyphs for each state of a group, at least one for a state that occurs.
fn glyphs_of(group: &NodeMapGroup, scale: usize) -> impl Iterator<Item = (MapState, usize)> {
    MapState::ALL.iter().map(move |state| (*state, group.count(*state).div_ceil(scale)))
}

#[cfg(test)]
mod tests {
    use super::lines;
    use crate::render::text::columns;
    use crate::render::view::View;
    use crate::report::node_map::{MapNode, MapState, NodeMap, NodeMapGroup};

    fn group(value: Option<&str>, numbers: [usize; 5]) -> NodeMapGroup {
        let of_rollout = [MapState::Updated, MapState::Updating, MapState::Failing, MapState::NoPod, MapState::Old];
        let states = of_rollout.into_iter().zip(numbers);
        let states = states.flat_map(|(state, number)| std::iter::repeat_n(state, number));
        let node = |(index, state)| MapNode {
            name: format!("n{index}"),
            state,
            pod: None,
            restarts: 0,
            reason: None,
            since: None,
        };
        NodeMapGroup { value: value.map(str::to_owned), nodes: states.enumerate().map(node).collect() }
    }

    fn map(groups: Vec<NodeMapGroup>) -> NodeMap {
        NodeMap { is_coverage: false, label: "zone".to_owned(), groups }
    }

    fn plain(lines: Vec<String>) -> Vec<String> {
        lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn groups_share_lines_if_they_must() {
        let map = map(vec![
            group(Some("a"), [3, 1, 0, 0, 4]),
            group(Some("bb"), [0, 0, 1, 1, 2]),
            group(None, [1, 0, 0, 0, 0]),
        ]);
        assert_eq!(
            plain(lines(&map, &View::new(Some(80), false), Some(3))),
            [
                "a           3/8  ■■■▲□□□□   bb          0/4  ✗·□□",
                "(no label)  1/1  ■",
                "■ 4 updated  ▲ 1 updating  ✗ 1 failing  · 1 without a pod  □ 6 old"
            ]
        );
        assert_eq!(
            plain(lines(&map, &View::new(Some(40), true), None)),
            [
                "a           3/8  ###+oooo",
                "bb          0/4  X.oo",
                "(no label)  1/1  #",
                "# 4 updated  + 1 updating  X 1 failing",
                ". 1 without a pod  o 6 old"
            ]
        );
    }

    #[test]
    fn many_nodes_are_aggregated_until_they_fit_and_no_state_is_lost() {
        let zone = |failing| [900, 3, failing, 0, 700];
        let map =
            map(vec![group(Some("zone-a"), zone(1)), group(Some("zone-b"), zone(0)), group(Some("zone-c"), zone(0))]);
        for (width, rows) in [(200, 40), (200, 12), (80, 12), (40, 6), (80, 4)] {
            let view = View::new(Some(width), false);
            let lines = plain(lines(&map, &view, Some(rows)));
            assert!(lines.len() <= rows, "{lines:#?}");
            assert!(lines.iter().all(|line| columns(line) <= width), "{lines:#?}");
            assert!(lines.iter().any(|line| line.contains('✗')), "{lines:#?}");
        }
        let one_each = plain(lines(&map, &View::new(Some(200), false), Some(48)));
        assert!(
            one_each.last().unwrap().contains("2700 updated") && !one_each.join("").contains("up to"),
            "{one_each:#?}"
        );
    }

    #[test]
    fn groups_that_do_not_fit_are_summed_up_and_failing_ones_are_shown() {
        let mut groups: Vec<_> =
            (0..300).map(|number| group(Some(&format!("host-{number:03}")), [1, 0, 0, 0, 0])).collect();
        groups[250] = group(Some("host-250"), [0, 0, 1, 0, 0]);
        let lines = plain(lines(&map(groups), &View::new(Some(80), false), Some(6)));
        assert_eq!(lines.len(), 6);
        assert!(lines[0].starts_with("host-250  0/1  ✗"), "{lines:#?}");
        assert!(lines[4].starts_with('+') && lines[4].ends_with("nodes updated"), "{lines:#?}");
    }

    #[test]
    fn names_of_groups_are_sanitized_and_cut() {
        let map = map(vec![group(Some("\u{1b}[2J日本日本日本日本日本日本日本"), [1, 0, 0, 0, 0])]);
        let lines = lines(&map, &View::new(Some(60), false), None);
        assert!(lines[0].starts_with(r"\u{1b}[2J日本日"), "{lines:#?}");
        assert!(lines.iter().all(|line| !line.contains("\u{1b}[2J")), "{lines:#?}");
    }
}
