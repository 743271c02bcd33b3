//! Another configuration in the place of the one in force, while requests are under way.
//!
//! The new document is compiled beside the old one and takes its place at once, for requests that begin from then on; those that began go on with
//! the one they began with. What plugins have learned stays where type and name stay. A document with faults changes nothing.

use crate::pool::{Active, Pool};
use parking_lot::Mutex;
use pointsman_config::Faults;
use pointsman_plugins::{Compiled, DefaultProfile, NamedPlugin};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Changes that are kept to be shown.
const MAX_CHANGES: usize = 200;

/// What became of a document.
#[derive(Debug)]
pub enum Reloaded {
    /// It means what is in force already.
    Unchanged,
    /// It is in force.
    Applied {
        /// Its version.
        version: u64,
        /// What it changes, a line each.
        changes: Vec<String>,
    },
    /// It is wrong, as the faults say, or changes what cannot change. The one before stays in force.
    Refused(String),
}

/// The last attempt, as it is shown.
#[derive(Clone, Debug, Serialize)]
pub struct LastReload {
    /// When, milliseconds since the Unix epoch.
    pub at_unix_ms: u64,
    /// `applied`, `unchanged` or `refused`.
    pub result: &'static str,
    /// What changed, a line each.
    pub changes: Vec<String>,
    /// Why it was refused.
    pub error: Option<String>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Result {
    result: &'static str,
}

/// How reloads went.
#[derive(Default)]
pub(crate) struct Reloads {
    last: Mutex<Option<LastReload>>,
    counted: Family<Result, Counter>,
    version: Gauge<u64, AtomicU64>,
    good_at: Gauge<f64, AtomicU64>,
}

impl Reloads {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Configuration documents that were read again, by what became of them";
        registry.register("pointsman_config_reloads", help, self.counted.clone());
        registry.register("pointsman_config_version", "Version of the configuration in force", self.version.clone());
        let help = "When a configuration last took force, seconds since the Unix epoch";
        registry.register("pointsman_config_last_reload_success_timestamp_seconds", help, self.good_at.clone());
    }

    pub(crate) fn in_force(&self, version: u64, unix_ms: u64) {
        self.version.set(version);
        self.good_at.set(unix_ms as f64 / 1e3);
    }
}

impl Pool {
    /// Puts a document in force. `prepare` makes ready what belongs to it outside the router, and may refuse it with a reason.
    ///
    /// `faults` are those of the document, warnings included; when it is [`Reloaded::Refused`], its text says what they do not.
    pub fn reload(
        &self,
        document: &[u8],
        allow_experimental: bool,
        default: DefaultProfile,
        faults: &mut Faults,
        prepare: impl FnOnce(&Compiled, &Compiled) -> std::result::Result<(), String>,
    ) -> Reloaded {
        // One at a time: the next one compares itself with what this one leaves.
        let mut last = self.reloads.last.lock();
        let before = self.active();
        let reloaded = self.try_reload(&before, document, allow_experimental, default, faults, prepare);
        // Compiling may have begun states for plugins that did not come to be, or are no more.
        let now = self.active();
        let shadow = self.shadow.load();
        let shadowed = shadow.iter().flat_map(|shadow| &shadow.compiled.plugins);
        let kept: Vec<&NamedPlugin> = now.compiled.plugins.iter().chain(shadowed).collect();
        self.states.retain(|type_name, name| kept.iter().any(|p| p.type_name == type_name && *p.name == *name));
        let (result, changes, error) = match &reloaded {
            Reloaded::Unchanged => ("unchanged", Vec::new(), None),
            Reloaded::Applied { changes, .. } => ("applied", changes.clone(), None),
            Reloaded::Refused(why) => ("refused", Vec::new(), Some(why.clone())),
        };
        *last = Some(self.reloaded(result, changes, error));
        reloaded
    }

    /// Notes that a document could not be had, and why. The one before stays in force.
    pub fn refuse_reload(&self, why: String) {
        *self.reloads.last.lock() = Some(self.reloaded("refused", Vec::new(), Some(why)));
    }

    /// Counts an attempt, and makes of it what is shown.
    fn reloaded(&self, result: &'static str, changes: Vec<String>, error: Option<String>) -> LastReload {
        self.reloads.counted.get_or_create(&Result { result }).inc();
        LastReload { at_unix_ms: self.clock.unix_millis(), result, changes, error }
    }

    fn try_reload(
        &self,
        before: &Active,
        document: &[u8],
        allow_experimental: bool,
        default: DefaultProfile,
        faults: &mut Faults,
        prepare: impl FnOnce(&Compiled, &Compiled) -> std::result::Result<(), String>,
    ) -> Reloaded {
        let Some(compiled) = self.recompile(document, allow_experimental, default, faults) else {
            return Reloaded::Refused(faults.sorted().iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
        };
        let (old, new) = (&before.compiled.effective, &compiled.effective);
        let secrets_stay = before.compiled.secrets == compiled.secrets;
        if secrets_stay && meaning(old) == meaning(new) {
            return Reloaded::Unchanged;
        }
        let discovery = |effective: &Value| part(effective, &effective["dataLayer"]["discovery"]);
        if discovery(old) != discovery(new) {
            let why = "dataLayer.discovery cannot change while the process runs: restart it, or undo that change";
            return Reloaded::Refused(why.to_owned());
        }
        if let Err(why) = prepare(&before.compiled, &compiled) {
            return Reloaded::Refused(why);
        }
        let changes = changes(old, new, secrets_stay);
        let version = self.activate(compiled);
        Reloaded::Applied { version, changes }
    }

    /// The last attempt to put another configuration in force.
    #[must_use]
    pub fn last_reload(&self) -> Option<LastReload> {
        self.reloads.last.lock().clone()
    }
}

/// A document without the marks of what was written and what is a default.
fn meaning(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let compared = fields.iter().filter(|(name, _)| !NOT_COMPARED.contains(&name.as_str()));
            Value::Object(compared.map(|(name, value)| (name.clone(), meaning(value))).collect())
        }
        Value::Array(items) => items.iter().map(meaning).collect(),
        _ => value.clone(),
    }
}

