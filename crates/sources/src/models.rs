//! Which models each engine lists: `GET /v1/models`.

use std::sync::Arc;
use std::time::Duration;

use pointsman_fleet::Endpoint;
use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout};

use crate::http::{Client, FetchError, Get, Peer};
use crate::shard::Shared;

/// Time between two looks while the engine does not answer.
const SOON: Duration = Duration::from_secs(1);
/// Shortest time between two looks, whatever is asked for.
const SHORTEST: Duration = Duration::from_millis(10);
const DEADLINE: Duration = Duration::from_secs(2);
/// Most models taken from one engine, and most bytes of one name.
const MOST: usize = 10_000;
const LONGEST: usize = 1_024;

/// Reads an answer; `None` when it is not a list of models.
fn parse(body: &[u8]) -> Option<Vec<Arc<str>>> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let listed = answer.get("data")?.as_array()?.iter();
    let ids = listed.filter_map(|model| model.get("id")?.as_str()).filter(|id| !id.is_empty() && id.len() <= LONGEST);
    Some(ids.take(MOST).map(Arc::from).collect())
}

/// Keeps the list of one endpoint current: at once, then every `interval`, every second while the engine does not answer.
///
/// An engine that answers, but not with a list, makes the list unknown. One that does not answer keeps the list it had: it is about to
/// be put out for that, and is asked again before long.
pub(crate) async fn watch(endpoint: Arc<Endpoint>, interval: Duration, shared: Arc<Shared>) {
    let peer = Peer::api(&endpoint.meta, &shared.tls);
    let get = Get::new(&peer, "/v1/models", "application/json");
    let mut client = Client::new(peer, Arc::clone(&shared.connects));
    let interval = interval.max(SHORTEST);
    loop {
        let begun = Instant::now();
        let mut page = shared.pages.take();
        let fetched = match timeout(DEADLINE, client.get(&get, &mut page)).await {
            Ok(fetched) => fetched,
            Err(_) => Err(FetchError::Late(DEADLINE)),
        };
        // Looks are rare: a connection kept between them would be closed by most servers anyway.
        client.close();
        let again = match fetched {
            Ok(status) if status.is_server_error() => SOON,
            Ok(status) => {
                endpoint.engine.set_models(if status == 200 { parse(page.bytes()) } else { None });
                interval
            }
            Err(_) => SOON,
        };
        drop(page);
        sleep_until((begun + again.min(interval)).max(Instant::now())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_taken_in_order_and_anything_else_is_no_list() {
        let ids =
            |body: &str| parse(body.as_bytes()).map(|ids| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>());
        let two = r#"{"object":"list","data":[{"id":"base","object":"model"},{"id":"lora","parent":"base"}]}"#;
        assert_eq!(ids(two), Some(vec!["base".into(), "lora".into()]));
        assert_eq!(ids(r#"{"data":[]}"#), Some(vec![]));
        assert_eq!(ids(r#"{"data":[{"id":5},{},null,{"id":""},{"id":"x"}]}"#), Some(vec!["x".into()]));
        for none in ["", "<html>", "[]", "{}", r#"{"data":{}}"#, r#"{"error":"no"}"#, "\u{0}", r#"{"data":["#] {
            assert_eq!(ids(none), None, "{none}");
        }
    }
}
