//! Parsers: which paths are read, and as what (plugin specification 11, request-lifecycle 2.1 and 2.3).
//!
//! The longest claimed suffix of whole segments wins, whatever the order of parsers. A parser without claims takes what is left and ends the
//! list.

pub mod anthropic_parser;
pub mod openai_parser;
pub mod passthrough_parser;
pub mod sglanghttp_parser;
pub mod vertexai_parser;
pub mod vllmgrpc_parser;
pub mod vllmhttp_parser;

use pointsman_wire::body::Api;
use std::sync::Arc;

/// Paths a parser type claims, each with the way bodies on it are read. No claims: everything that nobody else claims.
#[derive(Debug)]
pub struct Claims {
    /// Configuration type.
    pub type_name: &'static str,
    /// Path suffixes.
    pub paths: &'static [(&'static str, Api)],
    /// Whether a request names its model in a place where it can be rewritten: one without a model is then refused.
    pub needs_model: bool,
    /// Whether a path must be one of `paths` and nothing more. A longer one is claimed all the same, and refused.
    pub whole_paths: bool,
}

impl Claims {
    /// Claims on suffixes, by a parser whose requests need a model.
    const fn new(type_name: &'static str, paths: &'static [(&'static str, Api)]) -> Self {
        Self { type_name, paths, needs_model: true, whole_paths: false }
    }
}

/// How one path is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// As what.
    pub api: Api,
    /// Whether a missing model is an error, and another model can be put in its place.
    pub needs_model: bool,
    /// Whether requests on this path are served at all by the parser that claims it.
    pub supported: bool,
    /// The parser that claimed it.
    pub parser: &'static str,
}

/// The parsers of a configuration.
#[derive(Clone, Debug, Default)]
pub struct ParserTable {
    parsers: Vec<(Arc<str>, &'static Claims)>,
}

impl ParserTable {
    /// A table of parsers in the order listed. Returns what was skipped: second instances of a type, and whatever follows a fallback.
    #[must_use]
    pub fn new(listed: Vec<(Arc<str>, &'static Claims)>) -> (Self, Vec<Arc<str>>) {
        let mut parsers: Vec<(Arc<str>, &'static Claims)> = Vec::new();
        let mut skipped = Vec::new();
        for (name, claims) in listed {
            let closed = parsers.last().is_some_and(|(_, c)| c.paths.is_empty());
            if closed || parsers.iter().any(|(_, c)| c.type_name == claims.type_name) {
                skipped.push(name);
            } else {
                parsers.push((name, claims));
            }
        }
        (Self { parsers }, skipped)
    }

    /// How `path` (without query) is read; `None` when nobody claims it and there is no fallback.
    #[must_use]
    pub fn reading(&self, path: &str) -> Option<Reading> {
        let path = path.trim();
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut best: Option<(usize, Reading)> = None;
        for (_, claims) in &self.parsers {
            let reading =
                |api, supported| Reading { api, needs_model: claims.needs_model, supported, parser: claims.type_name };
            if claims.paths.is_empty() {
                best = best.or(Some((0, reading(Api::Raw, true))));
            }
            for (suffix, api) in claims.paths {
                if ends_in_segments(path, suffix, api.is_grpc()) && best.is_none_or(|(length, _)| suffix.len() > length)
                {
                    let whole = path.strip_prefix('/').unwrap_or(path) == *suffix;
                    best = Some((suffix.len(), reading(*api, whole || !claims.whole_paths)));
                }
            }
        }
        best.map(|(_, reading)| reading)
    }
}

/// Whether `path` ends in `suffix` where a segment begins, or in a method of gRPC whose service lies in a package.
fn ends_in_segments(path: &str, suffix: &str, grpc: bool) -> bool {
    path.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('/') || grpc && rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As what a parser that is alone reads a path.
    pub(super) fn read_as(claims: &'static Claims, path: &str) -> Option<Api> {
        table(&[claims]).reading(path).map(|r| r.api)
    }

    fn table(parsers: &[&'static Claims]) -> ParserTable {
        ParserTable::new(parsers.iter().map(|c| (c.type_name.into(), *c)).collect()).0
    }

    fn defaults() -> ParserTable {
        table(&[
            &openai_parser::CLAIMS,
            &anthropic_parser::CLAIMS,
            &vllmhttp_parser::CLAIMS,
            &passthrough_parser::CLAIMS,
        ])
    }

    #[test]
    fn the_longest_claimed_suffix_wins() {
        for (path, api) in [
            ("/v1/chat/completions", Api::Chat),
            ("/v1/completions", Api::Completions),
            ("/v1/completions/", Api::Completions),
            ("/prefix/v1/chat/completions/render", Api::Chat),
            ("/v1/messages", Api::Messages),
            ("/v1/messages/count_tokens", Api::CountTokens),
            ("/v1/responses", Api::Responses),
            ("/inference/v1/generate", Api::Generate),
            ("/v1/rerank", Api::Raw),
            ("/", Api::Raw),
        ] {
            assert_eq!(defaults().reading(path).map(|r| r.api), Some(api), "{path}");
        }
    }

    #[test]
    fn a_suffix_begins_at_a_segment() {
        assert_eq!(defaults().reading("/v1/mycompletions").map(|r| r.api), Some(Api::Raw));
    }

    #[test]
    fn a_parser_that_wants_whole_paths_claims_longer_ones_only_to_refuse_them() {
        let table = table(&[&sglanghttp_parser::CLAIMS, &passthrough_parser::CLAIMS]);
        for (path, supported) in [("/generate", true), ("/generate/", true), ("generate", true), ("/x/generate", false)]
        {
            let reading = table.reading(path).expect("it is claimed");
            assert_eq!((reading.api, reading.supported), (Api::SglangGenerate, supported), "{path}");
        }
        assert_eq!(table.reading("/regenerate").map(|r| (r.api, r.supported)), Some((Api::Raw, true)));
    }

    #[test]
    fn a_grpc_service_may_lie_in_a_package() {
        let table = table(&[&vertexai_parser::CLAIMS, &vllmgrpc_parser::CLAIMS]);
        for (path, api) in [
            ("/google.cloud.aiplatform.v1.PredictionService/ChatCompletions", Some(Api::VertexChat)),
            ("/google.cloud.aiplatform.v1.PredictionService/RawPredict", Some(Api::VertexResponses)),
            ("/google.cloud.aiplatform.v1.PredictionService/StreamRawPredict", Some(Api::VertexResponses)),
            ("/PredictionService/RawPredict", Some(Api::VertexResponses)),
            ("/google.cloud.aiplatform.v1.NoPredictionService/RawPredict", None),
            ("/vllm.grpc.engine.VllmEngine/Generate", Some(Api::VllmGrpcGenerate)),
            ("/vllm.grpc.engine.VllmEngine/Embed", Some(Api::VllmGrpcEmbed)),
            ("/vllm.grpc.engine.VllmEngine/HealthCheck", None),
        ] {
            assert_eq!(table.reading(path).map(|r| r.api), api, "{path}");
        }
        assert_eq!(defaults().reading("/v1/my.completions").map(|r| r.api), Some(Api::Raw));
    }

    #[test]
    fn a_longer_claim_wins_over_a_whole_path() {
        let table = table(&[&sglanghttp_parser::CLAIMS, &vllmhttp_parser::CLAIMS]);
        assert_eq!(table.reading("/inference/v1/generate").map(|r| r.api), Some(Api::Generate));
    }

    #[test]
    fn the_documentation_lists_every_parser_with_its_paths() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let page = std::fs::read_to_string(page).expect("the page is there");
        let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        let section = page.lines().skip_while(|line| *line != "## Which requests are read?").skip(1);
        let section = section.take_while(|line| !line.starts_with("## "));
        let rows = section.filter(|line| line.starts_with("| `")).map(|row| {
            let cells: Vec<&str> = row.split(" | ").collect();
            (names(cells[0]), names(cells[1]))
        });
        let claims = [
            &openai_parser::CLAIMS,
            &anthropic_parser::CLAIMS,
            &vllmhttp_parser::CLAIMS,
            &passthrough_parser::CLAIMS,
            &sglanghttp_parser::CLAIMS,
            &vllmgrpc_parser::CLAIMS,
            &vertexai_parser::CLAIMS,
        ];
        let paths = |c: &Claims| c.paths.iter().map(|(path, _)| (*path).to_owned()).collect::<Vec<_>>();
        let want: Vec<_> = claims.iter().map(|c| (vec![c.type_name.to_owned()], paths(c))).collect();
        assert_eq!(rows.collect::<Vec<_>>(), want);
    }

    #[test]
    fn without_a_fallback_an_unclaimed_path_has_no_reading() {
        assert_eq!(table(&[&openai_parser::CLAIMS]).reading("/v1/rerank"), None);
    }

    #[test]
    fn whatever_follows_a_fallback_and_second_instances_are_skipped() {
        let listed = vec![
            ("a".into(), &openai_parser::CLAIMS),
            ("b".into(), &openai_parser::CLAIMS),
            ("p".into(), &passthrough_parser::CLAIMS),
            ("c".into(), &anthropic_parser::CLAIMS),
        ];
        let (table, skipped) = ParserTable::new(listed);
        assert_eq!(skipped, ["b".into(), "c".into()]);
        assert_eq!(table.reading("/v1/messages").map(|r| r.api), Some(Api::Raw));
    }
}
