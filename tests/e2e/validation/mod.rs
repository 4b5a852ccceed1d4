//! Random changes of the manifests in tests/fixtures/validation: what the functions of Kubernetes and an API server refuse of them,
//! the program refuses from a dump.

mod changes;
mod oracle;
mod server;
