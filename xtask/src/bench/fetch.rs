//! Fetches every engine's metrics page and drops it: what scraping cannot be cheaper than with an ordinary HTTP client.

use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::MissedTickBehavior;

use super::engines;

/// How often each page is fetched: the default of `--refresh-metrics-interval`.
pub(super) const EVERY: Duration = Duration::from_millis(50);

/// Starts one task per engine on the current runtime, spread over the interval.
pub(super) fn every_page(engines: u32, port: u16) {
    for engine in 0..engines {
        tokio::spawn(async move {
            tokio::time::sleep(EVERY * engine / engines).await;
            loop {
                // A broken connection is made anew after a pause; what measures counts the pages served.
                if let Err(error) = pages(engine, port).await {
                    eprintln!("engine {engine}: {error:#}");
                }
                tokio::time::sleep(EVERY).await;
            }
        });
    }
}

/// Fetches pages over one connection until it breaks.
async fn pages(engine: u32, port: u16) -> Result<()> {
    let stream = TcpStream::connect(engines::address(engine, port)).await.context("cannot connect")?;
    stream.set_nodelay(true).context("cannot set TCP_NODELAY")?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.context("no HTTP")?;
    tokio::spawn(connection);
    let mut interval = tokio::time::interval(EVERY);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        interval.tick().await;
        let request = hyper::Request::get("/metrics").header("host", "engine").body(Empty::<Bytes>::new());
        let answer = sender.send_request(request.context("a fixed request")?).await.context("no answer")?;
        let mut body = answer.into_body();
        while let Some(frame) = body.frame().await {
            drop(frame.context("the page broke off")?);
        }
    }
}
