//! The endpoints file: reading it, and turning its entries into endpoints.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use pointsman_config::endpoints::{EndpointEntry, Options, parse};
use pointsman_config::{Faults, render, yaml};
use pointsman_core::EndpointName;
use pointsman_fleet::{EndpointMeta, Scheme};

use crate::discovery::shown;

/// Where endpoints are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointsFile {
    /// The file.
    pub path: PathBuf,
    /// Whether IPv6 addresses and host names are taken too, and the labels `metricsAddress` and `metricsPort` mean something, as in
    /// `multicluster-file-discovery`; `file-discovery` wants IPv4 literals.
    pub allow_any_host: bool,
}

/// Why an endpoints file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("endpoints file {path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system says.
        error: io::Error,
    },
    /// It has faults; each is shown with its place.
    #[error("{0}")]
    Faulty(String),
}

impl EndpointsFile {
    pub(crate) fn unreadable(&self, error: io::Error) -> FileError {
        FileError::Unreadable { path: shown(&self.path), error }
    }

    /// The content, of which a byte more than the limit is read at most, so that a file that is too large is told from one that is not.
    pub(crate) fn bytes(&self) -> io::Result<Vec<u8>> {
        let found = std::fs::metadata(&self.path)?;
        if !found.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut bytes = Vec::with_capacity((found.len() as usize).min(yaml::MAX_BYTES) + 1);
        File::open(&self.path)?.take(yaml::MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn read(&self) -> Result<Vec<u8>, FileError> {
        self.bytes().map_err(|e| self.unreadable(e))
    }

    /// What is valid, and what is not. `None` when the file as a whole cannot be used.
    pub(crate) fn parse(&self, bytes: &[u8]) -> (Option<Vec<EndpointMeta>>, Faults) {
        let mut faults = Faults::new();
        let entries = parse(bytes, Options { allow_any_host: self.allow_any_host }, &mut faults);
        (entries.map(|entries| entries.into_iter().map(|e| meta(e, self.allow_any_host)).collect()), faults)
    }

    /// Every entry, or every fault.
    pub(crate) fn parse_strict(&self, bytes: &[u8]) -> Result<Vec<EndpointMeta>, FileError> {
        match self.parse(bytes) {
            (Some(metas), faults) if faults.errors() == 0 => Ok(metas),
            (_, faults) => {
                let text = String::from_utf8_lossy(bytes);
                Err(FileError::Faulty(render(&shown(&self.path), &text, &faults, false)))
            }
        }
    }

    /// Reads the list once, strictly.
    ///
    /// # Errors
    /// When the file cannot be read, or has any fault.
    pub fn load(&self) -> Result<Vec<EndpointMeta>, FileError> {
        self.parse_strict(&self.read()?)
    }
}

/// The label that makes an endpoint one spoken to over TLS, when its value is `https`: the file has no field for it.
const SCHEME_LABEL: &str = "pointsman.dev/scheme";
/// The label that names the address of the machine an endpoint runs on.
const NODE_LABEL: &str = "pointsman.dev/node-address";

/// With `metrics_labels`, the labels `metricsAddress` and `metricsPort` say where the metrics page is, as upstream's multicluster variant has it.
fn meta(entry: EndpointEntry, metrics_labels: bool) -> EndpointMeta {
    let mut meta = EndpointMeta::new(EndpointName::new(entry.namespace, entry.name), entry.address, entry.port);
    meta.labels = entry.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    if meta.labels.get(SCHEME_LABEL) == Some("https") {
        meta.scheme = Scheme::Https;
    }
    meta.node_address = meta.labels.get(NODE_LABEL).filter(|a| !a.is_empty()).map(str::to_owned);
    if !metrics_labels {
        return meta;
    }
    let port = meta.labels.get("metricsPort").and_then(|p| p.parse::<u16>().ok()).filter(|p| *p > 0);
    let host = meta.labels.get("metricsAddress").filter(|a| !a.is_empty());
    if port.is_some() || host.is_some() {
        let (host, port) = (host.unwrap_or(&meta.address), port.unwrap_or(meta.port));
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        meta.metrics_address =
            Some(if bare.contains(':') { format!("[{bare}]:{port}") } else { format!("{bare}:{port}") });
    }
    meta
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: PathBuf) -> EndpointsFile {
        EndpointsFile { path, allow_any_host: false }
    }

    #[test]
    fn a_start_with_any_fault_is_refused_with_its_place() {
        let list = file("endpoints.yaml".into());
        let text =
            b"endpoints:\n- {name: a, address: 10.0.0.1, port: 8000}\n- {name: b, address: 10.0.0.300, port: 8000}\n";
        let error = list.parse_strict(text).expect_err("one entry is wrong").to_string();
        assert!(error.starts_with("endpoints.yaml:3:"), "{error}");
        assert!(error.contains("10.0.0.300") && error.contains("1 error"), "{error}");
        let (valid, faults) = list.parse(text);
        assert_eq!((valid.map(|v| v.len()), faults.errors()), (Some(1), 1));
    }

    #[test]
    fn labels_override_where_the_metrics_page_is() {
        let list = EndpointsFile { path: "e".into(), allow_any_host: true };
        let text = b"endpoints:\n- {name: a, address: peer.example, port: 443, labels: {metricsAddress: 'fd00::1', metricsPort: '9090'}}\n\
                     - {name: b, address: 10.0.0.1, port: 1, labels: {metricsPort: '9090'}}\n- {name: c, address: 10.0.0.1, port: 2}\n";
        let metas = list.parse_strict(text).unwrap();
        let at: Vec<&str> = metas.iter().map(EndpointMeta::metrics_host_port).collect();
        assert_eq!(at, ["[fd00::1]:9090", "10.0.0.1:9090", "10.0.0.1:2"]);
    }

    #[test]
    fn what_is_no_file_is_unreadable_and_never_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path().to_owned(), dir.path().join("absent"), "/dev/zero".into()] {
            assert!(matches!(file(path).load(), Err(FileError::Unreadable { .. })));
        }
    }
}
