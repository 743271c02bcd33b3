//! Which configuration is meant, and whether it can be used.

use std::sync::Arc;

use pointsman_config::render;
use pointsman_plugins::{Compiled, DefaultProfile, LearnedStates};

use super::demo::DECK_CONFIG;
use super::flags::{DemoName, Serve};
use crate::check::{checked, read};
use crate::failure::{Exit, Failure};
use crate::preset;
use crate::reload::Origin;
use crate::terminal::Paint;

/// A configuration that can be used, and what to call it.
pub(super) struct Configuration {
    pub(super) name: String,
    pub(super) compiled: Compiled,
    /// Where it came from.
    pub(super) origin: Origin,
    /// Warnings, as text.
    pub(super) warnings: String,
}

/// Reads and compiles; nothing has been opened yet, so that a wrong configuration changes nothing anywhere.
pub(super) fn load(options: &Serve, states: Arc<LearnedStates>) -> Result<Configuration, Rejected> {
    let (file, name, bytes) = match (&options.config_file, &options.config_text, options.demo) {
        (Some(path), ..) => {
            let (name, bytes) = read(path).map_err(Failure::from)?;
            (name.clone(), name, bytes)
        }
        (None, Some(text), _) => ("--config-text".to_owned(), "--config-text".to_owned(), text.clone().into_bytes()),
        (None, None, Some(DemoName::Deck)) => ("deck.yaml".to_owned(), "--demo deck".to_owned(), DECK_CONFIG.into()),
        (None, None, None) if options.preset.is_some() => {
            let name = options.preset.as_deref().unwrap_or_default();
            (name.to_owned(), format!("--preset {name}"), preset::document(name))
        }
        (None, None, None) => (String::new(), "built-in default".to_owned(), Vec::new()),
    };
    let (compiled, faults) = checked(&bytes, options.allow_experimental_plugins, DefaultProfile::Serve, states);
    let text = || render(&file, &String::from_utf8_lossy(&bytes), &faults, Paint::stderr().is_on());
    match compiled {
        Some(compiled) => {
            let warnings = if faults.is_empty() { String::new() } else { text() };
            let origin = Origin {
                file: options.config_file.clone(),
                document: bytes,
                allow_experimental: options.allow_experimental_plugins,
                default: DefaultProfile::Serve,
                watch: options.watch_config_file,
            };
            Ok(Configuration { name, compiled, origin, warnings })
        }
        None => Err(Rejected::Faults(text())),
    }
}

/// Why there is no configuration.
pub(super) enum Rejected {
    /// It is wrong; the text says all that is, as `pointsman check` does.
    Faults(String),
    /// It cannot be read.
    Unreadable(Failure),
}

impl From<Failure> for Rejected {
    fn from(failure: Failure) -> Self {
        Self::Unreadable(failure.exit(Exit::Failed))
    }
}
