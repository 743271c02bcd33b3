//! `GET /v1/models` over all engines of the pool.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Either, Full, Limited};
use pointsman_fleet::Endpoint;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use crate::answer::{self, Body};
use crate::forward::Outgoing;
use crate::gateway::Shared;

/// Engines asked at the same time.
const AT_ONCE: usize = 32;
/// Largest list read of one engine, bytes.
const MAX_LIST: usize = 4 * 1024 * 1024;

#[derive(serde::Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    id: std::borrow::Cow<'a, str>,
}

/// One engine's answer: its status, type and body.
type Told = (StatusCode, Option<HeaderValue>, Bytes);

/// The models of all ready endpoints: each id once, as the first endpoint that lists it describes it. Endpoints that do not answer in time are left out;
/// with no list at all the answer is 503, unless all engines agree on another refusal (as they do on a missing key), which is then passed on.
pub(crate) async fn merged(shared: &Arc<Shared>, headers: &HeaderMap) -> Response<Body> {
    let endpoints: Vec<Arc<Endpoint>> =
        shared.pool.fleet.snapshot().endpoints.iter().filter(|e| e.ready()).cloned().collect();
    let deadline = Instant::now() + shared.options.models_timeout;
    let outgoing = Outgoing::models(headers);
    let mut asked = Vec::with_capacity(endpoints.len());
    for (place, endpoint) in endpoints.into_iter().enumerate() {
        let list = fetch(shared, endpoint, &outgoing, deadline);
        asked.push(async move { (place, list.await) });
    }
    // Not in order: an endpoint that says nothing would keep its place until the deadline, and those far behind it would never be asked.
    let mut told: Vec<(usize, Option<Told>)> = stream::iter(asked).buffer_unordered(AT_ONCE).collect().await;
    told.sort_unstable_by_key(|(place, _)| *place);
    let told: Vec<Option<Told>> = told.into_iter().map(|(_, told)| told).collect();
    answer_of(&told)
}

/// Asks one engine; `None` when it does not answer in time, or says too much.
async fn fetch(shared: &Shared, endpoint: Arc<Endpoint>, outgoing: &Outgoing, deadline: Instant) -> Option<Told> {
    let ask = async {
        let link = shared.links.of(&endpoint);
        let (response, sender) = shared.send(&endpoint, &link, outgoing, &[], &[]).await.ok()?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_LIST).collect().await.ok()?.to_bytes();
        link.give_back(sender);
        Some((parts.status, parts.headers.get(CONTENT_TYPE).cloned(), body))
    };
    timeout_at(deadline, ask).await.ok().flatten()
}

fn answer_of(told: &[Option<Told>]) -> Response<Body> {
    let pages: Vec<&[u8]> =
        told.iter().flatten().filter(|(status, ..)| status.is_success()).map(|(.., body)| &body[..]).collect();
    if let Some(list) = merge(&pages) {
        return answer::whole(StatusCode::OK, "application/json", list);
    }
    let mut refusals = told.iter().flatten().filter(|(status, ..)| status.is_client_error());
    if let Some((status, kind, body)) = refusals.next() {
        let alike = refusals.clone().all(|(other, ..)| other == status) && refusals.count() + 1 == told.len();
        if alike {
            let mut response = Response::new(Either::Left(Full::new(body.clone())));
            *response.status_mut() = *status;
            if let Some(kind) = kind {
                response.headers_mut().insert(CONTENT_TYPE, kind.clone());
            }
            return response;
        }
    }
    answer::error(StatusCode::SERVICE_UNAVAILABLE, "no ready endpoint told which models it serves")
}

/// One list of several; `None` when none of the pages is a list.
fn merge(pages: &[&[u8]]) -> Option<String> {
    let mut seen = HashSet::new();
    let mut list: Option<Vec<&RawValue>> = None;
    for page in pages {
        let Ok(page) = serde_json::from_slice::<Page<'_>>(page) else { continue };
        let list = list.get_or_insert_default();
        for entry in page.data {
            if let Ok(Entry { id }) = serde_json::from_str(entry.get())
                && seen.insert(id.into_owned())
            {
                list.push(entry);
            }
        }
    }
    let list = list?;
    let size = list.iter().map(|entry| entry.get().len() + 1).sum::<usize>();
    let mut out = String::with_capacity(size + 32);
    out.push_str(r#"{"object":"list","data":["#);
    for (i, entry) in list.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(entry.get());
    }
    out.push_str("]}");
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(status: u16, body: &'static str) -> Option<Told> {
        let kind = HeaderValue::from_static("application/json");
        Some((StatusCode::from_u16(status).unwrap(), Some(kind), Bytes::from_static(body.as_bytes())))
    }

    fn body(response: Response<Body>) -> String {
        let body = futures_util::future::FutureExt::now_or_never(response.into_body().collect()).unwrap().unwrap();
        String::from_utf8(body.to_bytes().to_vec()).unwrap()
    }

    #[test]
    fn each_id_is_listed_once_as_the_first_endpoint_describes_it() {
        let answer = answer_of(&[
            told(200, r#"{"object":"list","data":[{"id":"base","max_model_len":1},{"id":"lora-1","parent":"base"}]}"#),
            None,
            told(500, r#"{"data":[{"id":"wrong"}]}"#),
            told(200, "not a list"),
            told(200, r#"{"data":[{"id":"b\u0061se","max_model_len":2}, {"no":"id"}, 7, {"id":"lora-2"}]}"#),
        ]);
        assert_eq!(answer.status(), 200);
        assert_eq!(
            body(answer),
            r#"{"object":"list","data":[{"id":"base","max_model_len":1},{"id":"lora-1","parent":"base"},{"id":"lora-2"}]}"#
        );
    }

    #[test]
    fn an_empty_list_is_a_list() {
        assert_eq!(body(answer_of(&[told(200, r#"{"data":[]}"#)])), r#"{"object":"list","data":[]}"#);
    }

    #[test]
    fn without_any_list_the_pool_is_unavailable() {
        for none in [vec![], vec![None, None], vec![told(500, "{}")], vec![told(401, "{}"), None]] {
            assert_eq!(answer_of(&none).status(), 503);
        }
    }

    #[test]
    fn a_refusal_that_all_engines_agree_on_is_passed_on() {
        let answer = answer_of(&[told(401, r#"{"error":"Unauthorized"}"#), told(401, "{}")]);
        assert_eq!(answer.status(), 401);
        assert_eq!(body(answer), r#"{"error":"Unauthorized"}"#);
        assert_eq!(answer_of(&[told(401, "{}"), told(403, "{}")]).status(), 503);
    }
}
