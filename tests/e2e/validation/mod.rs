//! Random changes to the manifests in tests/fixtures/validation: from a dump, the program rejects exactly what the
//! functions of Kubernetes and an API server reject.

mod changes;
mod oracle;
mod server;
