//! The nodes of both sides, and which of them take each other's place.

use std::collections::{BTreeMap, BTreeSet};

use crate::coverage::common_cause::pool;
use crate::facts::index::Index;
use crate::facts::node_removal::is_of_state;
use crate::model::node::Node;
use crate::model::startup_taint::is_startup;
use crate::report::compare::PoolComparison;

/// The nodes of both sides.
pub(super) struct Nodes<'a> {
    /// Whether the nodes of both sides could be read.
    pub(super) are_known: bool,
    pub(super) names_before: BTreeSet<&'a str>,
    pub(super) names_after: BTreeSet<&'a str>,
    pub(super) groups: BTreeMap<Group<'a>, Members<'a>>,
    pools: BTreeMap<Pool<'a>, Sides<'a>>,
}

/// Nodes that belong together on one side.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pool<'a> {
    /// Those with a label that names their pool.
    Named(&'a str),
    /// Those without one that are alike.
    Unnamed(Vec<&'a str>),
}

/// Nodes that take each other's place.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group<'a> {
    /// Those of a pool that there is on both sides.
    Pool(Pool<'a>),
    /// Those of pools that are new or gone, and are alike.
    Alike(Vec<&'a str>, BTreeSet<(&'a str, &'a str, &'a str)>),
}

/// The nodes of a group, by name.
#[derive(Default)]
pub(super) struct Members<'a> {
    pub(super) before: Vec<&'a str>,
    pub(super) removed: Vec<&'a str>,
    pub(super) added: Vec<&'a str>,
}

/// The nodes of a pool before and after.
#[derive(Default)]
struct Sides<'a>([Vec<&'a Node>; 2]);

/// Returns what makes nodes alike: their architecture and operating system, and their roles.
fn kind(node: &Node) -> Vec<&str> {
    let labels = &node.metadata.labels;
    let values = ["kubernetes.io/arch", "kubernetes.io/os"].map(|key| labels.get(key).map_or("", String::as_str));
    let roles = labels.keys().filter(|key| key.starts_with("node-role.kubernetes.io/")).map(String::as_str);
    values.into_iter().chain(roles).collect()
}

impl<'a> Sides<'a> {
    /// Returns those that a new pool may replace, or be replaced by: nodes with other taints are for other pods.
    fn alike(&self) -> Group<'a> {
        let [before, after] = &self.0;
        let mut nodes = before.iter().chain(after);
        let taints = |node: &&'a Node| {
            let permanent = node.spec.taints.iter().filter(|taint| !is_of_state(taint) && !is_startup(&taint.key));
            permanent.map(|taint| (&*taint.key, &*taint.value, &*taint.effect)).collect::<BTreeSet<_>>()
        };
        let Some(first) = nodes.next() else { return Group::Alike(Vec::new(), BTreeSet::new()) };
        Group::Alike(kind(first), nodes.fold(taints(first), |all, node| &all & &taints(node)))
    }

    fn is_on_both(&self) -> bool {
        self.0.iter().all(|side| !side.is_empty())
    }
}

impl<'a> Nodes<'a> {
    pub(super) fn new(before: &Index<'a>, after: &Index<'a>) -> Self {
        let sides = [before, after].map(|index| if index.nodes_are_read() { &index.nodes[..] } else { &[] });
        let [names_before, names_after] =
            sides.map(|nodes| nodes.iter().map(|node| node.metadata.name.as_str()).collect::<BTreeSet<&str>>());
        let mut pools: BTreeMap<Pool<'a>, Sides<'a>> = BTreeMap::new();
        for (side, nodes) in sides.into_iter().enumerate() {
            for &node in nodes {
                let pool = pool(node).map_or_else(|| Pool::Unnamed(kind(node)), Pool::Named);
                pools.entry(pool).or_default().0[side].push(node);
            }
        }
        let mut groups: BTreeMap<Group<'_>, Members<'_>> = BTreeMap::new();
        for (pool, sides) in &pools {
            let group = if sides.is_on_both() { Group::Pool(pool.clone()) } else { sides.alike() };
            let members = groups.entry(group).or_default();
            let [before, after] = sides.0.each_ref().map(|side| side.iter().map(|node| node.metadata.name.as_str()));
            members.before.extend(before.clone());
            members.removed.extend(before.filter(|name| !names_after.contains(name)));
            members.added.extend(after.filter(|name| !names_before.contains(name)));
        }
        let are_known = [before, after].iter().all(|index| index.nodes_are_read());
        Nodes { are_known, names_before, names_after, groups, pools }
    }

    /// Returns the pools of which nodes were added or removed.
    pub(super) fn pools(&self, fewer_nodes: bool) -> Vec<PoolComparison> {
        if !self.are_known {
            return Vec::new();
        }
        let mut rows: BTreeMap<Option<&str>, PoolComparison> = BTreeMap::new();
        for (pool, sides) in &self.pools {
            let name = if let Pool::Named(name) = pool { Some(*name) } else { None };
            let new = || PoolComparison { pool: name.map(str::to_owned), ..PoolComparison::default() };
            let row = rows.entry(name).or_insert_with(new);
            let (removed, added) = self.changed(sides);
            let [before, now] = sides.0.each_ref().map(Vec::len);
            (row.before, row.now) = (row.before + before, row.now + now);
            (row.removed, row.added) = (row.removed + removed, row.added + added);
            if name.is_some() && now == 0 {
                let group = sides.alike();
                let mut replacing = 0;
                for (other, sides) in self.pools.iter().filter(|(_, sides)| sides.alike() == group) {
                    let (removed, added) = self.changed(sides);
                    // A pool of before replaces another one by as much as it has grown.
                    let more = added.saturating_sub(removed);
                    replacing += more;
                    if let (Pool::Named(other), 1..) = (other, more) {
                        row.replaced_by.push((*other).to_owned());
                    }
                }
                let needed = self.groups.get(&group).map_or(0, |members| members.removed.len());
                row.gone = replacing < needed;
                row.accepted = row.gone && fewer_nodes;
            }
        }
        rows.into_values().filter(|row| row.removed + row.added > 0).collect()
    }

    /// Returns how many nodes of a pool were removed and added.
    fn changed(&self, Sides([before, after]): &Sides<'_>) -> (usize, usize) {
        let count = |nodes: &[&Node], others: &BTreeSet<&str>| {
            nodes.iter().filter(|node| !others.contains(node.metadata.name.as_str())).count()
        };
        (count(before, &self.names_after), count(after, &self.names_before))
    }
}
