//! Decides whether and when a request is retried.
//!
//! kube's policy would also retry changes, for up to six minutes.

use std::time::Duration;

use http::header::{HeaderMap, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use tokio::time::{Instant, Sleep, sleep};
use tower::BoxError;
use tower::retry::Policy;

use super::failure::is_reset;

/// How often a request is retried after the delay that the server asks for; as often as in client-go.
const MAX_RETRIES: u32 = 10;

/// How long a request is retried if the server specifies no delay.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// The first pause if the server specifies no delay.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The shortest pause, whatever the server specifies.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// When the last retry of a request may start; an extension of the request.
#[derive(Debug, Clone, Copy)]
pub(super) struct RepeatedUntil(pub(super) Instant);

/// The delay that the server asks for, which is too long; an extension of the response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TooLongToWait(pub(crate) Duration);

/// The remaining retries of a request.
///
/// Ported from `IsNextRetry`, k8s.io/client-go/rest/with_retry.go, release 1.37. Unlike there, a change is retried only
/// after 429; without `Retry-After`, retries last for [`MAX_WAIT`], also those of reads after 503 and 504; and there is
/// no pause after the last retry. As the policy of a connection it retries only reads: whether a 429 comes from the API
/// server, or from a proxy that has already forwarded the change, only shows in the body.
#[derive(Debug, Clone)]
pub(crate) struct Retries {
    left: u32,
    time_left: Duration,
    pause: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Retries { left: MAX_RETRIES, time_left: MAX_WAIT, pause: FIRST_PAUSE }
    }
}

impl<B> Policy<Request<Body>, Response<B>, BoxError> for Retries {
    type Future = Sleep;

    fn retry(&mut self, request: &mut Request<Body>, result: &mut Result<Response<B>, BoxError>) -> Option<Sleep> {
        let RepeatedUntil(until) = *request.extensions().get()?;
        if request.method() != Method::GET {
            return None;
        }
        match result {
            Ok(response) => match self.next(response.status(), response.headers(), until, true)? {
                Ok(wait) => Some(sleep(wait)),
                Err(too_long) => {
                    response.extensions_mut().insert(too_long);
                    None
                }
            },
            Err(error) if is_reset(error.as_ref()) => {
                self.next_pause().filter(|wait| is_before(until, *wait)).map(sleep)
            }
            Err(_) => None,
        }
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        clone_request(request)
    }
}

/// Returns a copy of a request; `None` if its body is a stream.
pub(super) fn clone_request(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

impl Retries {
    /// Returns the pause after a response before the request is retried, or that the server asks for too long a delay;
    /// `None` if it is not retried.
    pub(crate) fn next(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        until: Instant,
        is_read: bool,
    ) -> Option<Result<Duration, TooLongToWait>> {
        let asked = retry_after(headers);
        let wait = self.after_refusal(status, asked, is_read)?;
        if is_before(until, wait) { Some(Ok(wait)) } else { asked.map(|asked| Err(TooLongToWait(asked))) }
    }

    /// Returns the pause after a refusal, or `None` if the request is not retried.
    fn after_refusal(&mut self, status: StatusCode, retry_after: Option<Duration>, is_read: bool) -> Option<Duration> {
        let is_busy = match status {
            StatusCode::TOO_MANY_REQUESTS => true,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => is_read,
            status => is_read && status.is_server_error() && retry_after.is_some(),
        };
        match retry_after.filter(|_| is_busy) {
            Some(wait) => {
                self.left = self.left.checked_sub(1)?;
                Some(wait.max(SHORTEST_PAUSE))
            }
            None if is_busy => self.next_pause(),
            None => None,
        }
    }

    fn next_pause(&mut self) -> Option<Duration> {
        let wait = self.pause.min(self.time_left);
        self.time_left -= wait;
        self.pause *= 2;
        (!wait.is_zero()).then_some(wait)
    }
}

fn is_before(until: Instant, wait: Duration) -> bool {
    wait <= until.saturating_duration_since(Instant::now())
}

/// Returns the delay that the server asks for, in seconds, the only format that client-go supports.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::StatusCode;

    use super::Retries;

    #[test]
    fn only_what_was_not_looked_at_is_repeated() {
        let second = Some(Duration::from_secs(1));
        for (status, retry_after, read, change) in [
            (StatusCode::TOO_MANY_REQUESTS, second, second, second),
            (StatusCode::TOO_MANY_REQUESTS, None, Some(super::FIRST_PAUSE), Some(super::FIRST_PAUSE)),
            (StatusCode::SERVICE_UNAVAILABLE, second, second, None),
            (StatusCode::SERVICE_UNAVAILABLE, None, Some(super::FIRST_PAUSE), None),
            (StatusCode::INTERNAL_SERVER_ERROR, second, second, None),
            (StatusCode::INTERNAL_SERVER_ERROR, None, None, None),
            (StatusCode::FORBIDDEN, second, None, None),
        ] {
            assert_eq!(Retries::default().after_refusal(status, retry_after, true), read, "{status}");
            assert_eq!(Retries::default().after_refusal(status, retry_after, false), change, "{status}");
        }
    }

    #[test]
    fn retries_end_at_the_time_limit() {
        let mut retries = Retries::default();
        let pauses: Vec<Duration> = std::iter::from_fn(|| retries.next_pause()).collect();
        assert_eq!(pauses.iter().sum::<Duration>(), super::MAX_WAIT);
        let busy = (StatusCode::TOO_MANY_REQUESTS, Some(Duration::ZERO));
        let waits = std::iter::from_fn(|| retries.after_refusal(busy.0, busy.1, false));
        assert_eq!(waits.collect::<Vec<_>>(), vec![super::SHORTEST_PAUSE; 10]);
    }
}
