//! TLS of the external processor's port and of the metrics port (request-lifecycle 6.3 and T42).

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use rustls::version::{TLS12, TLS13};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::request::{answer, ask, destination};
use crate::support::certificates::{Authority, Offer, Pair, connect, shown};
use crate::support::grpc::Client;
use crate::support::http;
use crate::support::process::{CONFIG, Epp, FREE_PORTS, LONG, command, folder, pointsman, run, write};

fn h2() -> Offer {
    Offer { protocols: vec!["h2"], ..Offer::default() }
}

/// A request through this connection finds its engine.
async fn serves(stream: TlsStream<TcpStream>) {
    let mut client = Client::over(stream).await.expect("HTTP/2");
    assert_eq!(destination(&answer(&mut ask(&mut client)).await), "127.0.0.11:8000");
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Certificates in `pair`, in the folder that will be the process's own.
fn with_pair(pair: &Pair) -> TempDir {
    let folder = folder(CONFIG);
    std::fs::create_dir(folder.path().join("pair")).expect("a folder");
    pair.write(&folder.path().join("pair"));
    folder
}

#[tokio::test]
async fn without_a_certificate_one_is_made_that_is_ecdsa_and_signs_itself() {
    let epp = Epp::start(&["127.0.0.11:8000"], &["--engine-health-checks=false"]);
    let stream = connect(epp.grpc, &h2()).await.expect("TLS");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let certificate = shown(&stream);
    // id-ecPublicKey, prime256v1.
    assert!(holds(&certificate, &[0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01]));
    assert!(holds(&certificate, &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]));
    assert!(holds(&certificate, b"Inference Ext"));
    serves(stream).await;
    // Health has no TLS, whatever the other port speaks.
    assert_eq!(Client::connect(epp.health).await.check("").await, "SERVING");
}

/// As the kubelet mounts a secret: the names are links into `..data`, a link to the version in force.
struct Mounted<'a>(&'a Path);

impl Mounted<'_> {
    /// Puts a version in force by one rename, and takes the last one away.
    fn put(&self, version: &str, certificate: &str, key: &str) {
        let own = self.0.join(version);
        std::fs::create_dir_all(&own).expect("a folder");
        write(&own, "tls.crt", certificate);
        write(&own, "tls.key", key);
        let before = std::fs::read_link(self.0.join("..data")).ok();
        std::os::unix::fs::symlink(version, self.0.join("..data_tmp")).expect("a link");
        std::fs::rename(self.0.join("..data_tmp"), self.0.join("..data")).expect("renamed");
        match before {
            Some(before) => std::fs::remove_dir_all(self.0.join(before)).expect("removed"),
            None => {
                for name in ["tls.crt", "tls.key"] {
                    std::os::unix::fs::symlink(format!("..data/{name}"), self.0.join(name)).expect("a link");
                }
            }
        }
    }
}

async fn certificate_of(address: SocketAddr) -> Vec<u8> {
    shown(&connect(address, &h2()).await.expect("TLS"))
}

