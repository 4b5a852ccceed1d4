//! What DaemonSets cost on nodes.

use std::collections::BTreeSet;

use super::coverage::incomplete;
use super::page::Page;
use super::style;
use super::table::{self, Column};
use super::text::count;
use crate::report::overhead::{
    Amount, DaemonSetRequests, NotEligible, OverheadGroup, OverheadReport, OverheadShape, Range, ResourceOverhead,
    SingleNode, StartupTaintReport,
};

/// How many DaemonSets are named as the largest ones.
const LARGEST: usize = 3;

/// Writes the overhead by the value of a label, or of a single node. All of its DaemonSets are shown if `wide` is set.
pub fn overhead(report: &OverheadReport, wide: bool, page: &mut Page<'_>) {
    match (&report.by, &report.node, report.groups.as_slice()) {
        (None, Some(node), [group]) => group.shapes.iter().for_each(|shape| single(report, node, shape, wide, page)),
        (by, ..) => by_label(report, by.as_deref().unwrap_or_default(), wide, page),
    }
    startup_taints(report, page);
    if report.unprotected.as_ref().is_some_and(|all| !all.is_empty()) {
        writeln!(page);
    }
    for one in report.unprotected.iter().flatten() {
        let why = match one.never_preempts {
            true => "their preemptionPolicy is Never".to_owned(),
            false => format!(
                "{} of {} of workloads {} at least their priority",
                one.pods_not_lower,
                count(one.workload_pods, "pod"),
                if one.pods_not_lower == 1 { "has" } else { "have" },
            ),
        };
        let names = page.view.names(&one.daemon_sets, 24);
        let text = format!("unprotected: {names} (priority {}): on a full node they stay Pending; {why}", one.priority);
        page.advice(&text, Some(&one.fix), "");
    }
    incomplete(&report.incomplete, page);
}

fn by_label(report: &OverheadReport, label: &str, wide: bool, page: &mut Page<'_>) {
    let view = page.view;
    let (daemon_sets, nodes) = (count(report.daemon_sets_total, "DaemonSet"), count(report.nodes_total, "node"));
    page.paragraph(&format!("{daemon_sets} on {nodes}, by {label}"), style::summary);
    if let Some(pod) = &report.pod {
        page.paragraph(&format!("FITS is how many pods with {} fit beside them", listed(pod)), style::context);
    }
    writeln!(page);
    let heading = label.rsplit('/').next().unwrap_or(label).to_ascii_uppercase();
    let heading = view.show(&heading);
    let mut columns = vec![
        Column::text(&heading, |group: &OverheadGroup| view.show(&value(group))).shrinkable(),
        Column::number("NODES", |group: &OverheadGroup| Some(group.nodes)),
        Column::text("DAEMONSETS", |group: &OverheadGroup| {
            let runs = numbers(group, |shape| Range { least: shape.runs.len(), most: shape.runs.len() });
            format!("{runs} of {}", report.daemon_sets_total)
        }),
        Column::text("PODS", |group: &OverheadGroup| {
            let pods = numbers(group, |shape| Range { least: shape.pods, most: shape.pods });
            format!("{pods}/{}", numbers(group, |shape| shape.pods_allowed))
        })
        .droppable(1),
        Column::text("CPU", move |group: &OverheadGroup| view.show(&cost(group, "cpu", wide))),
        Column::text("MEMORY", move |group: &OverheadGroup| view.show(&cost(group, "memory", wide))).droppable(2),
    ];
    if report.pod.is_some() {
        columns.push(Column::text("FITS", |group: &OverheadGroup| {
            numbers(group, |shape| shape.pod_fits.unwrap_or(Range { least: 0, most: 0 }))
        }));
    }
    columns.push(Column::sentence("LEFT PER NODE", |group: &OverheadGroup| view.show(&left(group, wide))));
    table::write(&columns, &report.groups, page);
    let mut is_first = true;
    for group in &report.groups {
        let mut lacks: Vec<(Lack, Vec<&str>)> = Vec::new();
        for shape in &group.shapes {
            let unfit = Lack { sure: true, names: shape.does_not_fit.iter().map(unfit).collect() };
            let some = Lack { sure: false, names: shape.may_run.iter().map(name).collect() };
            for lack in [unfit, some].into_iter().filter(|lack| !lack.names.is_empty()) {
                let nodes = shape.nodes.iter().map(String::as_str);
                match lacks.iter_mut().find(|(known, _)| *known == lack) {
                    Some((_, known)) => known.extend(nodes),
                    None => lacks.push((lack, nodes.collect())),
                }
            }
        }
        for (Lack { sure, names }, nodes) in &lacks {
            if std::mem::take(&mut is_first) {
                writeln!(page);
            }
            let (place, listed) = (place(group, nodes), page.view.names(names, 24));
            let text = match (sure, names.len()) {
                (true, 1) => format!("does not fit on {place}: {listed}"),
                (true, _) => format!("do not fit on {place}: {listed}"),
                (false, _) => {
                    let order = "in the order that they are scheduled in";
                    format!("room for only some of these on {place}, {order}: {listed}")
                }
            };
            page.paragraph(&text, style::problem);
        }
    }
    if wide {
        for group in &report.groups {
            for shape in &group.shapes {
                let nodes: Vec<&str> = shape.nodes.iter().map(String::as_str).collect();
                writeln!(page, "\n{}:", page.view.show(&place(group, &nodes)));
                daemon_sets_of(shape, page);
            }
        }
    }
}

