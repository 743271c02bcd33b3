//! The endpoints file: which endpoints exist, when no cluster says so.
//!
//! ```yaml
//! endpoints:
//! - {name: vllm-0, namespace: default, address: 10.0.0.1, port: "8000", labels: {role: decode}}
//! ```
//!
//! A file whose *shape* is wrong (not YAML, a label that is not text) changes nothing: [`parse`] returns `None`. An entry whose
//! *values* are wrong (an address that is none) is left out with an error, and the others are returned. At start-up any error should
//! be fatal; a reload applies what is valid. Unknown fields are ignored with a warning, a missing `name` becomes `address:port`.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::fault::{Code, Faults, did_you_mean, nearest, quote};
use crate::read;
use crate::yaml::{self, Key, MAX_BYTES, Node, Span, Value};

/// What is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// IPv6 literals and host names are addresses too. `file-discovery` takes IPv4 literals only, because what it hands to a proxy
    /// must be one.
    pub allow_any_host: bool,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointEntry {
    /// Name, unique within the namespace.
    pub name: String,
    /// Namespace; `default` where none is given.
    pub namespace: String,
    /// IP literal (an IPv6 one without brackets) or host name.
    pub address: String,
    /// 1 to 65535.
    pub port: u16,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Where the entry stands.
    pub span: Span,
}

const FIELDS: [&str; 5] = ["name", "namespace", "address", "port", "labels"];

/// Reads an endpoints file of at most [`MAX_BYTES`]. Of two entries with one namespace and name the last wins.
pub fn parse(bytes: &[u8], options: Options, faults: &mut Faults) -> Option<Vec<EndpointEntry>> {
    let text = yaml::text_of(bytes, MAX_BYTES, faults)?;
    let root = yaml::parse(text, faults)?;
    let before = faults.errors();
    let mut out: Vec<EndpointEntry> = Vec::new();
    let mut at: HashMap<(String, String), usize> = HashMap::new();
    let mut shape = Shape { sound: true, options };
    for (i, node) in shape.list(&root, faults).iter().enumerate() {
        let Some(entry) = shape.entry(node, &format!("endpoints[{i}]"), faults) else { continue };
        let id = (entry.namespace.clone(), entry.name.clone());
        if let Some(&first) = at.get(&id) {
            let message =
                format!("endpoint {} is defined twice; the last one counts", quote(&format!("{}/{}", id.0, id.1)));
            faults.warning(Code::DuplicateEndpoint, entry.span, format!("endpoints[{i}]"), message);
            out[first] = entry;
        } else {
            at.insert(id, out.len());
            out.push(entry);
        }
    }
    debug_assert!(shape.sound || faults.errors() > before);
    shape.sound.then_some(out)
}

struct Shape {
    /// Every value so far has the type it should have.
    sound: bool,
    options: Options,
}

