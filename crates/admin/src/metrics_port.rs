//! The metrics port of the Endpoint Picker, which answers as llm-d's does (request-lifecycle 6.4): `/metrics`, `/debug/pprof/`, `/debug/plugins/state`.
//! What a person looks at is on the admin listener, apart.

use std::future::Future;
use std::io;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

use crate::View;
use crate::http::TlsSource;
use crate::profiles::Profile;
use crate::reply::{JSON, Reply, TEXT, with_type};
use crate::routes::metrics;

const PROFILES: &str = "\
<html><head><title>/debug/pprof/</title></head><body>
<p>Profiles in pprof format, for <code>go tool pprof</code> and its like.</p>
<ul><li><a href=\"profile?seconds=10\">profile</a> (CPU)</li><li><a href=\"heap?seconds=10\">heap</a></li><li><a href=\"cmdline\">cmdline</a></li></ul>
</body></html>
";

/// What the port offers beside metrics.
#[derive(Clone, Default)]
pub struct MetricsPort {
    /// With TLS.
    pub tls: Option<TlsSource>,
    /// Profiles.
    pub pprof: bool,
}

impl std::fmt::Debug for MetricsPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetricsPort").field("tls", &self.tls.is_some()).field("pprof", &self.pprof).finish()
    }
}

/// Answers on `listener` until `stop` completes.
///
/// # Errors
/// When the listener has no local address.
pub async fn serve_metrics<V: View>(
    listener: TcpListener,
    view: Arc<V>,
    port: MetricsPort,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let tls = port.tls.clone();
    crate::http::listen(listener, tls, stop, move |request: Request<Incoming>, _, _| {
        let view = Arc::clone(&view);
        async move {
            let (head, _) = request.into_parts();
            answer(&*view, port.pprof, &head.method, head.uri.path(), head.uri.query(), &head.headers).await
        }
    })
    .await
}

async fn answer(
    view: &impl View,
    pprof: bool,
    method: &Method,
    path: &str,
    query: Option<&str>,
    headers: &HeaderMap,
) -> Reply {
    if path == "/metrics" {
        return metrics(view, headers);
    }
    if path == "/debug/plugins/state" {
        if method != Method::GET {
            let mut reply = with_type(StatusCode::METHOD_NOT_ALLOWED, TEXT, "Method Not Allowed\n");
            reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            return reply;
        }
        return plugin_state(view);
    }
    if !pprof {
        return not_found();
    }
    match path {
        "/debug/pprof/" => with_type(StatusCode::OK, "text/html; charset=utf-8", PROFILES),
        "/debug/pprof/cmdline" => with_type(StatusCode::OK, TEXT, command_line(std::env::args())),
        _ => match Profile::at(path) {
            Some(profile) => profile.taken(query).await,
            None => not_found(),
        },
    }
}

/// The arguments, without the values of those that hold a secret.
fn command_line(arguments: impl Iterator<Item = String>) -> String {
    let mut hide = false;
    let shown = arguments.map(|argument| match argument.split_once('=') {
        _ if std::mem::replace(&mut hide, false) => "***".to_owned(),
        Some((flag, _)) if flag.ends_with("-token") => format!("{flag}=***"),
        _ => {
            hide = argument.starts_with("--") && argument.ends_with("-token");
            argument
        }
    });
    shown.collect::<Vec<_>>().join("\0")
}

fn not_found() -> Reply {
    with_type(StatusCode::NOT_FOUND, TEXT, "404 page not found\n")
}

fn plugin_state(view: &impl View) -> Reply {
    let plugins: Map<String, Value> = view
        .plugins()
        .into_iter()
        .map(|plugin| {
            let mut entry = json!({"name": plugin.name, "type": plugin.type_name});
            match plugin.state {
                Some(state) => entry["state"] = state,
                None => entry["message"] = "plugin does not support state collection".into(),
            }
            (plugin.name, entry)
        })
        .collect();
    let timestamp =
        jiff::Timestamp::from_millisecond(view.clock().unix_millis() as i64).unwrap_or_default().to_string();
    let body = json!({"timestamp": timestamp, "plugins": plugins}).to_string();
    with_type(StatusCode::OK, JSON, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_is_shown_with_the_command_line() {
        let arguments = ["epp", "--admin-token", "s3cret", "--x=1", "--admin-token=s3cret", "-v"].map(str::to_owned);
        assert_eq!(command_line(arguments.into_iter()), "epp\0--admin-token\0***\0--x=1\0--admin-token=***\0-v");
    }
}
