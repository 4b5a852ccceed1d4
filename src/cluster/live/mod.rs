//! Reads a live cluster, acting as kubectl does with the same kubeconfig.
//!
//! [`connect`] turns flags and environment into a [`crate::connection`]. [`Live`] requests everything that a query
//! needs concurrently: `list` decodes lists as they arrive (`protobuf`) over a `request`, and `prune` drops what no
//! report uses; `writes` requests who has changed what, and `advanced` OpenKruise's DaemonSets. [`Live::watch`] follows
//! them: `follow` turns lists and the `watch_event`s after them into changes, and `watch` applies these to a snapshot.
//! `write` sends patches, `preview` sends dry runs of manifests, and `names` requests completion candidates. `status`
//! decides whether a response is an error of the API.

mod advanced;
mod config;
mod follow;
mod list;
mod logs;
mod names;
mod preview;
mod protobuf;
mod prune;
mod read;
mod reader;
mod request;
mod status;
mod watch;
mod watch_event;
mod write;
mod writes;

pub(crate) use preview::Asked;
pub use watch::Watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use jiff::Timestamp;

use super::Query;
use super::error::ClusterError;
use super::object::JSON;
use crate::connection::{ConnectOptions, Connection, Observed};
use crate::model::snapshot::{Kind, Snapshot};
use crate::model::written::WrittenObject;
use request::Transport;

/// A live cluster.
#[derive(Debug)]
pub struct Live {
    transport: Transport,
}

/// Objects of a kind that have just been read.
#[derive(Debug, Clone, Copy)]
pub struct KindRead {
    /// The kind of object.
    pub kind: Kind,
    /// How many objects.
    pub objects: usize,
    /// Their size in bytes as received.
    pub bytes: usize,
}

/// A progress callback, called some hundred times for each kind in a big cluster.
pub type OnProgress = Arc<dyn Fn(KindRead) + Send + Sync>;

/// Makes a connection from flags and environment. No request is sent yet, but a credential plugin runs.
///
/// The time of a snapshot is that at which its reading starts: by `clock`, or by the server's clock if they differ.
/// Fails if the kubeconfig or a flag is invalid, or there are no credentials.
pub async fn connect(
    options: &ConnectOptions,
    clock: fn() -> Timestamp,
    on_progress: OnProgress,
) -> Result<Live, ClusterError> {
    let connection = Connection::open(options, clock).await?;
    Ok(Live { transport: Transport { connection, on_progress, undecided: AtomicBool::new(false) } })
}

impl Live {
    /// Returns whether a step was sent that may have been applied, or may still be, since the last call.
    pub(crate) fn take_undecided(&self) -> bool {
        self.transport.undecided.swap(false, Ordering::Relaxed)
    }

    /// Returns what was observed in the server's responses: its clock, and its warnings.
    pub fn observed(&self) -> &Observed {
        &self.transport.connection.observed
    }

    /// Returns the namespace of the kubeconfig's context, or `default` if it has none.
    pub fn default_namespace(&self) -> &str {
        &self.transport.connection.namespace
    }

    /// Returns the time by the server's clock.
    pub fn now(&self) -> Timestamp {
        self.observed().server_time(self.observed().local_time())
    }

    /// Returns the version of the server, such as `v1.37.2`.
    pub async fn server_version(&self) -> Result<String, ClusterError> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ServerVersion {
            git_version: String,
        }
        let version: ServerVersion = self.transport.get_object("get /version", "/version", JSON).await?;
        Ok(version.git_version)
    }

    /// Reads what the query wants. Forbidden objects become a gap in the snapshot. Fails if the server cannot be read
    /// at all, the DaemonSets are forbidden, or a DaemonSet or node of the query is not found.
    pub async fn read(&self, query: &Query) -> Result<Snapshot, ClusterError> {
        let reader = reader::Reader::new(self, query);
        let start = self.observed().local_time();
        // Boxed, since it is too large for the stack of a caller.
        let read = Box::pin(reader.read()).await;
        // The server's clock is known only after its first response.
        let (now, clock_difference) = (self.observed().server_time(start), self.observed().clock_difference());
        read.map(|snapshot| Snapshot { now, clock_difference, ..snapshot })
    }

    /// Returns who has written the objects that limit, label, admit and change a namespace's pods, without any that cannot be read.
    pub async fn written_objects(&self, namespace: &str) -> BTreeMap<Kind, Vec<WrittenObject>> {
        let lists = Kind::WRITTEN.into_iter().chain(Kind::ADMISSION).map(|kind| async move {
            let objects = self.list(writes::written_list(kind, Some(namespace)), Some).await;
            objects.ok().map(|objects| (kind, objects))
        });
        join_all(lists).await.into_iter().flatten().collect()
    }
}
