//! What happens in the course of a stage, from one look at the cluster to the next.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::instruction::StageCounts;

/// What is remembered of the looks at the cluster so far.
#[derive(Debug, Default)]
pub(crate) struct Course {
    /// The most nodes with an available pod so far, and with a ready one.
    most: Option<(usize, usize)>,
    /// The nodes whose new pod is no surprise; `None` before the first look, at which all that are there are known.
    known: Option<BTreeSet<String>>,
    /// The nodes whose new pod is awaited, and since when.
    starting: Vec<(String, Timestamp)>,
    /// The nodes of the stage that are no longer eligible, or were deleted.
    gone: BTreeSet<String>,
}

/// What has happened to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happening {
    /// It has a pod of the new revision that this client did not cause.
    Leaked(String),
    /// The new pod is available, after so long.
    Available(String, SignedDuration),
    /// It has got another pod of an older revision.
    Returned(String),
    /// It is no longer eligible, or was deleted.
    Gone(String),
    /// It is no longer eligible, and has a pod of an older revision.
    Excluded(String),
}

impl Course {
    /// Notes that the pod of a node was deleted, so that a new one is to come.
    pub(crate) fn replaced(&mut self, node: &str, now: Timestamp) {
        self.may_replace(node);
        self.starting.push((node.to_owned(), now));
    }

    /// Notes that the pod of a node may still be deleted.
    pub(crate) fn may_replace(&mut self, node: &str) {
        self.known.get_or_insert_default().insert(node.to_owned());
    }

    /// Notes that the pod of a node was not deleted after all.
    pub(crate) fn not_replaced(&mut self, node: &str) {
        self.starting.retain(|(starting, _)| starting != node);
    }

    /// Returns whether more nodes have an available or a ready pod than ever before: a pod that is ready now and then does not
    /// progress.
    pub(crate) fn progresses(&mut self, counts: &StageCounts) -> bool {
        let (available, ready) = self.most.unwrap_or((counts.available, counts.ready));
        self.most = Some((available.max(counts.available), ready.max(counts.ready)));
        available < counts.available || ready < counts.ready
    }

    /// Returns what has happened since the last look.
    pub(crate) fn happenings(&mut self, counts: &StageCounts, now: Timestamp) -> Vec<Happening> {
        // Nodes that have no old pod at the first look are those of an earlier run.
        let known = self.known.get_or_insert_with(|| counts.updated.iter().chain(&counts.in_flight).cloned().collect());
        let leaked = counts.updated.iter().filter(|node| known.insert((*node).clone())).cloned().map(Happening::Leaked);
        let mut happenings: Vec<Happening> = leaked.collect();
        for (node, since) in self.starting.extract_if(.., |(node, _)| !counts.in_flight.contains(node)) {
            happenings.push(match counts.updated.contains(&node) {
                true => Happening::Available(node, now.duration_since(since)),
                false if counts.returned.contains(&node) => Happening::Returned(node),
                false => {
                    self.gone.insert(node.clone());
                    Happening::Gone(node)
                }
            });
        }
        let gone = counts.gone.iter().filter(|node| self.gone.insert((*node).clone())).cloned();
        happenings.extend(gone.map(|node| match counts.excluded.contains(&node) {
            true => Happening::Excluded(node),
            false => Happening::Gone(node),
        }));
        happenings
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::{Course, Happening};
    use crate::rollout::partition::instruction::StageCounts;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    /// Nodes with a pod of the revision, and those of them whose pod has not passed yet.
    fn counts(updated: &[&str], in_flight: &[&str]) -> StageCounts {
        let names = |nodes: &[&str]| nodes.iter().map(|&node| node.to_owned()).collect();
        let available = updated.len().saturating_sub(in_flight.len());
        StageCounts { updated: names(updated), in_flight: names(in_flight), available, ..StageCounts::default() }
    }

    #[test]
    fn a_new_pod_that_nobody_asked_for_is_reported_once() {
        let mut course = Course::default();
        assert_eq!(course.happenings(&counts(&["a"], &[]), at(0)), []);
        course.replaced("b", at(1));
        let leaked = Happening::Leaked("c".to_owned());
        assert_eq!(course.happenings(&counts(&["a", "b", "c"], &["b"]), at(2)), [leaked]);
        let available = Happening::Available("b".to_owned(), SignedDuration::from_secs(4));
        assert_eq!(course.happenings(&counts(&["a", "b", "c"], &[]), at(5)), [available]);
        assert_eq!(course.happenings(&counts(&["a", "b", "c"], &[]), at(6)), []);
    }

    #[test]
    fn a_node_that_is_gone_is_not_called_available() {
        let mut course = Course::default();
        assert_eq!(course.happenings(&counts(&[], &[]), at(0)), []);
        course.replaced("a", at(0));
        assert_eq!(course.happenings(&counts(&[], &["a"]), at(1)), []);
        assert_eq!(course.happenings(&counts(&[], &[]), at(2)), [Happening::Gone("a".to_owned())]);
    }

    /// The controller may not have seen the new template yet.
    #[test]
    fn a_node_with_another_old_pod_is_not_called_gone() {
        let mut course = Course::default();
        assert_eq!(course.happenings(&counts(&[], &[]), at(0)), []);
        course.replaced("a", at(0));
        let returned = StageCounts { returned: vec!["a".to_owned()], ..StageCounts::default() };
        assert_eq!(course.happenings(&returned, at(1)), [Happening::Returned("a".to_owned())]);
        course.replaced("a", at(2));
        let available = Happening::Available("a".to_owned(), SignedDuration::from_secs(2));
        assert_eq!(course.happenings(&counts(&["a"], &[]), at(4)), [available]);
    }

    #[test]
    fn a_node_that_is_no_longer_eligible_is_reported_once() {
        let mut course = Course::default();
        let (kept, deleted) = ("a".to_owned(), "b".to_owned());
        let gone = vec![kept.clone(), deleted.clone()];
        let counts = StageCounts { gone, excluded: vec![kept.clone()], ..StageCounts::default() };
        let happenings = [Happening::Excluded(kept), Happening::Gone(deleted)];
        assert_eq!(course.happenings(&counts, at(0)), happenings);
        assert_eq!(course.happenings(&counts, at(1)), []);
    }

    #[test]
    fn a_pod_that_was_not_deleted_after_all_is_not_awaited() {
        let mut course = Course::default();
        assert_eq!(course.happenings(&counts(&[], &[]), at(0)), []);
        course.replaced("a", at(0));
        course.replaced("b", at(0));
        course.not_replaced("a");
        let available = Happening::Available("b".to_owned(), SignedDuration::from_secs(3));
        assert_eq!(course.happenings(&counts(&["b"], &[]), at(3)), [available]);
    }

    #[test]
    fn what_was_reached_before_is_no_progress() {
        let mut course = Course::default();
        let mut progresses =
            |(available, ready)| course.progresses(&StageCounts { available, ready, ..StageCounts::default() });
        assert_eq!([(2, 2), (3, 3), (2, 2), (3, 3), (4, 4)].map(&mut progresses), [false, true, false, false, true]);
        // It becomes ready first.
        assert_eq!([(4, 5), (4, 4), (4, 5), (5, 5)].map(progresses), [true, false, false, true]);
    }
}
