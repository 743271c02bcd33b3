//! Which models each engine lists: `GET /v1/models`, where no configured source asks for them.

use std::sync::Arc;
use std::time::Duration;

use pointsman_fleet::Endpoint;
use pointsman_plugins::data_layer::models_data_extractor::models;
use tokio::time::{Instant, sleep_until, timeout};

use crate::http::{Ask, Client, FetchError, Peer};
use crate::shard::Shared;

/// Time between two looks while the engine does not answer.
const SOON: Duration = Duration::from_secs(1);
/// Shortest time between two looks, whatever is asked for.
const SHORTEST: Duration = Duration::from_millis(10);
const DEADLINE: Duration = Duration::from_secs(2);
/// Keeps the list of one endpoint current: at once, then every `interval`, every second while the engine does not answer.
///
/// An engine that answers, but not with a list, makes the list unknown. One that does not answer keeps the list it had: it is about to
/// be put out for that, and is asked again before long.
pub(crate) async fn watch(endpoint: Arc<Endpoint>, interval: Duration, shared: Arc<Shared>) {
    let peer = Peer::api(&endpoint.meta, &shared.tls);
    let get = Ask::get(&peer, "/v1/models", "application/json");
    let mut client = Client::new(peer, Arc::clone(&shared.connects));
    let interval = interval.max(SHORTEST);
    loop {
        let begun = Instant::now();
        let mut page = shared.pages.take();
        let fetched = match timeout(DEADLINE, client.ask(&get, &mut page)).await {
            Ok(fetched) => fetched,
            Err(_) => Err(FetchError::Late(DEADLINE)),
        };
        // Looks are rare: a connection kept between them would be closed by most servers anyway.
        client.close();
        let again = match fetched {
            Ok(status) if status.is_server_error() => SOON,
            Ok(status) => {
                endpoint.engine.set_models(if status == 200 { models(page.bytes()) } else { None });
                interval
            }
            Err(_) => SOON,
        };
        drop(page);
        sleep_until((begun + again.min(interval)).max(Instant::now())).await;
    }
}
