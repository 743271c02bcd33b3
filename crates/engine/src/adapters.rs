//! LoRA adapters the server knows. Which of them sit in a slot is the engine model's business.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::Value;

use crate::error::ApiError;
use crate::options::{OptionsError, invalid};

/// Adapters one engine can know; more are refused.
const MAX_ADAPTERS: usize = 4_096;

/// One adapter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Adapter {
    pub(crate) name: Arc<str>,
    pub(crate) path: String,
}

/// Adapters by name, in order of loading.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adapters {
    list: Vec<Adapter>,
    /// True once there has been an adapter: from then on the metrics page has the LoRA family.
    pub(crate) used: bool,
}

impl Adapters {
    /// From `--lora-modules`.
    pub(crate) fn from_flags(flags: &[String]) -> Result<Self, OptionsError> {
        let mut adapters = Self::default();
        for text in flags {
            let (name, path) = if text.trim_start().starts_with('{') {
                let value: Value = serde_json::from_str(text)
                    .map_err(|e| invalid("lora-modules", format!("`{text}` is not JSON: {e}")))?;
                (field(&value, "name").map(str::to_owned), field(&value, "path").unwrap_or_default().to_owned())
            } else {
                match text.split_once('=') {
                    Some((name, path)) => (Some(name.to_owned()), path.to_owned()),
                    None => (None, String::new()),
                }
            };
            let name = name.filter(|n| !n.is_empty()).ok_or_else(|| {
                invalid("lora-modules", format!("`{text}` has no name; use {{\"name\":..,\"path\":..}} or name=path"))
            })?;
            adapters.load(&name, path).map_err(|e| invalid("lora-modules", e.message))?;
        }
        Ok(adapters)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Adapter> {
        self.list.iter().find(|a| &*a.name == name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Adapter> {
        self.list.iter()
    }

    /// Adds an adapter; the text is vLLM's.
    pub(crate) fn load(&mut self, name: &str, path: String) -> Result<String, ApiError> {
        if self.find(name).is_some() {
            let message = format!(
                "The lora adapter '{name}' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True."
            );
            return Err(ApiError { kind: "InvalidUserInput", ..ApiError::new(StatusCode::BAD_REQUEST, message) });
        }
        if self.list.len() >= MAX_ADAPTERS {
            return Err(ApiError::new(StatusCode::BAD_REQUEST, format!("{MAX_ADAPTERS} adapters are loaded already.")));
        }
        self.list.push(Adapter { name: name.into(), path });
        self.used = true;
        Ok(format!("Success: LoRA adapter '{name}' added successfully."))
    }

    /// Removes an adapter.
    pub(crate) fn unload(&mut self, name: &str) -> Result<String, ApiError> {
        let Some(at) = self.list.iter().position(|a| &*a.name == name) else {
            return Err(ApiError::new(StatusCode::NOT_FOUND, format!("The lora adapter '{name}' cannot be found.")));
        };
        self.list.remove(at);
        Ok(format!("Success: LoRA adapter '{name}' removed successfully."))
    }
}

fn field<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_come_as_json_or_as_name_and_path() {
        let flags = [r#"{"name":"a","path":"p/a","base_model_name":"m"}"#.to_owned(), "b=p/b".to_owned()];
        let adapters = Adapters::from_flags(&flags).expect("both forms");
        assert_eq!(adapters.iter().map(|a| (&*a.name, &*a.path)).collect::<Vec<_>>(), [("a", "p/a"), ("b", "p/b")]);
        for bad in ["b", "{\"path\":\"x\"}", "=x"] {
            assert!(Adapters::from_flags(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