fn value(group: &OverheadGroup) -> String {
    group.value.clone().unwrap_or_else(|| "(no such label)".to_owned())
}

/// Insufficient resources of nodes: certainly, or possibly.
#[derive(PartialEq)]
struct Lack {
    sure: bool,
    names: Vec<String>,
}

/// Names some nodes of a group.
fn place(group: &OverheadGroup, nodes: &[&str]) -> String {
    let of = if let Some(value) = &group.value { value.clone() } else { "nodes without the label".to_owned() };
    match nodes.len() {
        all if all == group.nodes => of,
        some if group.value.is_none() => format!("{some} of {} {of}, such as {}", group.nodes, nodes[0]),
        some => format!("{some} of {} nodes of {of}, such as {}", group.nodes, nodes[0]),
    }
}

/// Returns the range of a number over the nodes of a group.
fn numbers(group: &OverheadGroup, number: impl Fn(&OverheadShape) -> Range) -> String {
    let ranges = || group.shapes.iter().map(&number);
    let least = ranges().map(|range| range.least).min().unwrap_or(0);
    let most = ranges().map(|range| range.most).max().unwrap_or(0);
    between(&least.to_string(), &most.to_string())
}

fn between(least: &str, most: &str) -> String {
    if least == most { least.to_owned() } else { format!("{least}-{most}") }
}

fn resources<'a>(group: &'a OverheadGroup, resource: &'a str) -> impl Iterator<Item = &'a ResourceOverhead> {
    group.shapes.iter().flat_map(|shape| &shape.resources).filter(move |one| one.resource == resource)
}

/// Returns the DaemonSets' requests for a resource on the node with the largest, and the largest share.
fn cost(group: &OverheadGroup, resource: &str, wide: bool) -> String {
    let costs = || resources(group, resource).map(|one| &one.daemon_sets);
    let Some((least, most)) = costs().min_by_key(|one| one.value).zip(costs().max_by_key(|one| one.value)) else {
        return String::new();
    };
    let percent = resources(group, resource).filter_map(|one| one.percent).max();
    let percent = percent.map(|percent| format!(" ({percent}%)")).unwrap_or_default();
    let amount = match least.text == most.text {
        true => most.text.clone(),
        false if wide => between(&least.text, &most.text),
        false => format!("≤{}", most.text),
    };
    format!("{amount}{percent}")
}