impl Shape {
    fn list<'n>(&mut self, root: &'n Node, faults: &mut Faults) -> &'n [Node] {
        if root.is_null() {
            return &[];
        }
        let Some(entries) = root.entries() else {
            self.wrong(root, "", "a mapping", faults);
            return &[];
        };
        ignored(entries, "", &["endpoints"], faults);
        match root.get("endpoints") {
            None => &[],
            Some(list) if list.is_null() => &[],
            Some(list) => list.items().unwrap_or_else(|| {
                self.wrong(list, "endpoints", "a list", faults);
                &[]
            }),
        }
    }

    fn entry(&mut self, node: &Node, path: &str, faults: &mut Faults) -> Option<EndpointEntry> {
        let Some(fields) = node.entries() else {
            self.wrong(node, path, "a mapping", faults);
            return None;
        };
        ignored(fields, path, &FIELDS, faults);
        let name = self.text(node, path, "name", faults);
        let namespace = self.text(node, path, "namespace", faults);
        let address = self.address(node, path, faults);
        let port = self.port(node, path, faults);
        let labels = self.labels(node, path, faults);
        let (address, port) = (address?, port?);
        let name = name.filter(|n| !n.is_empty()).map_or_else(|| format!("{address}:{port}"), str::to_owned);
        let namespace = namespace.filter(|n| !n.is_empty()).unwrap_or("default").to_owned();
        Some(EndpointEntry { name, namespace, address, port, labels, span: node.span })
    }

    fn text<'n>(&mut self, node: &'n Node, path: &str, field: &str, faults: &mut Faults) -> Option<&'n str> {
        let node = node.get(field).filter(|n| !n.is_null())?;
        let text = read::string(node, &format!("{path}.{field}"), faults);
        self.sound &= text.is_some();
        text
    }

    fn address(&mut self, node: &Node, path: &str, faults: &mut Faults) -> Option<String> {
        let path = format!("{path}.address");
        let Some(at) = node.get("address").filter(|n| !n.is_null()) else {
            faults
                .error(Code::MissingAddress, node.span, path, "this endpoint has no `address`")
                .label("an address is needed");
            return None;
        };
        let text = self.text(node, path.trim_end_matches(".address"), "address", faults)?;
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        if text.parse::<Ipv4Addr>().is_ok() {
            return Some(text.to_owned());
        }
        if self.options.allow_any_host && (bare.parse::<Ipv6Addr>().is_ok() || is_host_name(text)) {
            return Some(bare.to_owned());
        }
        let wanted = if self.options.allow_any_host { "an IP address or a host name" } else { "an IPv4 address" };
        faults
            .error(Code::BadAddress, at.span, path, format!("{} is not {wanted}", quote(text)))
            .label(format!("{wanted} is wanted"));
        None
    }

    /// A number is taken as well as text: the Go picker refuses the whole file for `port: 8000`, which everybody writes once.
    fn port(&mut self, node: &Node, path: &str, faults: &mut Faults) -> Option<u16> {
        let path = format!("{path}.port");
        let Some(at) = node.get("port").filter(|n| !n.is_null()) else {
            faults.error(Code::MissingPort, node.span, path, "this endpoint has no `port`").label("a port is needed");
            return None;
        };
        let port = match &at.value {
            Value::Int(i) => u16::try_from(*i).ok(),
            Value::String { text, .. } if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
                text.parse().ok()
            }
            Value::String { .. } => None,
            _ => {
                self.wrong(at, &path, "a port number", faults);
                return None;
            }
        };
        let port = port.filter(|p| *p > 0);
        if port.is_none() {
            faults.error(Code::BadPort, at.span, path, "this is not a port").label("from 1 to 65535");
        }
        port
    }

    fn labels(&mut self, node: &Node, path: &str, faults: &mut Faults) -> BTreeMap<String, String> {
        let path = format!("{path}.labels");
        let Some(labels) = node.get("labels").filter(|n| !n.is_null()) else { return BTreeMap::new() };
        let Some(entries) = labels.entries() else {
            self.wrong(labels, &path, "a mapping", faults);
            return BTreeMap::new();
        };
        let mut out = BTreeMap::new();
        for (key, value) in entries {
            let text =
                if value.is_null() { Some("") } else { read::string(value, &format!("{path}.{}", key.text), faults) };
            self.sound &= text.is_some();
            deprecated_label(key, value, text, &path, faults);
            out.extend(text.map(|t| (key.text.clone(), t.to_owned())));
        }
        out
    }

    fn wrong(&mut self, node: &Node, path: &str, wanted: &str, faults: &mut Faults) {
        self.sound = false;
        read::wrong_type(node, path, wanted, faults);
    }
}

/// Labels of earlier releases; they still count.
fn deprecated_label(key: &Key, value: &Node, text: Option<&str>, path: &str, faults: &mut Faults) {
    if key.text == "inference.networking.k8s.io/engine-type" {
        faults
            .warning(Code::DeprecatedLabel, key.span, path, format!("label `{}` is deprecated", key.text))
            .label("use `llm-d.ai/engine-type`");
    }
    if key.text == "llm-d.ai/role" && text == Some("both") {
        faults
            .warning(Code::DeprecatedLabel, value.span, path, "value `both` of label `llm-d.ai/role` is deprecated")
            .label("use `prefill-decode`");
    }
}

fn ignored(entries: &[(Key, Node)], path: &str, known: &[&str], faults: &mut Faults) {
    for (key, _) in entries {
        if known.contains(&key.text.as_str()) {
            continue;
        }
        let advise = !faults.is_full();
        let fault = faults.warning(
            Code::IgnoredField,
            key.span,
            path,
            format!("field {} is unknown and ignored", quote(&key.text)),
        );
        if advise && let Some(near) = nearest(&key.text, known.iter().copied()) {
            fault.label(did_you_mean(&key.text, near));
        }
    }
}

