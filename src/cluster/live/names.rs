//! Requests names for completion, as the tables that `kubectl get` shows.
//!
//! A table without objects is a tenth of the size of a list, and the API server answers it from its cache: names may be
//! a few seconds old.

use serde::Deserialize;
use serde_json::Value;

use super::Live;
use super::list::List;
use crate::cluster::error::ClusterError;
use crate::model::pod::Pod;
use crate::model::snapshot::Kind;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The most pods to suggest.
const PODS: usize = 500;

/// Number of nodes whose labels are read.
const NODES_WITH_LABELS: usize = 200;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Table {
    column_definitions: Vec<Column>,
    rows: Vec<Row>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Column {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Row {
    cells: Vec<Value>,
    object: Option<Value>,
}

impl Live {
    /// Returns the existing names, each with the given columns of `kubectl get`; a column that the server does not have
    /// is empty. Fails if the server does not respond with a table.
    pub async fn names<const N: usize>(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        columns: [&str; N],
    ) -> Result<Vec<(String, [String; N])>, ClusterError> {
        let path = List { namespace: namespace.map(str::to_owned), ..List::of(kind) }.collection();
        let table = self.table(&format!("{path}?includeObject=None&resourceVersion=0")).await?;
        let position = |column: &str| table.column_definitions.iter().position(|known| known.name == column);
        let (name, columns) = (position("Name"), columns.map(position));
        let cell = |row: &Row, position: Option<usize>| match position.and_then(|position| row.cells.get(position)) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        Ok(table.rows.iter().map(|row| (cell(row, name), columns.map(|column| cell(row, column)))).collect())
    }

    /// Returns the label keys of the first nodes. Fails if the server does not respond with a table.
    pub async fn node_label_keys(&self) -> Result<Vec<String>, ClusterError> {
        let path = List::of(Kind::Nodes).collection();
        let table = self.table(&format!("{path}?limit={NODES_WITH_LABELS}")).await?;
        let labels = table.rows.iter().filter_map(|row| row.object.as_ref()?["metadata"]["labels"].as_object());
        Ok(labels.flat_map(|labels| labels.keys().cloned()).collect())
    }

    /// Returns the first pods of a namespace, or of all, as `NAMESPACE/NAME`. Fails if the server does not respond with a table.
    pub async fn pod_names(&self, namespace: Option<&str>) -> Result<Vec<String>, ClusterError> {
        let path = List { namespace: namespace.map(str::to_owned), ..List::of(Kind::Pods) }.collection();
        let table = self.table(&format!("{path}?limit={PODS}")).await?;
        let metadata = table.rows.iter().filter_map(|row| Some(&row.object.as_ref()?["metadata"]));
        let text = |metadata: &Value, field| metadata[field].as_str().unwrap_or_default().to_owned();
        Ok(metadata.map(|found| format!("{}/{}", text(found, "namespace"), text(found, "name"))).collect())
    }

    /// Reads a pod; `None` if it does not exist. Fails if the server cannot be read, or refuses.
    pub(crate) async fn pod(&self, namespace: &str, name: &str) -> Result<Option<Pod>, ClusterError> {
        self.get(&List { namespace: Some(namespace.to_owned()), ..List::of(Kind::Pods) }, name).await
    }

    async fn table(&self, path: &str) -> Result<Table, ClusterError> {
        self.transport.get_object("list names", path, TABLE).await
    }
}
