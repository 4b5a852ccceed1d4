//! Measures how many decisions per second [`DaemonPod::decide`] makes on one core; the aim is 2 million.
//!
//! `cargo bench --bench decisions`

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use kubectl_ds::model::daemon_set::PodTemplate;
use kubectl_ds::model::metadata::ObjectMeta;
use kubectl_ds::model::node::{Node, NodeSpec, Taint};
use kubectl_ds::model::pod::PodSpec;
use kubectl_ds::scheduling::should_run::DaemonPod;
use serde::Deserialize;
use serde_json::json;

const NODES: usize = 5_000;
const DAEMON_SETS: usize = 400;

fn main() -> io::Result<()> {
    let nodes: Vec<Node> = (0..NODES).map(node).collect();
    let pods: Vec<DaemonPod> = (0..DAEMON_SETS).map(|index| DaemonPod::new(&template(index))).collect();
    let mut eligible = 0_u32;
    let mut rounds = Vec::with_capacity(DAEMON_SETS);
    for pod in &pods {
        let started = Instant::now();
        for node in &nodes {
            eligible += u32::from(black_box(pod).decide(black_box(node)).should_run);
        }
        rounds.push(started.elapsed().as_secs_f64());
    }
    // Other programs interrupt some rounds for long; the median is that of an undisturbed one.
    rounds.sort_by(f64::total_cmp);
    let decisions = |daemon_sets: usize| f64::from(u32::try_from(daemon_sets * NODES).unwrap_or(u32::MAX));
    let millions = decisions(1) / rounds[DAEMON_SETS / 2] / 1e6;
    let all = decisions(DAEMON_SETS);
    writeln!(io::stdout(), "{millions:.1} million decisions a second, {eligible} of {all} eligible")
}

/// Makes a node as clouds make them: a dozen labels, and taints on some.
fn node(index: usize) -> Node {
    let labels = [
        ("kubernetes.io/arch", "amd64".to_owned()),
        ("kubernetes.io/os", "linux".to_owned()),
        ("kubernetes.io/hostname", format!("node-{index}")),
        ("node.kubernetes.io/instance-type", format!("m{}.large", index % 7)),
        ("topology.kubernetes.io/region", "eu-central-1".to_owned()),
        ("topology.kubernetes.io/zone", format!("eu-central-1{}", ["a", "b", "c"][index % 3])),
        ("beta.kubernetes.io/arch", "amd64".to_owned()),
        ("beta.kubernetes.io/os", "linux".to_owned()),
        ("example.com/pool", format!("pool-{}", index % 11)),
        ("example.com/generation", (index % 9).to_string()),
        ("example.com/team", format!("team-{}", index % 5)),
        ("example.com/lifecycle", ["spot", "on-demand"][index % 2].to_owned()),
    ];
    let taint = |key: &str, value: &str, effect: &str| Taint {
        key: key.to_owned(),
        value: value.to_owned(),
        effect: effect.to_owned(),
        ..Taint::default()
    };
    let taints = match index % 4 {
        0 => vec![taint("dedicated", "gpu", "NoSchedule")],
        1 => vec![
            taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),
            taint("example.com/draining", "true", "NoExecute"),
        ],
        _ => Vec::new(),
    };
    let labels: BTreeMap<String, String> = labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Node {
        metadata: ObjectMeta { name: format!("node-{index}"), labels: labels.into(), ..ObjectMeta::default() },
        spec: NodeSpec { taints, ..NodeSpec::default() },
        ..Node::default()
    }
}

/// Makes a template with a node selector, two affinity terms and tolerations of its own.
fn template(index: usize) -> PodTemplate {
    let terms = json!([
        {"matchExpressions": [
            {"key": "example.com/pool", "operator": "In", "values": ["pool-1", format!("pool-{}", index % 11)]},
            {"key": "example.com/generation", "operator": "Gt", "values": ["3"]},
        ]},
        {"matchExpressions": [{"key": "example.com/lifecycle", "operator": "NotIn", "values": ["spot"]}]},
    ]);
    let spec = json!({
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
        "tolerations": [
            {"key": "dedicated", "operator": "Equal", "value": if index.is_multiple_of(2) { "gpu" } else { "db" }},
            {"key": "CriticalAddonsOnly", "operator": "Exists"},
        ],
    });
    PodTemplate { spec: PodSpec::deserialize(spec).unwrap_or_default(), ..PodTemplate::default() }
}
