//! What the failing nodes of a DaemonSet have in common that its available ones lack.
//!
//! Every value of every feature is a hypothesis: failing nodes have it more often than available ones. Fisher's exact
//! test gives the probability of a split at least this clear if the failing nodes were drawn at random. It is
//! multiplied by the number of hypotheses (Bonferroni), so that the probability of a false claim about a DaemonSet is
//! at most [`THRESHOLD`], however the hypotheses are correlated. Values that the same nodes have are one hypothesis.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;

use super::fisher::{LogFactorials, as_float};
use super::verdict::daemon_set_context::Subject;
use crate::facts::revisions::Revision;
use crate::facts::revisions::name_of;
use crate::model::node::{INSTANCE_TYPE, Node, ZONE};
use crate::report::age::seconds_between;
use crate::report::common_cause::{CommonCause, FailingRevision, Feature, FeatureValue, Split};
use crate::report::fix::Fix;
use crate::report::reason::ReasonCode;

/// The probability of a false claim by chance, per DaemonSet.
const THRESHOLD: f64 = 0.01;

/// The minimum number of failing nodes with the value.
const LEAST_FAILING: usize = 3;

/// Labels that name a node's pool; the first one present is used.
pub(super) const POOL_LABELS: [&str; 7] = [
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "doks.digitalocean.com/node-pool",
    "kops.k8s.io/instancegroup",
    "pool",
];

/// The age limits that divide nodes into younger and older ones, in seconds, and their names.
const AGES: [(i64, &str, &str); 3] = [
    (3_600, "less than an hour", "more than an hour"),
    (86_400, "less than a day", "more than a day"),
    (604_800, "less than a week", "more than a week"),
];

/// The features in the order in which they are preferred if they split the nodes equally well.
const FEATURES: [Feature; 10] = [
    Feature::Revision,
    Feature::NodePool,
    Feature::Zone,
    Feature::InstanceType,
    Feature::KernelVersion,
    Feature::OsImage,
    Feature::Architecture,
    Feature::KubeletVersion,
    Feature::ContainerRuntime,
    Feature::NodeAge,
];

/// What runs programs, and does not pull their images.
const RUN_BY: [Feature; 2] = [Feature::KernelVersion, Feature::OsImage];

/// An eligible node that is available or failing. Nodes that will become available by waiting are neither.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation<'a> {
    pub(super) node: &'a Node,
    /// The hash of its pod's revision; `None` if it has no pod, or the failure cannot be caused by a template.
    pub(super) revision: Option<&'a str>,
    /// Why it fails; `None` if it is available.
    pub(super) failing: Option<ReasonCode>,
}

