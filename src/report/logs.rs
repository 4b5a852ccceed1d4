//! The report of `logs`.

/// What the pods of DaemonSets have logged.
#[apply(answer!)]
pub struct LogsReport {
    /// The logs, by DaemonSet and node.
    pub logs: Vec<PodLog>,
    /// How many pods more match, whose logs were not read because there are too many.
    pub left_out: usize,
    /// The lines by the nodes that have them, those of most logs first. Lines of several pods that are equal but for times, numbers
    /// and names are one line, that of the first pod.
    pub blocks: Vec<LogBlock>,
}

impl super::Report for LogsReport {
    const KINDS: &'static [&'static str] = &["LogsReport"];
}

/// A log that was read, or could not be read.
#[apply(answer!)]
#[derive(Default)]
pub struct PodLog {
    /// The namespace of the DaemonSet.
    pub namespace: String,
    /// The name of the DaemonSet.
    pub daemon_set: String,
    /// The node.
    pub node: String,
    /// The pod.
    pub pod: String,
    /// The container.
    pub container: String,
    /// Whether it is the log of the run before the last restart.
    pub previous: bool,
    /// Whether it is the termination message of the container, because its log could not be read or is empty.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub termination_message: bool,
    /// Whether earlier lines, which were requested, are left out because there are too many.
    pub truncated: bool,
    /// Why it, or its end, could not be read; absent if it was.
    pub error: Option<String>,
}

/// Lines that the logs of some nodes have.
#[apply(answer!)]
pub struct LogBlock {
    /// Where, by DaemonSet.
    pub daemon_sets: Vec<LogNodes>,
    /// The lines.
    pub lines: Vec<String>,
}

impl LogBlock {
    /// Returns every line of the only log; of an empty one, no block.
    pub(crate) fn of_one(of: &[PodLog], text: &str) -> Vec<LogBlock> {
        let block = LogBlock { daemon_sets: LogNodes::of(of), lines: text.lines().map(str::to_owned).collect() };
        Some(block).filter(|block| !block.lines.is_empty()).into_iter().collect()
    }
}

/// Nodes of a DaemonSet.
#[apply(answer!)]
pub struct LogNodes {
    /// The namespace of the DaemonSet.
    pub namespace: String,
    /// The name of the DaemonSet.
    pub name: String,
    /// The nodes, by name.
    pub nodes: Vec<String>,
}

impl LogNodes {
    /// Returns the nodes of logs, which come by DaemonSet and node.
    pub(crate) fn of<'a>(logs: impl IntoIterator<Item = &'a PodLog>) -> Vec<LogNodes> {
        let mut all: Vec<LogNodes> = Vec::new();
        for PodLog { namespace, daemon_set, node, .. } in logs {
            match all.last_mut().filter(|last| (&last.namespace, &last.name) == (namespace, daemon_set)) {
                Some(last) if last.nodes.last() == Some(node) => {}
                Some(last) => last.nodes.push(node.clone()),
                None => all.push(LogNodes {
                    namespace: namespace.clone(),
                    name: daemon_set.clone(),
                    nodes: vec![node.clone()],
                }),
            }
        }
        all
    }
}
