//! Reads who has changed what and when.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{FutureExt, join_all, try_join_all};
use tokio::time::timeout;

use super::list::{List, permission};
use super::read::by_name;
use super::reader::{Reader, unread};
use crate::cluster::error::ClusterError;
use crate::cluster::needs::Cluster;
use crate::cluster::projection::{SharedKeys, keep_node};
use crate::model::snapshot::{GapCause, Kind};
use crate::model::written::{WrittenNode, WrittenObject};

/// The timeout for reading other namespaces while everything else is read.
const ELSEWHERE: Duration = Duration::from_secs(3);

/// Returns the list of the relevant objects of a kind in a namespace, or in all.
pub(super) fn written_list(kind: Kind, namespace: Option<&str>) -> List {
    match (kind, namespace) {
        (Kind::Namespaces, Some(name)) => List { field_selector: by_name(name), ..List::of(kind) },
        _ if Kind::ADMISSION.contains(&kind) => List::of(kind),
        (Kind::Namespaces, None) => List::of(kind),
        _ => List { namespace: namespace.map(str::to_owned), ..List::of(kind) },
    }
}

/// Returns a function that keeps only the managers of each node.
pub(super) fn keep_written() -> impl Fn(WrittenNode) -> Option<WrittenNode> {
    let shared = RefCell::new(SharedKeys::default());
    move |mut node| {
        shared.borrow_mut().share(&mut node);
        Some(WrittenNode { node: keep_node(node.node, false), ..node })
    }
}

/// Nodes and other objects with the managers that have changed them.
type Writes = (Vec<WrittenNode>, BTreeMap<Kind, Vec<WrittenObject>>);

impl Reader<'_> {
    /// Reads who has changed nodes, a namespace's limits and labels, and DaemonSets of other namespaces, if needed.
    pub(super) async fn writes(&self) -> Result<Writes, ClusterError> {
        if self.needs.cluster != Cluster::Writes {
            return Ok(Writes::default());
        }
        let written = |kind| {
            let list = written_list(kind, self.query.namespace.as_deref());
            async move { Ok((kind, self.list_or_gap(list, Some).await?)) }
        };
        // They only add to an answer.
        let admission = |kind: Kind| async move {
            let read = self.live.list(List::of(kind), Some).await;
            if let Some(error) = read.as_ref().err().filter(|error| !error.is_not_served()) {
                self.note_gap(kind, None, unread("list", kind, error));
            }
            (kind, read.unwrap_or_default())
        };
        let (nodes, written, admission, elsewhere) = futures::try_join!(
            self.list_or_gap(List::of(Kind::Nodes), keep_written()),
            try_join_all(Kind::WRITTEN.map(written)),
            join_all(Kind::ADMISSION.map(admission)).map(Ok),
            self.daemon_sets_elsewhere().map(Ok),
        )?;
        Ok((nodes, written.into_iter().chain(admission).chain([(Kind::DaemonSets, elsewhere)]).collect()))
    }

    /// Reads who has changed the DaemonSets of other namespaces, if the query covers all of one. A failure to read them
    /// within a few seconds is recorded.
    async fn daemon_sets_elsewhere(&self) -> Vec<WrittenObject> {
        let Some(namespace) = self.query.namespace_beside_others() else { return Vec::new() };
        let kind = Kind::DaemonSets;
        let field_selector = format!("metadata.namespace!={namespace}");
        let list = List { field_selector, label_selector: self.label_selector(), ..List::of(kind) };
        let keep = |object: WrittenObject| (object.metadata.namespace != namespace).then_some(object);
        let cause = match timeout(ELSEWHERE, self.live.list(list, keep)).await {
            Ok(Ok(objects)) => return objects,
            Ok(Err(error)) if error.is_forbidden() => GapCause::ForbiddenElsewhere(permission("list", kind)),
            Ok(Err(error)) => GapCause::Failed(error.to_string()),
            Err(_) => GapCause::Failed(format!("no answer within {} s", ELSEWHERE.as_secs())),
        };
        self.note_gap(kind, None, cause);
        Vec::new()
    }
}
