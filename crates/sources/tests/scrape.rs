//! Metrics pages, fetched from a server that is told what to say.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{Engine, Fed, Reply, compiled, default_sources, pause, until};
use pointsman_core::{EndpointName, Nanos};
use pointsman_fleet::{EndpointMeta, EngineState};
use pointsman_sources::{TlsClient, TlsOptions};

const PAGE: &str = "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine=\"0\"} 3\n\
                    # TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} 4\n\
                    # TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n";

fn chunked(body: &str) -> Reply {
    let mut pieces = vec![b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec()];
    pieces.extend(body.as_bytes().chunks(33).map(|c| [format!("{:x}\r\n", c.len()).as_bytes(), c, b"\r\n"].concat()));
    pieces.push(b"0\r\n\r\n".to_vec());
    Reply::Raw(pieces)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_read_however_it_is_written_and_sent() {
    let fed = Fed::scraping_only();
    for (name, reply) in [
        ("plain", Reply::ok(PAGE)),
        ("crlf", Reply::ok(PAGE.replace('\n', "\r\n"))),
        ("no final newline", Reply::ok(PAGE.trim_end())),
        ("a bad line", Reply::ok(format!("}}{{ nonsense \u{0}\nvllm:x{{a=\"\n{PAGE}"))),
        ("repeated types", Reply::ok(format!("# TYPE vllm:num_requests_waiting gauge\n{PAGE}"))),
        ("untyped", Reply::ok(PAGE.lines().filter(|l| !l.starts_with('#')).collect::<Vec<_>>().join("\n"))),
        ("eof mark", Reply::ok(format!("{PAGE}# EOF\n"))),
        ("long", Reply::ok(format!("{}{PAGE}", "# HELP x y\nx_total 1\n".repeat(20_000)))),
        ("chunked", chunked(PAGE)),
        ("until closed", Reply::Raw(vec![format!("HTTP/1.0 200 OK\r\n\r\n{PAGE}").into_bytes()])),
    ] {
        let engine = Engine::start().await;
        engine.reply("/metrics", reply);
        let endpoint = fed.add(engine.meta(name));
        until(name, || endpoint.engine.view().known_kv()).await;
        let view = endpoint.engine.view();
        assert_eq!((view.waiting, view.running, view.kv_usage), (3.0, 4.0, 0.25), "{name}");
        assert_eq!(endpoint.engine.engine().as_deref(), Some("vllm"));
        fed.fleet.remove(endpoint.name());
    }
    assert_eq!((fed.count.poll.load(Ordering::SeqCst), fed.count.extract.load(Ordering::SeqCst)), (0, 0));
}

/// What the pages mean is tested where they are read; here it is that a fetched page means what its bytes mean.
#[tokio::test(flavor = "multi_thread")]
async fn every_golden_page_means_the_same_fetched_as_read_directly() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/fixtures/golden/engine-metrics/vllm-pages.json");
    let golden: serde_json::Value = serde_json::from_slice(&std::fs::read(golden).unwrap()).unwrap();
    let (fed, extractor) = (Fed::scraping_only(), Arc::clone(&default_sources()[0].extractors[0]));
    let mut pages = Vec::new();
    for golden in golden["pages"].as_array().unwrap() {
        let Some(page) = golden["page"].as_str() else { continue };
        let name = golden["name"].as_str().unwrap();
        let engine = Engine::start().await;
        engine.reply("/metrics", Reply::ok(page));
        pages.push((name, page, fed.add(engine.meta(name)), engine));
    }
    assert!(pages.len() > 5);
    let state = |engine: &EngineState| {
        let view = engine.view();
        let known = (view.known_waiting(), view.known_running(), view.known_kv());
        (view.waiting, view.running, view.kv_usage, known, (**engine.lora()).clone(), engine.cache_num_blocks())
    };
    for (name, page, endpoint, engine) in &pages {
        until(name, || engine.asked("/metrics") > 1).await;
        let direct = EngineState::default();
        direct.apply(Nanos(1), &extractor.extract(&endpoint.meta, page.as_bytes()).scraped);
        assert_eq!(state(&endpoint.engine), state(&direct), "{name}");
    }
    assert_eq!(fed.count.poll.load(Ordering::SeqCst), 0, "no page is refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn real_pages_of_engines_are_read() {
    let fed = Fed::scraping_only();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/fixtures/vllm/metrics");
    let mut read = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap().path();
        let engine = Engine::start().await;
        engine.reply("/metrics", Reply::ok(std::fs::read(&file).unwrap()));
        let endpoint = fed.add(engine.meta("real"));
        until(&file.display().to_string(), || endpoint.engine.view().known_kv()).await;
        assert!(endpoint.engine.cache_num_blocks().is_some(), "{}", file.display());
        fed.fleet.remove(endpoint.name());
        read += 1;
    }
    assert!(read >= 5);
    assert_eq!(fed.count.poll.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_never_scraped_is_unknown_and_says_why() {
    let fed = Fed::scraping_only();
    for (name, reply, why) in [
        ("status", Some(Reply::Plain(500, PAGE.into())), "status 500"),
        ("silent", Some(Reply::Silence), "no answer within 1 s"),
        ("too large", Some(Reply::ok(vec![b'x'; (8 << 20) + 1])), "answer larger than 8388608 bytes"),
        ("refused", None, "connection refused"),
        ("nothing of it", Some(Reply::ok("other_metric 1\n")), "nothing usable in the metrics page"),
    ] {
        let engine = Engine::start().await;
        let meta = engine.meta(name);
        let engine = reply.map(|reply| {
            engine.reply("/metrics", reply);
            engine
        });
        let endpoint = fed.add(meta);
        until(name, || endpoint.engine.last_error().is_some()).await;
        assert_eq!(endpoint.engine.last_error().as_deref(), Some(why), "{name}");
        let view = endpoint.engine.view();
        assert!(!view.known_waiting() && !view.known_running() && !view.known_kv(), "{name}");
        assert_eq!(endpoint.engine.scraped_at().0, 0, "{name}");
        fed.fleet.remove(endpoint.name());
        drop(engine);
    }
    assert!(fed.count.poll.load(Ordering::SeqCst) >= 4);
    assert!(fed.count.extract.load(Ordering::SeqCst) >= 1);
    assert_eq!(fed.count.types(), ["metrics-data-source", "metrics-data-source core-metrics-extractor"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn br_27_a_page_that_lacks_a_family_says_so_in_the_state_and_the_rest_stays_current() {
    let fed = Fed::scraping_only();
    let engine = Engine::start().await;
    let renamed = PAGE.replace("vllm:kv_cache_usage_perc", "vllm:called_otherwise");
    engine.reply("/metrics", Reply::ok(renamed.clone()));
    let endpoint = fed.add(engine.meta("a"));
    let error = || endpoint.engine.last_error().as_deref().map(str::to_owned);
    until("said", || error().as_deref() == Some("the metrics page has no KV cache usage")).await;
    let view = endpoint.engine.view();
    assert_eq!((view.waiting, view.running, view.known_kv()), (3.0, 4.0, false));
    assert!(endpoint.engine.scraped_at().0 != 0 && fed.count.extract.load(Ordering::SeqCst) > 0);
    engine.reply("/metrics", Reply::ok(renamed.replace(" 3", " 5").replace(" 4", " NaN")));
    let both = "the metrics page has no count of running requests, no KV cache usage";
    until("both said", || error().as_deref() == Some(both)).await;
    assert_eq!(endpoint.engine.view().waiting, 5.0);
    engine.reply("/metrics", Reply::ok(PAGE));
    until("complete", || endpoint.engine.view().known_kv() && error().is_none()).await;
    pause(150).await;
    assert_eq!(error(), None);

    let triton = Engine::start().await;
    triton.reply("/metrics", Reply::ok("nv_inference_pending_request_count 2\n"));
    let mut meta = triton.meta("triton");
    meta.labels = [("llm-d.ai/engine-type", "triton")].into_iter().collect();
    let counted = fed.count.extract.load(Ordering::SeqCst);
    let endpoint = fed.add(meta);
    until("read", || triton.asked("/metrics") > 3).await;
    assert_eq!((endpoint.engine.view().waiting, endpoint.engine.last_error()), (2.0, None));
    assert_eq!(fed.count.extract.load(Ordering::SeqCst), counted, "it has no such families: it misses none");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_a_page_may_take_is_as_set() {
    let fed = Fed::start(|o| {
        (o.health, o.models_interval) = (None, None);
        o.scrape_timeout = Duration::from_millis(80);
    });
    let engine = Engine::start().await;
    engine.reply("/metrics", Reply::Silence);
    let endpoint = fed.add(engine.meta("a"));
    until("given up", || endpoint.engine.last_error().is_some()).await;
    assert_eq!(endpoint.engine.last_error().as_deref(), Some("no answer within 80 ms"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_engine_delays_nobody_and_connections_are_kept() {
    let fed = Fed::scraping_only();
    let (slow, quick) = (Engine::start().await, Engine::start().await);
    slow.reply("/metrics", Reply::Silence);
    quick.reply("/metrics", Reply::ok(PAGE));
    for n in 0..20 {
        fed.add(slow.meta(&format!("slow-{n}")));
    }
    let endpoint = fed.add(quick.meta("quick"));
    until("a first page", || quick.asked("/metrics") > 0).await;
    let before = quick.asked("/metrics");
    pause(2_000).await;
    let pages = quick.asked("/metrics") - before;
    assert!((32..=41).contains(&pages), "{pages} pages in two seconds at 50 ms");
    assert!(fed.age_ms(&endpoint).is_some_and(|age| age < 200), "{:?}", fed.age_ms(&endpoint));
    assert_eq!(quick.seen.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_takes_longer_than_its_interval_drops_ticks_instead_of_queueing_them() {
    let fed = Fed::scraping_only();
    let engine = Engine::start().await;
    let mut pieces = vec![format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", PAGE.len()).into_bytes()];
    pieces.extend(PAGE.as_bytes().chunks(PAGE.len() / 39).map(<[u8]>::to_vec));
    engine.reply("/metrics", Reply::Raw(pieces));
    let endpoint = fed.add(engine.meta("long"));
    until("two pages", || engine.asked("/metrics") > 2).await;
    assert!(endpoint.engine.view().known_waiting());
    assert!(engine.seen.open.load(Ordering::SeqCst) <= 1, "one fetch at a time");
    assert!(fed.sources.stats().dropped_ticks >= 3, "{:?}", fed.sources.stats());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_comes_back_is_read_again() {
    let fed = Fed::scraping_only();
    let engine = Engine::start().await;
    engine.reply("/metrics", Reply::ok(PAGE));
    let address = engine.address;
    let endpoint = fed.add(engine.meta("a"));
    until("read", || endpoint.engine.view().known_waiting()).await;
    drop(engine);
    until("failing", || endpoint.engine.last_error().is_some()).await;
    assert_eq!(endpoint.engine.view().waiting, 3.0, "what was known ages, it does not go");
    pause(1_200).await;
    let polls = fed.count.poll.load(Ordering::SeqCst);
    pause(1_000).await;
    assert!(fed.count.poll.load(Ordering::SeqCst) - polls <= 2, "asked once a second while it is gone");
    let again = Engine::at(address, None).await;
    again.reply("/metrics", Reply::ok(PAGE.replace(" 3", " 7")));
    until("read again", || endpoint.engine.view().waiting == 7.0).await;
    assert_eq!(endpoint.engine.last_error(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_closes_idle_connections_costs_no_page() {
    let fed = Fed::scraping_only();
    let engine = Engine::start().await;
    let page = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{PAGE}", PAGE.len());
    engine.reply("/metrics", Reply::Raw(vec![page.into_bytes()]));
    fed.add(engine.meta("a"));
    until("five pages", || fed.sources.stats().scrapes >= 5).await;
    assert!(engine.seen.connections.load(Ordering::SeqCst) >= 5);
    assert_eq!(fed.count.poll.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_left_is_asked_no_more_and_nothing_is_left_behind() {
    let fed = Fed::start(|_| ());
    let engine = Engine::start().await;
    engine
        .reply("/metrics", Reply::ok(PAGE))
        .reply("/health", Reply::ok(""))
        .reply("/v1/models", Reply::ok("{\"data\":[]}"));
    for round in 0..10 {
        for n in 0..100 {
            fed.add(engine.meta(&format!("{round}-{n}")));
        }
        pause(30).await;
        for n in 0..100 {
            fed.fleet.remove(&EndpointName::new("default", format!("{round}-{n}")));
        }
    }
    until("all tasks ended", || fed.sources.stats().tasks == 0).await;
    assert_eq!(fed.sources.stats().endpoints, 0);
    until("all connections closed", || engine.seen.open.load(Ordering::SeqCst) == 0).await;
    let asked = engine.asked("/metrics");
    pause(200).await;
    assert_eq!(engine.asked("/metrics"), asked);
    fed.add(engine.meta("last"));
    until("scraping goes on", || engine.asked("/metrics") > asked).await;
    assert_eq!(fed.sources.stats().tasks, 3);
    fed.sources.stop();
    assert_eq!(fed.sources.stats().tasks, 0);
    fed.add(engine.meta("after the end"));
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_described_anew_and_new_configurations_are_followed() {
    let fed = Fed::scraping_only();
    let engine = Engine::start().await;
    let sglang = "sglang:num_queue_reqs 5\nsglang:num_running_reqs 6\nsglang:token_usage 0.5\n";
    engine.reply("/metrics", Reply::ok(format!("{PAGE}{sglang}"))).reply("/other", Reply::ok(PAGE.replace(" 3", " 9")));
    let endpoint = fed.add(engine.meta("a"));
    until("read as vllm", || endpoint.engine.view().waiting == 3.0).await;
    let mut meta = engine.meta("a");
    meta.labels = [("llm-d.ai/engine-type", "sglang")].into_iter().collect();
    fed.add(meta);
    until("read as sglang", || endpoint.engine.view().waiting == 5.0).await;
    assert_eq!(endpoint.engine.engine().as_deref(), Some("sglang"));
    fed.add(engine.meta("a"));
    let mut other = default_sources();
    other[0].path = "/other".into();
    fed.sources.set_scrape(other);
    until("read from the other page", || endpoint.engine.view().waiting == 9.0).await;
    let asked = engine.asked("/metrics");
    pause(150).await;
    assert_eq!(engine.asked("/metrics"), asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extractor_that_panics_is_contained() {
    #[derive(Debug)]
    struct Trips;
    impl pointsman_sources::Extractor for Trips {
        fn type_name(&self) -> &'static str {
            "core-metrics-extractor"
        }
        fn extract(&self, _: &EndpointMeta, _: &[u8]) -> pointsman_sources::Extracted {
            panic!("tripped")
        }
    }
    let mut scrape = default_sources();
    scrape[0].extractors.insert(0, Arc::new(Trips));
    let fed = Fed::with(scrape, |o| o.health = None);
    let engine = Engine::start().await;
    engine.reply("/metrics", Reply::ok(PAGE));
    let endpoint = fed.add(engine.meta("a"));
    until("counted three times", || fed.count.extract.load(Ordering::SeqCst) >= 3).await;
    assert!(endpoint.engine.view().known_waiting(), "the other extractor still works");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_fetched_over_tls_and_certificates_verified_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, made.cert.pem()).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let engine = Engine::at("127.0.0.1:0".parse().unwrap(), Some(acceptor)).await;
    engine.reply("/metrics", Reply::ok(PAGE));
    let stranger = folder.path().join("stranger.pem");
    std::fs::write(&stranger, rcgen::generate_simple_self_signed(vec!["x".into()]).unwrap().cert.pem()).unwrap();
    for (name, options, good) in [
        ("any", TlsOptions { insecure_skip_verify: true, ..TlsOptions::default() }, true),
        ("trusted", TlsOptions { ca: Some(ca), ..TlsOptions::default() }, true),
        ("not trusted", TlsOptions { ca: Some(stranger), ..TlsOptions::default() }, false),
    ] {
        let mut scrape = default_sources();
        scrape[0].tls = TlsClient::new(&options).unwrap();
        scrape[0].at.secure = Some(true);
        let fed = Fed::with(scrape, |o| (o.health, o.models_interval) = (None, None));
        let endpoint = fed.add(engine.meta(name));
        if good {
            until(name, || endpoint.engine.view().known_waiting()).await;
        } else {
            until(name, || endpoint.engine.last_error().is_some()).await;
            let error = endpoint.engine.last_error().unwrap();
            assert!(error.starts_with("TLS handshake failed"), "{error}");
        }
    }
    let absent = TlsOptions { ca: Some(folder.path().join("absent.pem")), ..TlsOptions::default() };
    assert!(TlsClient::new(&absent).unwrap_err().to_string().contains("absent.pem"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declared_source_says_path_port_and_interval() {
    let engine = Engine::start().await;
    engine.reply("/stats", Reply::ok(PAGE));
    let port = engine.address.port();
    let document = format!(
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: max-score-picker\n- type: metrics-data-source\n  \
         parameters: {{path: stats, port: {port}, interval: 250ms}}\n- type: core-metrics-extractor\nschedulingProfiles:\n- name: default\n  \
         plugins:\n  - pluginRef: max-score-picker\ndataLayer:\n  sources:\n  - pluginRef: metrics-data-source\n    extractors:\n    \
         - pluginRef: core-metrics-extractor\n"
    );
    let scrape = compiled(&document);
    assert_eq!(
        (scrape.len(), scrape[0].path.as_str(), scrape[0].interval),
        (1, "/stats", Some(Duration::from_millis(250)))
    );
    let fed = Fed::with(scrape, |o| (o.health, o.models_interval) = (None, None));
    let endpoint = fed.add(EndpointMeta::new(EndpointName::new("default", "a"), "127.0.0.1", 9));
    until("read", || endpoint.engine.view().known_waiting()).await;
    let before = engine.asked("/stats");
    pause(1_100).await;
    let pages = engine.asked("/stats") - before;
    assert!((3..=5).contains(&pages), "{pages} pages in 1.1 s at 250 ms");
}