/// What a reference of the effective document stands for: the plugin it names, as it is declared.
fn part(effective: &Value, reference: &Value) -> Value {
    let Some(name) = reference["pluginRef"].as_str() else { return Value::Null };
    let plugins = effective["plugins"].as_array();
    plugins.and_then(|all| all.iter().find(|p| p["name"] == name)).map_or(Value::Null, meaning)
}

/// Whether the data layers of two effective documents differ: sources, extractors, and what these are set to.
#[must_use]
pub fn data_layers_differ(old: &Value, new: &Value) -> bool {
    let whole = |effective: &Value| {
        let sources = effective["dataLayer"]["sources"].as_array().cloned().unwrap_or_default();
        let parts = |s: &Value| {
            let extractors = s["extractors"].as_array().cloned().unwrap_or_default();
            std::iter::once(part(effective, s)).chain(extractors.iter().map(|e| part(effective, e))).collect::<Vec<_>>()
        };
        sources.iter().map(parts).collect::<Vec<_>>()
    };
    whole(old) != whole(new)
}

/// How two effective documents differ, a line each: `path: old -> new`. Lists of named things are compared by name, not by place.
#[must_use]
fn changes(old: &Value, new: &Value, secrets_stay: bool) -> Vec<String> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    flatten(old, String::new(), &mut before);
    flatten(new, String::new(), &mut after);
    let mut lines = Vec::new();
    for (path, value) in &before {
        match after.get(path) {
            Some(now) if now == value => {}
            Some(now) => lines.push(format!("{path}: {value} -> {now}")),
            None => lines.push(format!("{path}: {value} is gone")),
        }
    }
    lines.extend(
        after.iter().filter(|(path, _)| !before.contains_key(*path)).map(|(path, now)| format!("{path}: {now} is new")),
    );
    lines.sort_unstable();
    if !secrets_stay {
        lines.push("a secret is another one".to_owned());
    }
    if lines.is_empty() {
        lines.push("the order of plugins".to_owned());
    }
    if lines.len() > MAX_CHANGES {
        let more = lines.len() - MAX_CHANGES;
        lines.truncate(MAX_CHANGES);
        lines.push(format!("and {more} more"));
    }
    lines
}

/// Which values were written and which are defaults makes no difference.
const NOT_COMPARED: &[&str] = &["defaulted", "injected", "builtIn"];

fn flatten(value: &Value, path: String, out: &mut BTreeMap<String, String>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| !NOT_COMPARED.contains(&name.as_str())) {
                flatten(value, below(name), out);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                let name = item["name"].as_str().or_else(|| item["pluginRef"].as_str());
                flatten(item, below(name.unwrap_or(&i.to_string())), out);
            }
        }
        _ => {
            let text = value.to_string();
            out.insert(
                path,
                if text.len() > 200 { format!("{}...", text.chars().take(200).collect::<String>()) } else { text },
            );
        }
    }
}

impl Pool {
    pub(crate) fn begin_version(&self, active: &Arc<Active>) {
        active.compiled.activations.iter().for_each(|act| act());
        self.reloads.in_force(active.version, self.clock.unix_millis());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_name_what_changed_and_not_what_moved() {
        let scorer = |weight: f64| json!({"pluginRef": "queue-scorer", "weight": weight, "injected": false});
        let document = |members: Vec<Value>| json!({"schedulingProfiles": [{"name": "default", "plugins": members}]});
        let picker = json!({"pluginRef": "p", "injected": true});
        assert_eq!(
            changes(&document(vec![scorer(2.0), picker.clone()]), &document(vec![picker.clone(), scorer(3.0)]), true),
            ["schedulingProfiles.default.plugins.queue-scorer.weight: 2.0 -> 3.0"]
        );
        assert_eq!(
            changes(&document(vec![scorer(2.0)]), &document(vec![scorer(2.0), picker.clone()]), true),
            ["schedulingProfiles.default.plugins.p.pluginRef: \"p\" is new"]
        );
        assert_eq!(
            changes(&document(vec![scorer(2.0), picker.clone()]), &document(vec![picker, scorer(2.0)]), false),
            ["a secret is another one"]
        );
        let order = vec![json!({"pluginRef": "a"}), json!({"pluginRef": "b"})];
        let other = order.iter().rev().cloned().collect();
        assert_eq!(changes(&document(order), &document(other), true), ["the order of plugins"]);
    }

    #[test]
    fn the_data_layer_differs_when_a_plugin_of_it_is_set_otherwise() {
        let document = |path: &str| {
            json!({
                "plugins": [{"name": "m", "parameters": {"path": path}}, {"name": "q", "parameters": {"path": path}}],
                "dataLayer": {"sources": [{"pluginRef": "m", "extractors": []}]},
            })
        };
        assert!(data_layers_differ(&document("/metrics"), &document("/other")));
        assert!(!data_layers_differ(&document("/metrics"), &document("/metrics")));
    }
}
