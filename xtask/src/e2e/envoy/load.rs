//! Many requests at once through the proxy, each with a text of its own to be said back.

use std::cell::Cell;
use std::rc::Rc;

use anyhow::Result;
use tokio::task::LocalSet;

use super::ask::{APIS, End, Told, ask};
use crate::client::Client;

/// Keeps `concurrency` requests under way while `more` says so, which is told how many were sent.
pub(super) async fn run(
    client: &Client,
    base: &str,
    concurrency: usize,
    more: impl Fn(u64) -> bool + 'static,
) -> Vec<Told> {
    let local = LocalSet::new();
    let (next, more) = (Rc::new(Cell::new(0_u64)), Rc::new(more));
    let workers = (0..concurrency).map(|_| {
        let (client, base, next, more) = (client.clone(), base.to_owned(), Rc::clone(&next), Rc::clone(&more));
        local.spawn_local(async move {
            let mut told = Vec::new();
            while more(next.get()) {
                let number = next.replace(next.get() + 1);
                let text = format!("Request {number} asks for platform {}, please.", number % 97);
                let path = APIS[(number % 4) as usize];
                let one = ask(&client, &base, path, &text, number % 3 == 0).await;
                if one.end != End::Right {
                    // Whoever refuses at once must not be asked a million times.
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
                told.push(one);
            }
            told
        })
    });
    let workers: Vec<_> = workers.collect();
    local.await;
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.unwrap_or_default());
    }
    all
}

/// Ends other than the right one, by kind, and the first few of them.
pub(super) fn odd(told: &[Told]) -> (usize, String) {
    let odd: Vec<&Told> = told.iter().filter(|one| one.end != End::Right).collect();
    let first: Vec<String> = odd.iter().take(3).map(|one| format!("{:?}", one.end)).collect();
    (odd.len(), first.join("; "))
}

/// Runs `work` beside a load that lasts as long as it, and hands back both.
pub(super) async fn beside<T>(
    client: &Client,
    base: &str,
    concurrency: usize,
    work: impl Future<Output = Result<T>>,
) -> Result<(T, Vec<Told>)> {
    let working = Rc::new(Cell::new(true));
    let asked = Rc::clone(&working);
    let work = async {
        let done = work.await;
        working.set(false);
        done
    };
    let (done, told) = tokio::join!(work, run(client, base, concurrency, move |_| asked.get()));
    Ok((done?, told))
}
