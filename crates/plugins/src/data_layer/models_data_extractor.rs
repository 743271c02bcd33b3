//! `models-data-extractor`: which models an engine lists (upstream's attribute `/v1/models`).
//!
//! The list becomes the endpoint's: a request for a model that is not on it does not go there. Where a configuration has this pair of source and
//! extractor, engines are asked for their models at its path and pace, and not beside it. Source: plugin specification 12, request-lifecycle 8.3.

use super::extractor::{Extracted, Extractor};
use super::source::Page;
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_fleet::EndpointMeta;
use serde_json::Value;
use std::sync::Arc;

/// Most models taken from one engine, and most bytes of one name.
const MOST: usize = 10_000;
const LONGEST: usize = 1_024;

/// The ids of a list of models, in its order; `None` when it is none.
#[must_use]
pub fn models(page: &[u8]) -> Option<Vec<Arc<str>>> {
    let answer: Value = serde_json::from_slice(page).ok()?;
    let listed = answer.get("data")?.as_array()?.iter();
    let ids = listed.filter_map(|model| model.get("id")?.as_str()).filter(|id| !id.is_empty() && id.len() <= LONGEST);
    Some(ids.take(MOST).map(Arc::from).collect())
}

/// Reads lists of models.
#[derive(Debug)]
struct ModelsDataExtractor;

impl Extractor for ModelsDataExtractor {
    fn type_name(&self) -> &'static str {
        "models-data-extractor"
    }

    fn reads(&self) -> Page {
        Page::Models
    }

    fn extract(&self, _: &EndpointMeta, page: &[u8]) -> Extracted {
        let models = models(page);
        Extracted { errors: u32::from(models.is_none()), models, ..Extracted::default() }
    }
}

/// Its row.
pub const ROW: Row = Row {
    build: Some(build),
    ..Row::new("models-data-extractor", &[Kind::Extractor], Stability::Beta, "Reads which models an engine lists.")
};

fn build(_: &mut Build<'_>) -> Instance {
    Instance { extractor: Some(Arc::new(ModelsDataExtractor)), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_taken_in_order_and_anything_else_is_no_list() {
        let ids =
            |body: &str| models(body.as_bytes()).map(|ids| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>());
        let two = r#"{"object":"list","data":[{"id":"base","object":"model"},{"id":"lora","parent":"base"}]}"#;
        assert_eq!(ids(two), Some(vec!["base".to_owned(), "lora".to_owned()]));
        assert_eq!(ids(r#"{"data":[{"id":5},{"no":"id"},{"id":""},{"id":"m"}]}"#), Some(vec!["m".to_owned()]));
        assert_eq!(ids(r#"{"data":[]}"#), Some(vec![]));
        for none in ["", "[]", "{}", r#"{"data":{}}"#, "not json"] {
            assert_eq!(ids(none), None, "{none}");
        }
    }
}
