//! The policies that a replay compares.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::ValueEnum;

/// A configuration of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Policy {
    /// What `serve` does without a configuration
    Serve,
    /// The default of the Go endpoint picker: queue 2, KV cache 2, prefix 3
    Go,
    /// A random endpoint
    Random,
}

const GO: &str = "apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
";

const RANDOM: &str = "apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: random-picker
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: random-picker}
";

impl Policy {
    /// How tables and files name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Serve => "serve default",
            Self::Go => "go default",
            Self::Random => "random-picker",
        }
    }

    /// Its configuration written into `folder`; `None` where the gateway's own default is meant.
    pub(crate) fn config(self, folder: &Path) -> Result<Option<PathBuf>> {
        let document = match self {
            Self::Serve => return Ok(None),
            Self::Go => GO,
            Self::Random => RANDOM,
        };
        let path = folder.join(format!("{}.yaml", self.name().replace(' ', "-")));
        std::fs::write(&path, document).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Some(path))
    }
}