/// A DNS name: dot-separated parts of letters, digits, `-` and `_` (which container networks use), not all digits at the end, so
/// that a mistyped IPv4 address is not taken for one.
fn is_host_name(text: &str) -> bool {
    let part = |p: &str| {
        (1..=63).contains(&p.len())
            && p.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !p.starts_with('-')
            && !p.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253 && text.split('.').all(part) && !last.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Options = Options { allow_any_host: true };
    const IPV4: Options = Options { allow_any_host: false };

    fn read(text: &str, options: Options) -> (Option<Vec<EndpointEntry>>, Faults) {
        let mut faults = Faults::new();
        (parse(text.as_bytes(), options, &mut faults), faults)
    }

    fn addresses(entries: &[EndpointEntry]) -> Vec<String> {
        entries.iter().map(|e| format!("{}/{}={}:{}", e.namespace, e.name, e.address, e.port)).collect()
    }

    #[test]
    fn name_namespace_labels_and_both_spellings_of_a_port_are_read() {
        let text = "endpoints:\n- {name: a, namespace: ns, address: 10.0.0.1, port: \"8000\", labels: {role: decode}}\n\
                    - {name: b, address: \"10.0.0.2\", port: 8001}\n- {address: 10.0.0.3, port: 1}\n";
        let (entries, faults) = read(text, IPV4);
        assert!(faults.is_empty(), "{faults:?}");
        let entries = entries.unwrap();
        assert_eq!(
            addresses(&entries),
            ["ns/a=10.0.0.1:8000", "default/b=10.0.0.2:8001", "default/10.0.0.3:1=10.0.0.3:1"]
        );
        assert_eq!(entries[0].labels["role"], "decode");
    }

    #[test]
    fn the_last_of_two_equal_ids_wins_in_the_place_of_the_first() {
        let text = "endpoints:\n- {name: a, address: 10.0.0.1, port: 1}\n- {name: b, address: 10.0.0.2, port: 1}\n\
                    - {name: a, address: 10.0.0.3, port: 1}\n";
        let (entries, faults) = read(text, IPV4);
        assert_eq!(addresses(&entries.unwrap()), ["default/a=10.0.0.3:1", "default/b=10.0.0.2:1"]);
        assert_eq!(faults.summary(), "1 warning");
    }

    #[test]
    fn an_entry_with_a_bad_value_is_left_out_and_the_others_stay() {
        for bad in [
            "address: host.example, port: 1",
            "address: \"::1\", port: 1",
            "address: 10.0.0.300, port: 1",
            "address: 10.0.0.9, port: 0",
            "address: 10.0.0.9, port: 65536",
            "address: 10.0.0.9, port: -1",
            "address: 10.0.0.9, port: \"+80\"",
            "address: 10.0.0.9, port: \"http\"",
            "address: 10.0.0.9",
            "port: 1",
        ] {
            let text = format!("endpoints:\n- {{name: a, address: 10.0.0.1, port: 1}}\n- {{name: b, {bad}}}\n");
            let (entries, faults) = read(&text, IPV4);
            assert_eq!(addresses(&entries.unwrap()), ["default/a=10.0.0.1:1"], "{bad}");
            assert_eq!(faults.errors(), 1, "{bad}");
            assert_eq!(faults.sorted()[0].span.line, 3, "{bad}");
        }
    }

    #[test]
    fn a_value_of_the_wrong_type_makes_the_whole_file_unusable() {
        for bad in [
            "labels: {a: yes}",
            "labels: {a: on}",
            "labels: {a: y}",
            "labels: {a: 8}",
            "labels: {a: true}",
            "labels: [a]",
            "name: 5",
            "name: [a]",
            "port: [1]",
            "port: true",
            "port: 80.5",
        ] {
            let base = if bad.starts_with("port") { "" } else { "port: 1, " };
            let text = format!("endpoints:\n- {{address: 10.0.0.1, {base}{bad}}}\n");
            let (entries, faults) = read(&text, IPV4);
            assert_eq!(entries, None, "{bad}");
            assert!(faults.errors() > 0, "{bad}");
        }
        for text in ["- a\n", "endpoints: x\n", "endpoints: [x]\n", "endpoints: [{", "\u{0}"] {
            assert_eq!(read(text, IPV4).0, None, "{text:?}");
        }
    }

    #[test]
    fn an_empty_file_an_empty_list_and_unknown_fields_are_accepted() {
        for text in ["", "# nothing\n", "endpoints: []\n", "endpoints:\n", "endpoint: []\n", "{}"] {
            let (entries, faults) = read(text, IPV4);
            assert_eq!(entries, Some(Vec::new()), "{text:?}");
            assert_eq!(faults.errors(), 0, "{text:?}");
        }
        let (entries, faults) = read("endpoints: [{addres: x, weight: 3, address: 10.0.0.1, port: 1}]", IPV4);
        assert_eq!((entries.unwrap().len(), faults.warnings()), (1, 2));
        assert_eq!(faults.sorted()[0].label, "did you mean `address`?");
    }

    #[test]
    fn any_host_takes_names_and_ipv6_with_or_without_brackets() {
        for (host, want) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("\"::1\"", Some("::1")),
            ("\"[fd00::7]\"", Some("fd00::7")),
            ("vllm-0.svc.cluster.local", Some("vllm-0.svc.cluster.local")),
            ("vllm_0", Some("vllm_0")),
            ("localhost", Some("localhost")),
            ("10.0.0.300", None),
            ("\"1\"", None),
            ("-a", None),
            ("a..b", None),
            ("\"a b\"", None),
            ("\"a:80\"", None),
            ("\"http://a\"", None),
            ("\"\"", None),
        ] {
            let (entries, _) = read(&format!("endpoints: [{{address: {host}, port: 1}}]"), ANY);
            assert_eq!(entries.unwrap().first().map(|e| e.address.as_str()), want, "{host}");
        }
    }

    #[test]
    fn a_file_over_one_mebibyte_changes_nothing() {
        let mut text = "endpoints:\n- {name: a, address: 127.0.0.11, port: 1}\n#".to_owned();
        text.push_str(&"x".repeat(MAX_BYTES - text.len()));
        assert_eq!(read(&text, IPV4).0.map(|e| e.len()), Some(1));
        text.push('x');
        let (entries, faults) = read(&text, IPV4);
        assert_eq!((entries, faults.errors()), (None, 1));
    }
}
