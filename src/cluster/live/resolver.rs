//! Resolves host names on threads of their own.
//!
//! The default resolver of hyper runs on tokio's blocking threads, which a runtime waits for when it is dropped: a name
//! server that does not answer would hold the process for 30 seconds after Ctrl-C or a timeout.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::Name;
use tokio::sync::oneshot;

/// The lookup of a host name has failed.
#[derive(Debug, thiserror::Error)]
#[error("lookup {host}: {source}")]
pub(super) struct LookupError {
    host: String,
    source: io::Error,
}

/// Resolves host names with a function that may block.
#[derive(Debug, Clone)]
pub(super) struct Resolver {
    look_up: fn(&str) -> io::Result<Vec<SocketAddr>>,
}

impl Resolver {
    /// Returns the system's resolver.
    pub(super) fn system() -> Self {
        Resolver { look_up: |host| Ok((host, 0).to_socket_addrs()?.collect()) }
    }
}

impl tower::Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = LookupError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, LookupError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LookupError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (host, look_up) = (name.as_str().to_owned(), self.look_up);
        let (sender, receiver) = oneshot::channel();
        let thread = std::thread::Builder::new().name("lookup".to_owned());
        let started = thread.spawn({
            let host = host.clone();
            // Nobody receives the addresses if the connection was given up.
            move || drop(sender.send(look_up(&host)))
        });
        Box::pin(async move {
            let found = match started {
                Ok(_) => receiver.await.unwrap_or_else(|_| Err(io::Error::other("the resolver has stopped"))),
                Err(error) => Err(error),
            };
            found.map(Vec::into_iter).map_err(|source| LookupError { host, source })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tower::Service;

    use super::Resolver;

    #[test]
    fn a_lookup_that_stalls_does_not_hold_the_runtime() {
        let stalled = Resolver {
            look_up: |_| {
                std::thread::sleep(Duration::from_secs(60));
                Ok(Vec::new())
            },
        };
        let start = Instant::now();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let lookup = stalled.clone().call("a.test".parse().unwrap());
            assert!(tokio::time::timeout(Duration::from_millis(1), lookup).await.is_err());
        });
        drop(runtime);
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
