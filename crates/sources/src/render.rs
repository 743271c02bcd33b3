//! Prompts posted to render endpoints: the I/O behind [`RenderClient`].
//!
//! Connections are kept and used again, a bounded number of them at a time for each server; who finds none free waits for one, within the time that its
//! answer may take. Everything runs on one runtime, whichever thread asks: a connection lives on the runtime it was opened on. What is dropped is given up.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use pointsman_plugins::producers::token_producer::render::{Render, RenderCall, RenderClient, RenderError, Rendering};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::http::{Ask, Client, Connects, FetchError, Peer, TlsClient, TlsOptions};
use crate::page::Pages;

/// Prompts that one server is given at a time.
const AT_A_TIME: usize = 64;
/// Connections to one server that are kept while nothing is asked.
const KEPT: usize = 16;

/// Tries to get a server ready.
const WARM_UPS: u32 = 24;
/// Time between two of them.
const BETWEEN_WARM_UPS: Duration = Duration::from_secs(5);

/// Posts prompts over HTTP.
#[derive(Debug)]
pub struct Renderers {
    runtime: Handle,
    servers: Mutex<HashMap<(bool, String, u16), Arc<Server>>>,
    connects: Arc<Connects>,
    pages: Arc<Pages>,
}

/// One server that renders.
struct Server {
    peer: Peer,
    idle: Mutex<Vec<Client>>,
    places: Semaphore,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Renderers {
    /// Whatever is asked for is fetched on this runtime.
    #[must_use]
    pub fn new(runtime: Handle) -> Self {
        Self { runtime, servers: Mutex::default(), connects: Arc::default(), pages: Arc::default() }
    }

    /// The server of a configuration. Those of earlier ones stay: there are as many as were ever configured.
    fn server(&self, render: &Render) -> Result<Arc<Server>, RenderError> {
        let key = (render.tls, render.host.clone(), render.port);
        let mut servers = self.servers.lock();
        if let Some(server) = servers.get(&key) {
            return Ok(Arc::clone(server));
        }
        let tls = render.tls.then(|| TlsClient::new(&TlsOptions::default())).transpose();
        let tls = tls.map_err(|e| RenderError::Failed(e.to_string()))?;
        let peer = Peer::at(&render.host, render.port, tls);
        let server = Arc::new(Server { peer, idle: Mutex::default(), places: Semaphore::new(AT_A_TIME) });
        servers.insert(key, Arc::clone(&server));
        Ok(server)
    }
}

impl RenderClient for Renderers {
    fn post(&self, call: RenderCall) -> Rendering {
        let server = match self.server(&call.render) {
            Ok(server) => server,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let (connects, pages) = (Arc::clone(&self.connects), Arc::clone(&self.pages));
        let task = GivenUp(self.runtime.spawn(async move {
            let late = call.timeout;
            let posted = timeout(late, server.post(&call.path, call.body, connects, pages)).await;
            posted.unwrap_or_else(|_| Err(failed(FetchError::Late(late))))
        }));
        Box::pin(async move {
            let mut task = task;
            (&mut task.0).await.unwrap_or_else(|e| Err(RenderError::Failed(e.to_string())))
        })
    }
}

/// Lets a server get ready before the first request needs it: a small chat, again and again until it is rendered, then one with an image, which a model without
/// eyes may refuse. Nothing depends on it.
pub async fn warm_up(client: Arc<dyn RenderClient>, render: Arc<Render>) {
    for _ in 0..WARM_UPS {
        match client.post(render.warm_up(false)).await {
            Ok(_) => {
                let images = client.post(render.warm_up(true)).await.is_ok();
                tracing::info!(host = render.host, port = render.port, images, "prompts can be rendered");
                return;
            }
            Err(error) => tracing::debug!(%error, "the render server is not ready yet"),
        }
        tokio::time::sleep(BETWEEN_WARM_UPS).await;
    }
    tracing::warn!(
        host = render.host,
        port = render.port,
        "the render server is still not ready; tokens are estimated"
    );
}

fn failed(error: FetchError) -> RenderError {
    RenderError::Failed(error.to_string())
}

impl Server {
    async fn post(
        &self,
        path: &str,
        body: Vec<Bytes>,
        connects: Arc<Connects>,
        pages: Arc<Pages>,
    ) -> Result<Bytes, RenderError> {
        let _place = self.places.acquire().await.map_err(|e| RenderError::Failed(e.to_string()))?;
        let kept = self.idle.lock().pop();
        let mut client = kept.unwrap_or_else(|| Client::new(self.peer.clone(), connects));
        let mut page = pages.take();
        let status = client.ask(&Ask::post(&self.peer, path, body), &mut page).await.map_err(failed)?;
        let mut idle = self.idle.lock();
        if client.is_open() && idle.len() < KEPT {
            idle.push(client);
        }
        drop(idle);
        if status == 200 {
            Ok(Bytes::copy_from_slice(page.bytes()))
        } else {
            Err(RenderError::status(status.as_u16(), page.bytes()))
        }
    }
}

/// A task that ends when nobody waits for it any more.
struct GivenUp(JoinHandle<Result<Bytes, RenderError>>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.abort();
    }
}
