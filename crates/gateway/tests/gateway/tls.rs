//! TLS on both sides.

use std::sync::Arc;

use crate::support::*;
use parking_lot::Mutex;
use pointsman_gateway::{GatewayError, GatewayOptions, ServerTls};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

struct Identity {
    folder: tempfile::TempDir,
    cert: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Identity {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Self { folder, cert: made.cert.der().clone(), key }
    }

    fn files(&self) -> ServerTls {
        ServerTls { cert: self.folder.path().join("cert.pem"), key: self.folder.path().join("key.pem") }
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

async fn connect(
    gateway: &Running,
    trusted: &CertificateDer<'static>,
    alpn: &[u8],
) -> tokio_rustls::client::TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let mut config = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    let stream = TcpStream::connect(gateway.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

#[tokio::test]
async fn the_listener_serves_tls_with_both_versions_of_http() {
    let identity = Identity::new();
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let options = GatewayOptions { tls: Some(identity.files()), ..GatewayOptions::default() };
    let gateway = Running::start(&[engine.address], options).await;

    let stream = connect(&gateway, &identity.cert, b"http/1.1").await;
    let mut client = Client { stream, buffer: Vec::new() };
    client.send(chat("x")).await;
    assert_eq!(client.answer().await.unwrap().status(), 200);

    let stream = connect(&gateway, &identity.cert, b"h2").await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let executor = hyper_util::rt::TokioExecutor::new();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    let body = http_body_util::Full::new(bytes::Bytes::from(chat_body("y")));
    let request = hyper::Request::post("https://localhost/v1/chat/completions").body(body).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    assert_eq!(engine.count(), 2);
}

async fn tls_engine(identity: &Identity) -> (std::net::SocketAddr, Arc<Mutex<Vec<Received>>>) {
    let config = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![identity.cert.clone()], identity.key.clone_key().into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&log);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                let script = Arc::new(|_: &Received| Reply::Write(ok("application/json", "{}")));
                tokio::spawn(serve_engine(stream, 0, script, Arc::clone(&all), Arc::default()));
            }
        }
    });
    (address, log)
}

#[tokio::test]
async fn engines_are_spoken_to_over_tls_when_their_certificate_is_believed() {
    let identity = Identity::new();
    let (address, log) = tls_engine(&identity).await;
    let other = Identity::new();
    let ca = |identity: &Identity| Some(identity.files().cert);
    for (engine_ca, engine_insecure, want) in [(ca(&identity), false, 200), (ca(&other), false, 502), (None, true, 200)]
    {
        let options = GatewayOptions { engine_ca, engine_insecure, ..no_ejection() };
        let gateway = Running::start_with(&[address], options, https).await;
        let answer = gateway.ask(chat("x")).await;
        assert_eq!(answer.status(), want, "{answer:?}");
    }
    assert_eq!(log.lock().len(), 2);
}

#[tokio::test]
async fn an_unusable_file_is_named_at_the_start() {
    let identity = Identity::new();
    let ServerTls { cert, key } = identity.files();
    let missing = identity.folder.path().join("missing.pem");
    let pool = Running::start(&[], GatewayOptions::default()).await.pool;
    for (options, file) in [
        (
            GatewayOptions { tls: Some(ServerTls { cert: missing.clone(), key: key.clone() }), ..Default::default() },
            &missing,
        ),
        (GatewayOptions { tls: Some(ServerTls { cert: key.clone(), key: key.clone() }), ..Default::default() }, &key),
        (
            GatewayOptions { tls: Some(ServerTls { cert: cert.clone(), key: cert.clone() }), ..Default::default() },
            &cert,
        ),
        (GatewayOptions { engine_ca: Some(key.clone()), ..Default::default() }, &key),
    ] {
        let error = pointsman_gateway::Gateway::new(Arc::clone(&pool), options).unwrap_err();
        assert!(matches!(&error, GatewayError::Pem { .. }), "{error}");
        assert!(error.to_string().contains(&*file.to_string_lossy()), "{error}");
    }
}
