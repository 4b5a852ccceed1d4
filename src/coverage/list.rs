//! The fleet: a row per DaemonSet, from the same walk as coverage.

use super::gaps;
use super::group::count_codes;
use super::index::Index;
use super::walk::{Options, daemon_set_coverage};
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::Snapshot;
use crate::report::list::{ListReport, ListRow};

/// Says of each DaemonSet of the snapshot how it fares; those in trouble come first.
pub fn list(snapshot: &Snapshot) -> ListReport {
    let index = Index::new(snapshot);
    let mut rows: Vec<ListRow> = index.daemon_sets().into_iter().map(|daemon_set| row(&index, daemon_set)).collect();
    // The sort is stable: among equals the order by namespace and name stays.
    let in_trouble = |row: &ListRow| row.troubles.iter().map(|trouble| trouble.count).sum::<usize>();
    rows.sort_by_key(|row| std::cmp::Reverse((in_trouble(row), row.troubles.len())));
    ListReport {
        api_version: "kubectl-ds/v1".to_owned(),
        kind: "ListReport".to_owned(),
        now: snapshot.now,
        incomplete: gaps::incomplete(snapshot),
        daemon_sets: rows,
    }
}

fn row<'a>(index: &'a Index<'a>, daemon_set: &'a DaemonSet) -> ListRow {
    let coverage = daemon_set_coverage(index, daemon_set, &Options::default());
    let template = &daemon_set.spec.template.spec;
    // What concerns the whole DaemonSet is a trouble even while every pod is still available.
    let concerns = coverage.concerns.iter().map(|concern| (concern.code, 0));
    let groups = coverage.groups.iter().map(|group| (group.code, group.count));
    ListRow {
        namespace: coverage.namespace,
        name: coverage.name,
        counts: coverage.counts,
        strategy: coverage.strategy,
        created_at: daemon_set.metadata.creation_timestamp.get(),
        images: template.containers.iter().map(|container| container.image.clone()).collect(),
        node_selector: template.node_selector.iter().map(|(key, value)| format!("{key}={value}")).collect(),
        troubles: count_codes(groups.chain(concerns)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::list;
    use crate::coverage::test_support::world;
    use crate::report::reason::ReasonCode;

    #[test]
    fn daemon_sets_in_trouble_come_first() {
        let mut snapshot = world().node("a", json!({})).pod("agent-a", "a", json!({})).finish();
        let mut other = snapshot.daemon_sets[0].clone();
        other.metadata.name = "zz".to_owned();
        other.metadata.uid = "zz-uid".to_owned();
        snapshot.daemon_sets.push(other);
        let rows = list(&snapshot).daemon_sets;
        assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["zz", "agent"]);
        assert_eq!(rows[0].counts.missing, Some(1));
        assert_eq!(rows[0].troubles.len(), 1);
        assert!(rows[1].troubles.is_empty());
        assert_eq!(rows[1].images, ["agent:2"]);
    }

    #[test]
    fn a_spec_that_nobody_acted_on_is_a_trouble_even_while_all_pods_are_available() {
        let snapshot = world()
            .daemon_set(json!({"metadata": {"generation": 3}}))
            .node("a", json!({}))
            .pod("agent-a", "a", json!({}))
            .finish();
        let troubles = &list(&snapshot).daemon_sets[0].troubles;
        assert_eq!((troubles[0].code, troubles[0].count), (ReasonCode::ControllerNotObserved, 0));
    }
}
