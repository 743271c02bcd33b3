//! The end of the process (request-lifecycle 6.5), and starts that do not come about.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::request::{answer, ask, destination, endless, event};
use crate::support::grpc::Client;
use crate::support::process::{CONFIG, Epp, FREE_PORTS, LONG, command, folder, pointsman, run, write};

/// Nobody listens at the endpoint.
const PLAIN: [&str; 2] = ["--secure-serving=false", "--engine-health-checks=false"];

#[tokio::test]
async fn a_drain_tells_not_ready_at_once_serves_on_and_ends_with_0() {
    let mut epp = Epp::start(&["127.0.0.11:8000"], &[&PLAIN[..], &["--drain-timeout=3s"]].concat());
    let (mut picker, mut health) = (Client::connect(epp.grpc).await, Client::connect(epp.health).await);
    assert_eq!(health.check("readiness").await, "SERVING");
    let began = Instant::now();
    epp.process.signal("-TERM");
    while health.check("readiness").await != "NOT_SERVING" {
        assert!(began.elapsed() < Duration::from_secs(2), "ready for too long");
    }
    assert_eq!(picker.check("").await, "NOT_SERVING");
    // Old connections and new ones.
    assert_eq!(destination(&answer(&mut ask(&mut picker)).await), "127.0.0.11:8000");
    let mut late = Client::connect(epp.grpc).await;
    assert_eq!(destination(&answer(&mut ask(&mut late)).await), "127.0.0.11:8000");
    assert!(epp.process.is_running());
    drop((picker, late, health));
    assert_eq!(epp.process.wait(LONG).await, Some(0), "{}", epp.process.said());
    assert!(began.elapsed() >= Duration::from_secs(3), "the drain was short");
    assert!(epp.process.logged("stopped").is_some());
}

#[tokio::test]
async fn a_stream_that_is_open_at_the_end_of_the_drain_may_finish() {
    let mut epp = Epp::start(&["127.0.0.11:8000"], &[&PLAIN[..], &["--drain-timeout=0s"]].concat());
    let mut client = Client::connect(epp.grpc).await;
    let mut stream = endless(&mut client).await;
    epp.process.signal("-TERM");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(event(&mut stream).await, Some("response_body".into()));
    assert!(epp.process.is_running());
    stream.sender = None;
    assert!(stream.next().await.is_none());
    assert_eq!(stream.end().map(|end| end.0), Some(0));
    assert_eq!(epp.process.wait(LONG).await, Some(0));
}

#[tokio::test]
async fn an_endless_stream_is_ended_by_the_hard_stop() {
    let flags = [&PLAIN[..], &["--drain-timeout=0s", "--hard-stop-timeout=1s"]].concat();
    let mut epp = Epp::start(&["127.0.0.11:8000"], &flags);
    let mut client = Client::connect(epp.grpc).await;
    let mut stream = endless(&mut client).await;
    let began = Instant::now();
    epp.process.signal("-TERM");
    assert!(stream.within(LONG).await.is_none());
    assert!(stream.end().is_some_and(|(code, _)| *code != 0), "{:?}", stream.end());
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(epp.process.wait(LONG).await, Some(0), "{}", epp.process.said());
}

#[tokio::test]
async fn a_second_signal_cuts_the_drain_short() {
    let mut epp = Epp::start(&["127.0.0.11:8000"], &[&PLAIN[..], &["--drain-timeout=10m"]].concat());
    epp.process.signal("-TERM");
    epp.process.line(|line| line.contains("\"stopping").then_some(())).expect("it says so");
    epp.process.signal("-INT");
    assert_eq!(epp.process.wait(LONG).await, Some(0), "{}", epp.process.said());
}

/// Refused with 1, and never without a word: what, and the flag or file it is about.
#[test]
fn a_start_that_fails_says_why_and_ends_with_1() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let admin = format!("127.0.0.1:{port}");
    let bad = folder(CONFIG);
    write(bad.path(), "not-a-pair.pem", "nothing of the kind\n");
    write(bad.path(), "kubernetes.yaml", CONFIG.split("dataLayer").next().expect("the first part"));
    write(bad.path(), "wrong.yaml", &CONFIG.replace("type: queue-scorer", "type: qeue-scorer"));
    let cases: [(&[&str], &str); 12] = [
        (&["--grpc-port", &port], "--grpc-port"),
        (&["--grpc-health-port", &port], "--grpc-health-port"),
        (&["--metrics-port", &port], "--metrics-port"),
        (&["--admin-listen", &admin], "--admin-listen"),
        (&["--cert-path", "nowhere"], "--cert-path"),
        (&["--client-ca-file", "not-a-pair.pem"], "not-a-pair.pem"),
        (&["--metrics-cert-dir", "nowhere"], "--metrics-cert-dir"),
        (&["--tls-cipher-suites", "TLS_MADE_UP"], "TLS_MADE_UP"),
        (&["--config-file", "kubernetes.yaml"], "Kubernetes discovery is not available yet"),
        (&["--config-file", "wrong.yaml"], "did you mean `queue-scorer`?"),
        (&["--endpoint-target-ports", "0"], "--endpoint-target-ports"),
        (&["--decision-log", "nowhere/decisions.jsonl"], "nowhere/decisions.jsonl"),
    ];
    for (flags, wanted) in cases {
        let mut asked = command(pointsman(), bad.path());
        // The last of several wins, as in Go.
        asked.arg("epp").args(FREE_PORTS).args(["--pool-name", "p", "--config-file", "config.yaml"]).args(flags);
        let ended = run(asked);
        assert_eq!(ended.code, Some(1), "{flags:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(wanted), "{flags:?}: {}", ended.stderr);
        assert!(ended.stdout.is_empty(), "{flags:?}: {}", ended.stdout);
    }
}