/// Returns the common causes of a DaemonSet's failures, with how to look at a revision; `rollout/rollback.rs` decides
/// whether to roll back.
pub(super) fn of(subject: &Subject, observations: &[Observation<'_>]) -> Vec<CommonCause> {
    let mut causes = claims(observations, subject.now(), THRESHOLD);
    let revisions = &subject.revisions;
    for cause in causes.iter_mut().filter(|cause| cause.shared.feature == Feature::Revision) {
        let hash = std::mem::take(&mut cause.shared.value);
        let failing = revisions.of_hash(&hash);
        let works = failing.and_then(|failing| revisions.works_besides(failing));
        let revision = FailingRevision {
            number: failing.map(Revision::number),
            current: failing.is_some_and(|failing| failing.is_current),
            available_revision: works.map(|(revision, _)| revision.number()),
            changes: Vec::new(),
            hash,
        };
        cause.shared.value = revision.number.map_or_else(|| revision.hash.clone(), |number| number.to_string());
        cause.fixes = fixes(subject, &revision);
        cause.revision = Some(revision);
    }
    causes
}

fn fixes(subject: &Subject, revision: &FailingRevision) -> Vec<Fix> {
    let (Some(from), Some(to)) = (revision.available_revision, revision.number) else { return Vec::new() };
    vec![Fix::new(format!("compare it with revision {from}"), name_of(subject.daemon_set).diff(from, to))]
}

/// Returns what failing nodes share: the clearest split that chance does not explain, for all of them together and for
/// the nodes with each reason.
fn claims(observations: &[Observation<'_>], now: Timestamp, threshold: f64) -> Vec<CommonCause> {
    let failing = observations.iter().filter(|observation| observation.failing.is_some()).count();
    if failing < LEAST_FAILING || failing == observations.len() {
        return Vec::new();
    }
    let codes: BTreeSet<ReasonCode> = observations.iter().filter_map(|observation| observation.failing).collect();
    let tables: Vec<FeatureTable<'_>> = FEATURES.map(|feature| FeatureTable::new(feature, observations, now)).into();
    let each = codes.iter().copied().map(Some).filter(|_| codes.len() > 1);
    // Images of Windows are made for one build of it.
    let is_of_windows = observations.iter().any(|it| it.failing.is_some() && it.node.is_windows());
    let mut hypotheses = 0;
    let mut families: Vec<Vec<CommonCause>> = Vec::new();
    for code in std::iter::once(None).chain(each) {
        let is_pull = |code: &ReasonCode| *code == ReasonCode::ImagePullFailed;
        let are_pulls = code.map_or_else(|| codes.iter().all(is_pull), |code| is_pull(&code));
        let matters = |table: &&FeatureTable<'_>| is_of_windows || !(are_pulls && RUN_BY.contains(&table.feature));
        let family: Vec<(u64, CommonCause)> =
            tables.iter().filter(matters).flat_map(|table| table.hypotheses(code)).collect();
        let different: HashSet<(u64, &Split)> = family.iter().map(|(nodes, cause)| (*nodes, &cause.nodes)).collect();
        hypotheses += different.len();
        families.push(family.into_iter().map(|(_, cause)| cause).collect());
    }
    let logarithms = LogFactorials::up_to(observations.len());
    let mut claims: Vec<CommonCause> = Vec::new();
    for mut family in families {
        for cause in &mut family {
            cause.chance = (logarithms.probability(&cause.nodes) * as_float(hypotheses)).min(1.0);
        }
        family.retain(|cause| cause.chance <= threshold && is_clear(&cause.nodes));
        // The sort is stable, which keeps the preferred order of features.
        family.sort_by(|a, b| a.chance.total_cmp(&b.chance));
        let mut family = family.into_iter();
        let Some(best) = family.next() else { continue };
        if claims.iter().any(|claim| tells(claim, &best, observations)) {
            continue;
        }
        let also = family.filter(|other| other.nodes == best.nodes && other.shared.feature != best.shared.feature);
        let mut also: Vec<FeatureValue> = also.map(|other| other.shared).collect();
        // Of several limits of an age, one is enough.
        also.dedup_by_key(|shared| shared.feature);
        claims.push(CommonCause { also, ..best });
    }
    claims
}

/// Returns whether a claim makes another one redundant.
fn tells(claim: &CommonCause, other: &CommonCause, observations: &[Observation<'_>]) -> bool {
    // A revision does not explain failures that nodes cause.
    let is_of_revision = claim.shared.feature == Feature::Revision;
    let can_be_template = |code| observations.iter().any(|one| one.failing == Some(code) && one.revision.is_some());
    let is_explained = claim.code.is_none() && other.code.is_none_or(|code| !is_of_revision || can_be_template(code));
    claim.shared == other.shared || is_explained
}

/// Numbers of nodes by the values of a feature.
struct FeatureTable<'a> {
    feature: Feature,
    all: Outcomes,
    by_value: BTreeMap<&'a str, Outcomes>,
}

/// Numbers of available nodes, and of failing ones by reason.
#[derive(Default)]
struct Outcomes {
    available: usize,
    failing: BTreeMap<ReasonCode, usize>,
    /// A fingerprint of the nodes.
    nodes: u64,
}

impl Outcomes {
    fn add(&mut self, index: usize, failing: Option<ReasonCode>) {
        let mut hasher = DefaultHasher::new();
        index.hash(&mut hasher);
        self.nodes ^= hasher.finish();
        match failing {
            None => self.available += 1,
            Some(code) => *self.failing.entry(code).or_default() += 1,
        }
    }

    /// Returns the number of nodes that fail for a reason, or for any.
    fn failing(&self, code: Option<ReasonCode>) -> usize {
        match code {
            None => self.failing.values().sum(),
            Some(code) => self.failing.get(&code).copied().unwrap_or_default(),
        }
    }
}

impl<'a> FeatureTable<'a> {
    fn new(feature: Feature, observations: &[Observation<'a>], now: Timestamp) -> Self {
        let mut table = FeatureTable { feature, all: Outcomes::default(), by_value: BTreeMap::new() };
        for (index, observation) in observations.iter().enumerate() {
            if feature == Feature::Revision && observation.revision.is_none() {
                continue;
            }
            table.all.add(index, observation.failing);
            for value in values(feature, observation, now).into_iter().flatten().filter(|value| !value.is_empty()) {
                table.by_value.entry(value).or_default().add(index, observation.failing);
            }
        }
        table
    }

    /// Returns every value that some compared nodes have and others lack, for the failing nodes with a reason, each with a fingerprint
    /// of the nodes that have it.
    fn hypotheses(&self, code: Option<ReasonCode>) -> Vec<(u64, CommonCause)> {
        let (failing, available) = (self.all.failing(code), self.all.available);
        if failing < LEAST_FAILING || available == 0 {
            return Vec::new();
        }
        let splits = self.by_value.iter().map(|(value, with)| {
            let nodes = Split { failing, failing_with: with.failing(code), available, available_with: with.available };
            (value, with.nodes, nodes)
        });
        splits
            .filter(|(_, _, nodes)| nodes.failing_with + nodes.available_with < failing + available)
            .map(|(value, which, nodes)| {
                let cause = CommonCause {
                    shared: FeatureValue { feature: self.feature, value: (*value).to_owned() },
                    code,
                    nodes,
                    chance: 1.0,
                    also: Vec::new(),
                    revision: None,
                    fixes: Vec::new(),
                };
                (which, cause)
            })
            .collect()
    }
}

/// Returns whether nearly all failing nodes have the value, and nodes without it fail at most a tenth as often.
fn is_clear(nodes: &Split) -> bool {
    let Split { failing, failing_with, available, available_with } = *nodes;
    let (with, without) = (failing_with + available_with, failing + available - failing_with - available_with);
    failing_with >= LEAST_FAILING
        && failing_with * 10 >= failing * 9
        && (failing - failing_with) * with * 10 <= failing_with * without
}

/// Returns a feature's value that is a single field of the node itself, not of its pod or its age.
fn of_node(feature: Feature, node: &Node) -> Option<&str> {
    let label = |key: &str| node.metadata.labels.get(key).map(String::as_str);
    let info = &node.status.node_info;
    match feature {
        Feature::Revision | Feature::NodeAge => None,
        Feature::NodePool => POOL_LABELS.iter().find_map(|key| label(key)),
        Feature::Zone => label(ZONE),
        Feature::InstanceType => label(INSTANCE_TYPE),
        Feature::KernelVersion => Some(info.kernel_version.as_str()),
        Feature::OsImage => Some(info.os_image.as_str()),
        Feature::Architecture => Some(info.architecture.as_str()),
        Feature::KubeletVersion => Some(info.kubelet_version.as_str()),
        Feature::ContainerRuntime => Some(info.container_runtime_version.as_str()),
    }
}

/// Returns the pool of a node according to its labels.
pub(crate) fn pool(node: &Node) -> Option<&str> {
    of_node(Feature::NodePool, node)
}

/// Features that programs depend on, the least likely to differ by chance first.
const KINDS: [Feature; 4] = [Feature::Architecture, Feature::OsImage, Feature::KernelVersion, Feature::InstanceType];

/// What runs programs: it explains less if their failure splits the nodes in the same way as one of their own features.
const RUNNERS: [Feature; 2] = [Feature::ContainerRuntime, Feature::KubeletVersion];

/// What pulls an image, and what an image may be made for.
const PULL: [Feature; 3] = [Feature::Architecture, Feature::ContainerRuntime, Feature::KubeletVersion];

pub(crate) fn has(FeatureValue { feature, value }: &FeatureValue, node: &Node) -> bool {
    of_node(*feature, node) == Some(value)
}

/// Returns the values that all nodes and some node of `like` have, but no node of `unlike`, of features on which what fails depends: an image
/// is not pulled by a kernel, unless one of Windows is made for it. The first one is the most likely cause; another architecture explains everything by itself.
pub(crate) fn kinds_of(
    codes: &BTreeSet<ReasonCode>,
    nodes: &[&Node],
    like: &[&Node],
    unlike: &[&Node],
) -> Vec<FeatureValue> {
    let is_pull = !codes.is_empty() && codes.iter().all(|code| *code == ReasonCode::ImagePullFailed);
    let is_pull = is_pull && !nodes.iter().any(|node| node.is_windows());
    let mut kinds = shared(if is_pull { &PULL[..] } else { &KINDS }, nodes, like, unlike);
    match kinds.first() {
        Some(first) if first.feature == Feature::Architecture => kinds.truncate(1),
        Some(_) if !is_pull => kinds.extend(shared(&RUNNERS, nodes, like, unlike)),
        _ => {}
    }
    // What other nodes have of the first is what they have of the others.
    let of_first: Option<Vec<bool>> = kinds.first().map(|first| like.iter().map(|node| has(first, node)).collect());
    kinds.retain(|kind| of_first.iter().flatten().zip(like).all(|(of_first, node)| has(kind, node) == *of_first));
    kinds
}

/// Returns the pool that all nodes are in, but no node of `unlike`.
pub(crate) fn pool_of(nodes: &[&Node], unlike: &[&Node]) -> Vec<FeatureValue> {
    shared(&[Feature::NodePool], nodes, nodes, unlike)
}

fn shared<'n>(features: &[Feature], nodes: &[&'n Node], like: &[&Node], unlike: &[&Node]) -> Vec<FeatureValue> {
    let value = |feature: &Feature, node: &'n Node| of_node(*feature, node).filter(|value| !value.is_empty());
    let Some(first) = nodes.first() else { return Vec::new() };
    let of_feature = |feature: &Feature| {
        let value = value(feature, first)?;
        let has = |node: &&Node| of_node(*feature, node) == Some(value);
        let is_kind = nodes.iter().all(has) && like.iter().any(has) && !unlike.iter().any(has);
        is_kind.then(|| FeatureValue { feature: *feature, value: value.to_owned() })
    };
    features.iter().filter_map(of_feature).collect()
}

/// Returns the known values of a feature.
fn values<'a>(feature: Feature, observation: &Observation<'a>, now: Timestamp) -> [Option<&'a str>; AGES.len()] {
    let node = observation.node;
    let value = match feature {
        Feature::Revision => observation.revision,
        Feature::NodeAge => {
            let age = node.metadata.creation_timestamp.get().map(|created| seconds_between(created, now));
            return AGES.map(|(limit, younger, older)| age.map(|age| if age < limit { younger } else { older }));
        }
        _ => of_node(feature, node),
    };
    [value, None, None]
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::{Observation, THRESHOLD, claims};
    use crate::coverage::test_support::world;
    use crate::model::node::Node;
    use crate::report::common_cause::{CommonCause, Feature, Split};
    use crate::report::reason::ReasonCode;

    fn now() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn node(labels: &[(&str, &str)], kernel: &str) -> Node {
        let mut node = Node::default();
        node.metadata.labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        node.status.node_info.kernel_version = kernel.to_owned();
        node
    }

    /// Observes nodes with different kernels, as `count`, `kernel`, `revision`, `failing`.
    fn claims_of(groups: &[(usize, &str, Option<&'static str>, Option<ReasonCode>)]) -> Vec<CommonCause> {
        let nodes: Vec<(Node, Option<&'static str>, Option<ReasonCode>)> = groups
            .iter()
            .flat_map(|(count, kernel, revision, failing)| {
                (0..*count).map(|_| (node(&[], kernel), *revision, *failing))
            })
            .collect();
        let observations: Vec<Observation<'_>> = nodes
            .iter()
            .map(|(node, revision, failing)| {
                // A lost node says nothing about a revision.
                let revision = revision.filter(|_| *failing != LOST);
                Observation { node, revision, failing: *failing }
            })
            .collect();
        claims(&observations, now(), THRESHOLD)
    }

    const CRASH: Option<ReasonCode> = Some(ReasonCode::CrashLooping);
    const LOST: Option<ReasonCode> = Some(ReasonCode::NodeUnreachable);

    #[test]
    fn pods_that_fail_on_the_new_revision_alone_blame_it() {
        let found =
            claims_of(&[(6, "6.8", Some("new"), CRASH), (1, "6.8", Some("new"), None), (17, "6.8", Some("old"), None)]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].shared.feature, found[0].shared.value.as_str()), (Feature::Revision, "new"));
        assert_eq!(found[0].nodes, Split { failing: 6, failing_with: 6, available: 18, available_with: 1 });
        // Two hypotheses, one per revision; 7 of 134,596 ways are as extreme.
        assert!((found[0].chance - 2.0 * 7.0 / 134_596.0).abs() < 1e-12);
        assert!(found[0].also.is_empty());
    }

    #[test]
    fn nothing_is_claimed_from_a_handful_of_nodes() {
        assert_eq!(claims_of(&[(3, "6.8", Some("new"), CRASH), (5, "6.8", Some("old"), None)]), []);
        assert_eq!(claims_of(&[(2, "6.9", Some("old"), CRASH), (998, "6.8", Some("old"), None)]), []);
        assert_eq!(claims_of(&[(9, "6.8", Some("new"), CRASH)]), []);
        assert_eq!(claims_of(&[]), []);
    }

    #[test]
    fn a_split_that_is_significant_and_not_clear_is_not_claimed() {
        // Nodes of kernel 6.9 fail three times as often.
        let old = Some("old");
        let groups =
            [(300, "6.9", old, CRASH), (700, "6.9", old, None), (100, "6.8", old, CRASH), (900, "6.8", old, None)];
        assert_eq!(claims_of(&groups), []);
    }

    #[test]
    fn a_revision_is_not_blamed_for_lost_nodes() {
        // The controller replaces the pods of lost nodes first, so that all of them have the new revision.
        let groups = [(8, "6.9", Some("new"), LOST), (20, "6.8", Some("old"), None)];
        let found = claims_of(&groups);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].shared.feature, found[0].shared.value.as_str()), (Feature::KernelVersion, "6.9"));
    }

    #[test]
    fn two_causes_are_told_apart() {
        let old = Some("old");
        let groups = [(8, "6.9", old, LOST), (7, "6.8", Some("new"), CRASH), (40, "6.8", old, None)];
        let found = claims_of(&groups);
        let told: Vec<_> = found.iter().map(|cause| (cause.shared.feature, cause.code, cause.nodes.failing)).collect();
        assert_eq!(told, [(Feature::Revision, None, 7), (Feature::KernelVersion, LOST, 8)]);
    }

    #[test]
    fn values_that_split_equally_well_are_all_told() {
        let labels = [("karpenter.sh/nodepool", "batch"), ("topology.kubernetes.io/zone", "a")];
        let nodes = [node(&labels, "6.9"), node(&[("pool", "web"), labels[1]], "6.8")];
        let observation = |number: usize, failing| Observation { node: &nodes[number], revision: None, failing };
        let mut observations = vec![observation(0, CRASH); 6];
        observations.extend(vec![observation(1, None); 20]);
        let found = claims(&observations, now(), THRESHOLD);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].shared.feature, found[0].shared.value.as_str()), (Feature::NodePool, "batch"));
        let also: Vec<_> = found[0].also.iter().map(|also| (also.feature, also.value.as_str())).collect();
        assert_eq!(also, [(Feature::KernelVersion, "6.9")]);
    }

    #[test]
    fn a_bad_revision_is_told_with_what_changed() {
        let old =
            json!({"metadata": {"labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"}}});
        let mut world = world().revision_of_image("hash1", 1, "agent:1");
        for number in 0..16 {
            world = world.node(&format!("old-{number}"), json!({}));
            world = world.pod(&format!("agent-old-{number}"), &format!("old-{number}"), old.clone());
        }
        for number in 0..6 {
            let crashing = json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 7});
            world = world.node(&format!("new-{number}"), json!({}));
            world = world.unready_pod(&format!("agent-new-{number}"), &format!("new-{number}"), crashing, json!({}));
        }
        let coverage = world.coverage();
        let [cause] = coverage.common_causes.as_slice() else { panic!("{:?}", coverage.common_causes) };
        assert_eq!((cause.shared.feature, cause.shared.value.as_str()), (Feature::Revision, "2"));
        let revision = cause.revision.as_ref().unwrap();
        assert_eq!((revision.hash.as_str(), revision.current, revision.available_revision), ("hash2", true, Some(1)));
        let commands: Vec<String> =
            cause.fixes.iter().filter_map(|fix| Some(fix.command.as_ref()?.to_string())).collect();
        assert_eq!(commands, ["kubectl ds history -n default --diff 1..2 agent"]);
    }

    /// A random number generator that is the same in every run (xorshift).
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % limit
        }
    }

    const CLUSTERS: usize = 1_500;

    /// Returns how many random clusters, with nodes that fail at random, result in a claim.
    fn false_claims(threshold: f64) -> usize {
        let random = &mut Random(0x9e37_79b9_7f4a_7c15);
        let codes = [ReasonCode::CrashLooping, ReasonCode::HostPortConflict, ReasonCode::NodeUnreachable];
        let mut claimed = 0;
        for _ in 0..CLUSTERS {
            let size = 8 + random.below(40);
            let nodes: Vec<Node> = (0..size)
                .map(|_| {
                    let [pool, zone, kind] = [5, 3, 4].map(|limit| random.below(limit).to_string());
                    let labels = [
                        ("pool", pool.as_str()),
                        ("topology.kubernetes.io/zone", &zone),
                        ("node.kubernetes.io/instance-type", &kind),
                    ];
                    let mut node = node(&labels, ["6.8", "6.9"][random.below(2) as usize]);
                    let age = i64::try_from(random.below(1_000_000)).unwrap();
                    node.metadata.creation_timestamp = (now() - jiff::SignedDuration::from_secs(age)).into();
                    node
                })
                .collect();
            let (failing, reasons) = (1 + random.below(size / 2), 1 + random.below(3));
            let observations: Vec<Observation<'_>> = nodes
                .iter()
                .map(|node| Observation {
                    node,
                    revision: Some(["old", "new"][random.below(2) as usize]),
                    failing: (random.below(size) < failing).then(|| codes[random.below(reasons) as usize]),
                })
                .collect();
            claimed += usize::from(!claims(&observations, now(), threshold).is_empty());
        }
        claimed
    }

    #[test]
    fn chance_alone_is_claimed_no_more_often_than_stated() {
        let allowed = CLUSTERS / 100;
        assert!(false_claims(THRESHOLD) <= allowed);
        // Without the correction for the number of hypotheses, often more than fifty, there would be more.
        assert!(false_claims(50.0 * THRESHOLD) > allowed);
    }

    #[test]
    fn a_value_is_blamed_if_nine_in_ten_failing_nodes_have_it_and_others_fail_a_tenth_as_often() {
        // Failing nodes, those with the kernel among them, and the same for available ones.
        for (failing, failing_with, available, available_with, expected) in [
            (3, 3, 60, 0, true),
            (10, 9, 9, 0, true),
            (10, 9, 8, 0, false),
            (10, 9, 12, 1, true),
            (10, 9, 11, 1, false),
            (10, 8, 40, 0, false),
        ] {
            let found = claims_of(&[
                (failing_with, "6.9", None, CRASH),
                (failing - failing_with, "6.8", None, CRASH),
                (available_with, "6.9", None, None),
                (available - available_with, "6.8", None, None),
            ]);
            let split = Split { failing, failing_with, available, available_with };
            let told: Vec<_> = found.iter().map(|cause| (cause.shared.value.as_str(), cause.nodes)).collect();
            assert_eq!(told, if expected { vec![("6.9", split)] } else { vec![] });
        }
    }

    #[test]
    fn a_cause_of_all_failures_is_not_told_again_for_one_of_their_reasons() {
        // Nodes with a separate reason share the kernel, too, which splits them more clearly than the pool.
        let (batch, web) = ([("pool", "batch")], [("pool", "web")]);
        let nodes = [node(&batch, "6.8"), node(&batch, "6.9"), node(&web, "6.8")];
        let observe = |count: usize, node: usize, failing| {
            vec![Observation { node: &nodes[node], revision: None, failing }; count]
        };
        let observations = [observe(10, 0, CRASH), observe(10, 1, LOST), observe(2, 0, None), observe(38, 2, None)];
        let found = claims(&observations.concat(), now(), THRESHOLD);
        let told: Vec<_> = found.iter().map(|cause| (cause.shared.feature, cause.code, cause.nodes.failing)).collect();
        assert_eq!(told, [(Feature::NodePool, None, 20)]);
    }

    #[test]
    fn values_that_split_less_well_and_other_values_of_the_same_feature_are_not_told_beside_the_best() {
        let of_age = |seconds: i64, kernel: &str| {
            let mut node = node(&[], kernel);
            node.metadata.creation_timestamp = (now() - jiff::SignedDuration::from_secs(seconds)).into();
            node
        };
        let (minute, month) = (60, 30 * 86_400);
        for (name, nodes, prefix) in [
            // One available node has the kernel, too.
            ("kernel", [of_age(minute, "6.9"), of_age(month, "6.9"), of_age(month, "6.8")], "less"),
            // "Less than a day old" and "less than a week old" give the same split.
            ("age", [of_age(minute, "6.8"), of_age(month, "6.8"), of_age(month, "6.8")], "less"),
            ("an hour", [of_age(3_600, "6.8"), of_age(3_599, "6.8"), of_age(3_599, "6.8")], "more"),
        ] {
            let mut observations = vec![Observation { node: &nodes[0], revision: None, failing: CRASH }; 8];
            observations.push(Observation { node: &nodes[1], revision: None, failing: None });
            observations.extend(vec![Observation { node: &nodes[2], revision: None, failing: None }; 40]);
            let found = claims(&observations, now(), THRESHOLD);
            assert_eq!(found.len(), 1, "{name}: {found:?}");
            assert_eq!(
                (found[0].shared.feature, found[0].also.as_slice()),
                (Feature::NodeAge, [].as_slice()),
                "{name}"
            );
            assert!(found[0].shared.value.starts_with(prefix), "{name}: {}", found[0].shared.value);
        }
    }

    #[test]
    fn nodes_that_only_need_time_or_should_run_no_pod_are_not_compared() {
        let kernel = |kernel: &str| json!({"status": {"nodeInfo": {"kernelVersion": kernel}}});
        let waiting =
            |reason: &str, restarts: i32| json!({"restartCount": restarts, "state": {"waiting": {"reason": reason}}});
        let taints = json!([{"key": "dedicated", "effect": "NoSchedule"}]);
        for (code, causes) in
            [(ReasonCode::CrashLooping, 1), (ReasonCode::ContainersStarting, 0), (ReasonCode::Misscheduled, 0)]
        {
            let mut world = world();
            for number in 0..18 {
                let name = format!("good-{number}");
                world = world.node(&name, kernel("6.8")).pod(&format!("agent-{name}"), &name, json!({}));
            }
            for number in 0..6 {
                let name = format!("new-{number}");
                let mut node = kernel("6.9");
                if code == ReasonCode::Misscheduled {
                    node["spec"] = json!({"taints": taints});
                }
                let status = match code {
                    ReasonCode::CrashLooping => waiting("CrashLoopBackOff", 7),
                    ReasonCode::ContainersStarting => waiting("ContainerCreating", 0),
                    _ => json!({"ready": true, "state": {"running": {}}}),
                };
                let made = json!({"metadata": {"creationTimestamp": "2026-03-01T11:59:30Z"}});
                world = world.node(&name, node).unready_pod(&format!("agent-{name}"), &name, status, made);
            }
            let coverage = world.coverage();
            let groups: Vec<_> = coverage.problems.iter().map(|group| (group.code, group.count)).collect();
            assert_eq!((groups, coverage.common_causes.len()), (vec![(code, 6)], causes));
        }
    }

    #[test]
    fn a_reason_of_fewer_nodes_than_a_claim_takes_is_no_hypothesis() {
        let busy = Some(ReasonCode::HostPortConflict);
        let found = claims_of(&[(8, "6.9", None, CRASH), (2, "6.8", None, busy), (40, "6.8", None, None)]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].code, found[0].shared.value.as_str()), (CRASH, "6.9"));
        // Four hypotheses: two kernels, for all failures and for crashes alone; 1 of 377,348,994 ways is as extreme.
        assert!((found[0].chance / (4.0 / 377_348_994.0) - 1.0).abs() < 1e-9, "{}", found[0].chance);
    }
}