/// Returns what is left on the node of a group with the least.
fn left(group: &OverheadGroup, wide: bool) -> String {
    let slots = group.shapes.iter().map(|shape| shape.pods_allowed.most.saturating_sub(shape.pods)).max();
    if slots == Some(0) {
        return "no pod slot left".to_owned();
    }
    let is_shown =
        |name: &str| matches!(name, "cpu" | "memory") || (name.contains('/') && !name.contains("kubernetes.io/"));
    let names = group.shapes.iter().flat_map(|shape| &shape.resources).map(|one| one.resource.as_str());
    let names: BTreeSet<&str> = names.filter(|name| is_shown(name)).collect();
    let texts = names.into_iter().filter_map(|resource| {
        let lefts = || resources(group, resource).flat_map(|one| [&one.left.least, &one.left.most]);
        let (least, most) = lefts().min_by_key(|one| one.value).zip(lefts().max_by_key(|one| one.value))?;
        let text = |amount: &Amount| if resource == "cpu" { cores(amount) } else { amount.text.clone() };
        let amount = match text(least) == text(most) {
            true => text(least),
            false if wide => between(&text(least), &text(most)),
            false => format!("≥{}", text(least)),
        };
        Some(if resource == "memory" { amount } else { format!("{amount} {resource}") })
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// Writes the cpu of whole nodes in cores with one decimal, rounded down.
fn cores(amount: &Amount) -> String {
    match amount.value {
        less if less < 1_000 => amount.text.clone(),
        whole if whole % 1_000 < 100 => (whole / 1_000).to_string(),
        value => format!("{}.{}", value / 1_000, value % 1_000 / 100),
    }
}

fn name(requests: &DaemonSetRequests) -> String {
    format!("{}/{}", requests.namespace, requests.name)
}

/// Names a DaemonSet with the node's insufficient resources.
fn unfit(requests: &DaemonSetRequests) -> String {
    format!("{} ({})", name(requests), lacks(requests))
}

fn lacks(requests: &DaemonSetRequests) -> String {
    let lacks: Vec<String> = requests
        .lacks
        .iter()
        .map(|lacks| match requests.requests.iter().find(|amount| amount.resource == *lacks) {
            Some(amount) => format!("requests {} {lacks}", amount.text),
            None => format!("lacks {lacks}"),
        })
        .collect();
    lacks.join(", ")
}

fn listed(amounts: &[Amount]) -> String {
    let texts: Vec<String> = amounts.iter().map(|amount| format!("{} {}", amount.text, amount.resource)).collect();
    texts.join(" and ")
}

fn single(report: &OverheadReport, node: &SingleNode, shape: &OverheadShape, wide: bool, page: &mut Page<'_>) {
    let who = match (&node.like, node.exists) {
        (Some(like), _) => format!("a new node like {like}"),
        (None, true) => node.name.clone(),
        (None, false) => "a new node of the manifest".to_owned(),
    };
    let verb = if node.exists { "should run" } else { "would run" };
    let statics = match shape.static_pods {
        None | Some(0) => String::new(),
        Some(pods) => format!(", beside {}", count(pods, "static pod")),
    };
    let (runs, all) = (shape.runs.len(), report.daemon_sets_total);
    let mut line = format!("{who} {verb} the pods of {runs} of {}{statics}", count(all, "DaemonSet"));
    if !shape.does_not_fit.is_empty() {
        let verb = if shape.does_not_fit.len() == 1 { "does" } else { "do" };
        line += &format!("; {} {verb} not fit", shape.does_not_fit.len());
    }
    if !shape.may_run.is_empty() {
        line += &format!("; only some of {} others fit", shape.may_run.len());
    }
    page.paragraph(&line, style::summary);
    if let (Some(pod), Some(fits)) = (&report.pod, shape.pod_fits) {
        pod_answer(pod, fits, shape, page);
        if let Some(now) = node.other_pods.as_ref().and_then(|others| others.pod_fits) {
            let now = if now == 0 { "none fits".to_owned() } else { format!("{now} would fit") };
            page.paragraph(&format!("beside all pods that are on it now, {now}"), style::plain);
        }
    }
    if !node.left_out_taints.is_empty() {
        let taints = node.left_out_taints.join(", ");
        page.paragraph(&format!("without what a new node would not have: taint {taints}"), style::context);
    }
    writeln!(page);
    resource_table(node, shape, page);
    for resource in ["cpu", "memory"] {
        largest(shape, resource, page);
    }
    let view = page.view;
    for (heading, unfit) in [("DOES NOT FIT", &shape.does_not_fit), ("FITS PERHAPS", &shape.may_run)] {
        if !unfit.is_empty() {
            writeln!(page);
            let columns = [
                Column::text(heading, |one: &DaemonSetRequests| view.show(&name(one))),
                Column::sentence("WHY", |one: &DaemonSetRequests| {
                    let order = "there is room for only some, in the order that they are scheduled in";
                    view.show(&if one.lacks.is_empty() { order.to_owned() } else { lacks(one) })
                }),
            ];
            table::write(&columns, unfit, page);
        }
    }
    if !node.not_eligible.is_empty() {
        writeln!(page);
        let columns = [
            Column::text("NOT ELIGIBLE", |one: &NotEligible| view.show(&format!("{}/{}", one.namespace, one.name))),
            Column::prose("WHY", |one: &NotEligible| {
                let stays =
                    if one.may_stay && node.exists { " (a running pod stays, but is not recreated)" } else { "" };
                view.show(&format!("{}{stays}", one.message))
            }),
        ];
        table::write(&columns, &node.not_eligible, page);
    }
    if wide {
        writeln!(page);
        daemon_sets_of(shape, page);
    }
}

/// Writes whether the requested pod fits, and what is insufficient.
fn pod_answer(pod: &[Amount], fits: Range, shape: &OverheadShape, page: &mut Page<'_>) {
    let wanted = listed(pod);
    if fits.most > 0 {
        let number = between(&fits.least.to_string(), &fits.most.to_string());
        let pods = if fits.most == 1 { "pod" } else { "pods" };
        let fit = if fits.most == 1 { "fits" } else { "fit" };
        page.paragraph(&format!("{number} {pods} with {wanted} {fit} beside them"), style::summary);
        return;
    }
    let lacking = pod.iter().filter_map(|wanted| {
        let found = shape.resources.iter().find(|one| one.resource == wanted.resource)?;
        (found.left.most.value < wanted.value)
            .then(|| format!("{} of {} {} left", found.left.most.text, found.allocatable.most.text, wanted.resource))
    });
    let lacking: Vec<String> = lacking.collect();
    let why = if lacking.is_empty() { "no pod slot left".to_owned() } else { lacking.join(", ") };
    page.paragraph(&format!("a pod with {wanted} never fits beside them: {why}"), style::problem);
}

/// A row of the resources of a single node: the resource, and the amounts.
type ResourceRow = [String; 5];

fn resource_table(node: &SingleNode, shape: &OverheadShape, page: &mut Page<'_>) {
    let others = node.other_pods.as_ref();
    let of_others = |resource: &str| {
        let found = others.map(|others| others.requests.iter().find(|amount| amount.resource == resource));
        found.map(|found| found.map_or("0", |amount| amount.text.as_str()).to_owned()).unwrap_or_default()
    };
    let statics = |resource: &ResourceOverhead| match shape.static_pods {
        None => "?".to_owned(),
        Some(_) => resource.static_pods.text.clone(),
    };
    let percent =
        |resource: &ResourceOverhead| resource.percent.map(|percent| format!(" ({percent}%)")).unwrap_or_default();
    let rows = shape.resources.iter().map(|one| {
        let cost = format!("{}{}", one.daemon_sets.text, percent(one));
        let left = between(&one.left.least.text, &one.left.most.text);
        [one.resource.clone(), one.allocatable.least.text.clone(), cost, statics(one), left]
    });
    let mut rows: Vec<ResourceRow> = rows.collect();
    let slots = shape.pods_allowed.least;
    rows.push([
        "pods".to_owned(),
        slots.to_string(),
        shape.runs.len().to_string(),
        shape.static_pods.map_or("?".to_owned(), |pods| pods.to_string()),
        between(
            &slots.saturating_sub(shape.pods + shape.may_run.len()).to_string(),
            &slots.saturating_sub(shape.pods).to_string(),
        ),
    ]);
    let view = page.view;
    let mut columns = vec![
        Column::text("RESOURCE", |row: &ResourceRow| view.show(&row[0])),
        Column::text("ALLOCATABLE", |row: &ResourceRow| row[1].clone()),
        Column::text("DAEMONSETS", |row: &ResourceRow| row[2].clone()),
        Column::text("STATIC PODS", |row: &ResourceRow| row[3].clone()),
        Column::text("LEFT", |row: &ResourceRow| row[4].clone()),
    ];
    if let Some(others) = others {
        columns.push(Column::text("OTHER PODS NOW", move |row: &ResourceRow| match row[0].as_str() {
            "pods" => others.count.to_string(),
            resource => of_others(resource),
        }));
    }
    table::write(&columns, &rows, page);
}

/// Names the DaemonSets with the largest requests for a resource.
fn largest(shape: &OverheadShape, resource: &str, page: &mut Page<'_>) {
    let amount = |one: &DaemonSetRequests| one.requests.iter().find(|amount| amount.resource == resource).cloned();
    let mut found: Vec<(Amount, &str)> =
        shape.runs.iter().filter_map(|one| Some((amount(one)?, one.name.as_str()))).collect();
    found.sort_by(|(one, a), (other, b)| other.value.cmp(&one.value).then(a.cmp(b)));
    let others = match found.len().saturating_sub(LARGEST) {
        0 => String::new(),
        others => format!(" (+{others})"),
    };
    let named: Vec<String> =
        found.iter().take(LARGEST).map(|(amount, name)| format!("{name} {}", amount.text)).collect();
    if !named.is_empty() {
        page.paragraph(&format!("largest {resource}: {}{others}", named.join(", ")), style::context);
    }
}

/// Writes a row for each DaemonSet that runs on nodes.
fn daemon_sets_of(shape: &OverheadShape, page: &mut Page<'_>) {
    let view = page.view;
    let amount = |one: &DaemonSetRequests, resource: &str| {
        let found = one.requests.iter().find(|amount| amount.resource == resource);
        found.map_or("0".to_owned(), |amount| amount.text.clone())
    };
    let columns = [
        Column::text("DAEMONSET", |one: &DaemonSetRequests| view.show(&name(one))),
        Column::text("CPU", |one: &DaemonSetRequests| amount(one, "cpu")),
        Column::text("MEMORY", |one: &DaemonSetRequests| amount(one, "memory")),
        Column::text("PRIORITY", |one: &DaemonSetRequests| {
            one.priority.map_or("?".to_owned(), |priority| priority.to_string())
        }),
    ];
    table::write(&columns, &shape.runs, page);
}

/// Writes for each startup taint whether it stays.
fn startup_taints(report: &OverheadReport, page: &mut Page<'_>) {
    for group in &report.groups {
        for shape in &group.shapes {
            let nodes: Vec<&str> = shape.nodes.iter().map(String::as_str).collect();
            let place = report.by.as_ref().map(|_| format!(" on {}", place(group, &nodes))).unwrap_or_default();
            shape.startup_taints.iter().for_each(|taint| startup_taint(taint, &place, page));
        }
    }
}

/// Returns what removes a taint, or why it stays.
pub(super) fn startup_taint(taint: &StartupTaintReport, place: &str, page: &mut Page<'_>) {
    let by = page.view.names(&taint.removed_by, 24);
    if !taint.stays {
        let removes = if taint.removed_by.len() == 1 { "removes" } else { "remove" };
        page.paragraph(&format!("{by} {removes} the taint {}{place}", taint.taint), style::context);
        return;
    }
    let why = match taint.kept_by.as_slice() {
        [] => "does not run there".to_owned(),
        taints => format!("does not tolerate {}", taints.join(" and ")),
    };
    page.paragraph(
        &format!("the taint {} stays{place}: only {by} removes it, which {why}", taint.taint),
        style::problem,
    );
    taint.fix.iter().for_each(|fix| page.what_to_do(fix, ""));
}