#[tokio::test]
async fn a_mounted_secret_that_is_swapped_is_taken_and_a_bad_one_leaves_the_old_in_force() {
    let authority = Authority::new();
    let (first, second, third) =
        (authority.issue("one.test"), authority.issue("two.test"), authority.issue("three.test"));
    let folder = folder(CONFIG);
    let secret = folder.path().join("secret");
    std::fs::create_dir(&secret).expect("a folder");
    let mounted = Mounted(&secret);
    mounted.put("..v1", &first.certificate, &first.key);
    let flags = ["--cert-path", "secret", "--enable-cert-reload", "--engine-health-checks=false"];
    let mut epp = Epp::start_in(folder, &flags);
    let old = connect(epp.grpc, &h2()).await.expect("TLS");
    assert_eq!(shown(&old), first.shown());

    mounted.put("..v2", &second.certificate, &second.key);
    epp.process.logged("certificates reloaded").expect("a line");
    assert_eq!(certificate_of(epp.grpc).await, second.shown());
    serves(old).await;

    // A certificate with the key of another.
    mounted.put("..v3", &third.certificate, &first.key);
    let complaint = "new certificates cannot be used; the old ones stay";
    epp.process.logged(complaint).expect("a line");
    assert_eq!(certificate_of(epp.grpc).await, second.shown());

    mounted.put("..v4", &third.certificate, &third.key);
    let began = Instant::now();
    while certificate_of(epp.grpc).await != third.shown() {
        assert!(began.elapsed() < LONG, "{}", epp.process.said());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn without_reload_the_pair_of_the_start_stays() {
    let authority = Authority::new();
    let (first, second) = (authority.issue("one.test"), authority.issue("two.test"));
    let epp = Epp::start_in(with_pair(&first), &["--cert-path=pair"]);
    second.write(&epp.folder.path().join("pair"));
    tokio::time::sleep(Duration::from_millis(1600)).await;
    assert_eq!(certificate_of(epp.grpc).await, first.shown());
}

#[tokio::test]
async fn with_an_authority_only_clients_that_it_vouches_for_are_served() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let folder = folder(CONFIG);
    write(folder.path(), "ca.pem", &ours.certificate);
    let epp = Epp::start_in(folder, &["--client-ca-file=ca.pem", "--engine-health-checks=false"]);
    serves(connect(epp.grpc, &Offer { own: Some(ours.issue("proxy.test")), ..h2() }).await.expect("TLS")).await;
    for own in [None, Some(theirs.issue("proxy.test"))] {
        // TLS 1.3 tells of the refusal after the client's side of the handshake.
        if let Ok(stream) = connect(epp.grpc, &Offer { own, ..h2() }).await
            && let Ok(mut client) = Client::over(stream).await
        {
            let mut call = ask(&mut client);
            assert!(call.next().await.is_none());
            assert_eq!(call.end().map(|end| end.0), Some(14));
        }
    }
}

#[tokio::test]
async fn the_least_version_is_kept_and_older_clients_are_turned_away() {
    let old = Offer { versions: vec![&TLS12], ..h2() };
    let any = Epp::start(&["127.0.0.11:8000"], &["--tls-min-version=VersionTLS12"]);
    let stream = connect(any.grpc, &old).await.expect("TLS 1.2");
    assert_eq!(stream.get_ref().1.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
    let new = Epp::start(&["127.0.0.11:8000"], &["--tls-min-version", "VersionTLS13"]);
    assert!(connect(new.grpc, &old).await.is_err());
    connect(new.grpc, &Offer { versions: vec![&TLS13], ..h2() }).await.expect("TLS 1.3");
}

#[tokio::test]
async fn cipher_suites_are_named_as_in_go_and_the_named_one_is_chosen() {
    let flags = ["--tls-cipher-suites", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,TLS_RSA_WITH_AES_128_CBC_SHA"];
    let mut epp = Epp::start(&["127.0.0.11:8000"], &flags);
    let stream = connect(epp.grpc, &Offer { versions: vec![&TLS12], ..h2() }).await.expect("TLS 1.2");
    let suite = stream.get_ref().1.negotiated_cipher_suite().expect("a suite").suite();
    assert_eq!(format!("{suite:?}"), "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256");
    // What Go still knows and nobody should speak is left out, and said so.
    let warned = epp.process.line(|line| line.contains("TLS_RSA_WITH_AES_128_CBC_SHA").then(|| line.to_owned()));
    assert!(warned.is_some_and(|line| line.contains("\"warn\"")));
}

#[test]
fn metrics_tls_needs_to_be_told_who_may_read() {
    let folder = with_pair(&Authority::new().issue("metrics.test"));
    write(folder.path(), "ca.pem", &Authority::new().certificate);
    for (flags, wanted) in [
        (&["--metrics-client-ca-file=ca.pem"][..], "--metrics-client-ca-file needs --metrics-cert-dir"),
        (&["--metrics-cert-dir=pair", "--metrics-endpoint-auth=false"], "needs --metrics-endpoint-auth"),
        (&["--metrics-cert-dir=empty"], "tls.crt"),
        (&["--metrics-cert-dir=pair", "--metrics-client-ca-file=nowhere.pem"], "nowhere.pem"),
    ] {
        let mut asked = command(pointsman(), folder.path());
        asked.arg("epp").args(FREE_PORTS).args(["--pool-name=p", "--config-file=config.yaml"]).args(flags);
        let ended = run(asked);
        assert_eq!(ended.code, Some(1), "{flags:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(wanted), "{flags:?}: {}", ended.stderr);
    }
}

/// T42, the last two columns: refused without a certificate, 200 with one.
#[tokio::test]
async fn metrics_are_read_over_tls_by_whoever_shows_a_certificate_of_the_authority() {
    let authority = Authority::new();
    let pair = authority.issue("metrics.test");
    let folder = with_pair(&pair);
    write(folder.path(), "ca.pem", &authority.certificate);
    let flags = ["--metrics-cert-dir=pair", "--metrics-client-ca-file=ca.pem", "--metrics-endpoint-auth=false"];
    let epp = Epp::start_in(folder, &flags);
    let offer = Offer { own: Some(authority.issue("prometheus.test")), ..Offer::default() };
    let stream = connect(epp.metrics, &offer).await.expect("TLS");
    assert_eq!(shown(&stream), pair.shown());
    let page = http::ask_on(stream, "GET", "/metrics", "").await.expect("an answer");
    assert!(page.status == 200 && page.body.contains("# TYPE"), "{page:?}");
    if let Ok(stream) = connect(epp.metrics, &Offer::default()).await {
        assert!(http::ask_on(stream, "GET", "/metrics", "").await.is_err());
    }
    let plain = TcpStream::connect(epp.metrics).await.expect("it listens");
    assert!(http::ask_on(plain, "GET", "/metrics", "").await.is_err());
}
