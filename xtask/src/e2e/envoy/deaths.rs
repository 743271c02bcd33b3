//! Engines and pickers that die or leave under load.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::ask::{End, Told};
use super::load;
use super::stack::{Plan, Stack, Tools};
use crate::report::{Tally, check};

/// Requests under way in these cases.
const CONCURRENCY: usize = 20;

/// A dead engine must be out within this time: two health checks a second apart.
const OUT_WITHIN: Duration = Duration::from_secs(4);

/// A returned engine must be taken back within this time.
const BACK_WITHIN: Duration = Duration::from_secs(30);

/// The cases.
pub(super) async fn run(tools: &Tools, tally: &mut Tally) -> Result<()> {
    engine_dies(tools, tally).await?;
    one_of_two_pickers_leaves(tools, tally).await?;
    the_only_picker_dies(tools, tally).await
}

async fn engine_dies(tools: &Tools, tally: &mut Tally) -> Result<()> {
    let mut stack = Stack::start(tools, Plan { name: "engine-dies", ..Plan::ORDINARY }).await?;
    let base = stack.url("");
    let victim = stack.engines[0].address.to_string();
    let work = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let killed = Instant::now();
        stack.engines[0].kill();
        tokio::time::sleep(OUT_WITHIN + Duration::from_secs(2)).await;
        stack.restart_engine(tools, 0).await?;
        let restarted = Instant::now();
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok((killed, restarted))
    };
    let ((killed, restarted), told) = load::beside(&tools.client, &base, CONCURRENCY, work).await?;
    let hung =
        told.iter().filter(|one| matches!(&one.end, End::Broken(text) if text.contains("no end within"))).count();
    check(tally, hung == 0, format!("of {} requests around the death of an engine none hangs ({hung})", told.len()));
    let wrong = told.iter().filter(|one| matches!(one.end, End::Wrong(_)) && !one.engine.eq(&victim)).count();
    check(tally, wrong == 0, format!("no other engine's answer is harmed ({wrong})"));
    let out = told.iter().filter(|one| one.sent > killed + OUT_WITHIN && one.sent < restarted).cloned();
    let out: Vec<Told> = out.collect();
    let (odd, first) = load::odd(&out);
    check(
        tally,
        odd == 0 && !out.is_empty(),
        format!("the others serve all {} requests then ({odd} not) {first}", out.len()),
    );

    let start = Instant::now();
    let mut served = 0;
    while served == 0 && start.elapsed() < BACK_WITHIN {
        let told = load::run(&tools.client, &base, 4, |sent| sent < 40).await;
        served = told.iter().filter(|one| one.end == End::Right && one.engine == victim).count();
    }
    check(tally, served > 0, format!("the returned engine serves again (after {:.1?})", restarted.elapsed()));
    stack.must_be_alive()
}

async fn one_of_two_pickers_leaves(tools: &Tools, tally: &mut Tally) -> Result<()> {
    // Envoy asks for their health every second here; draining must outlast that.
    let flags = &["--drain-timeout", "6s", "--hard-stop-timeout", "10s"];
    let plan = Plan { name: "two-pickers", pickers: 2, picker_flags: flags, ..Plan::ORDINARY };
    let mut stack = Stack::start(tools, plan).await?;
    let base = stack.url("");
    let work = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        stack.pickers[0].terminate();
        let deadline = Instant::now() + Duration::from_secs(25);
        while !stack.pickers[0].has_left() {
            if Instant::now() > deadline {
                bail!("the picker did not leave");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        Ok(())
    };
    let ((), told) = load::beside(&tools.client, &base, CONCURRENCY, work).await?;
    let (odd, first) = load::odd(&told);
    check(
        tally,
        odd == 0,
        format!("SIGTERM of one of two pickers loses none of {} requests ({odd}) {first}", told.len()),
    );
    Ok(())
}

async fn the_only_picker_dies(tools: &Tools, tally: &mut Tally) -> Result<()> {
    let mut stack = Stack::start(tools, Plan { name: "only-picker", ..Plan::ORDINARY }).await?;
    let base = stack.url("");
    let work = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let killed = Instant::now();
        stack.pickers[0].kill();
        tokio::time::sleep(Duration::from_secs(1)).await;
        stack.restart_picker(tools, 0).await?;
        let back = Instant::now();
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok((killed, back))
    };
    let ((killed, back), told) = load::beside(&tools.client, &base, CONCURRENCY, work).await?;
    let (failed, fine): (Vec<&Told>, Vec<&Told>) = told.iter().partition(|one| one.end != End::Right);
    // What Envoy had asked of the old process, or tries to ask of the new one over a connection that it has yet to make.
    let settled = back + Duration::from_secs(1);
    let stray = failed.iter().filter(|one| one.ended < killed || one.sent > settled).count();
    check(
        tally,
        stray == 0,
        format!("of {} requests only those around kill -9 of the only picker fail ({stray} others)", told.len()),
    );
    let other = failed.iter().filter(|one| !matches!(one.end, End::Status(500, _))).count();
    let kinds: Vec<String> = failed
        .iter()
        .filter(|one| !matches!(one.end, End::Status(500, _)))
        .take(3)
        .map(|one| format!("{:?}", one.end))
        .collect();
    check(
        tally,
        other == 0 && !failed.is_empty(),
        format!("all {} of them with 500 ({other} not) {}", failed.len(), kinds.join("; ")),
    );
    let slowest = told.iter().map(|one| one.ended - one.sent).max().unwrap_or_default();
    check(tally, slowest < Duration::from_secs(10), format!("none hangs (the slowest took {slowest:.1?})"));
    let after = fine.iter().filter(|one| one.sent > settled).count();
    check(tally, after > 0, format!("its successor serves ({after} requests)"));
    Ok(())
}
