//! `GET /api/prefix`: shared prefixes as a tree, and what each endpoint is believed to hold.

use serde::Serialize;

use crate::view::Prefixes;

#[derive(Serialize)]
pub(crate) struct Shown {
    block_tokens: u32,
    endpoints: Vec<Holding>,
    branches: Vec<Branch>,
    omitted: u32,
    examined: usize,
    complete: bool,
}

#[derive(Serialize)]
struct Holding {
    endpoint: String,
    address: String,
    blocks: u64,
    added: u64,
    gone: u64,
}

#[derive(Serialize)]
struct Branch {
    id: String,
    parent: Option<usize>,
    blocks: u32,
    depth: u32,
    /// Places in `endpoints`.
    holders: Vec<usize>,
    prompts: u32,
    longest: u32,
    idle: u32,
    omitted: u32,
    omitted_blocks: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl Shown {
    pub(crate) fn of(prefixes: &Prefixes) -> Self {
        let place = |slot: &u32| prefixes.holdings.iter().position(|h| h.endpoint.slot.0 == *slot);
        // By slot once, not for every holder of every branch.
        let most = prefixes.tree.branches.iter().flat_map(|b| &b.holders).max().map_or(0, |m| *m as usize + 1);
        let places: Vec<Option<usize>> = (0..most as u32).map(|slot| place(&slot)).collect();
        Self {
            block_tokens: prefixes.block_tokens,
            endpoints: prefixes
                .holdings
                .iter()
                .map(|h| Holding {
                    endpoint: h.endpoint.name().name.to_string(),
                    address: h.endpoint.host_port().to_owned(),
                    blocks: h.blocks,
                    added: h.turnover.added,
                    gone: h.turnover.gone,
                })
                .collect(),
            branches: prefixes
                .tree
                .branches
                .iter()
                .enumerate()
                .map(|(at, b)| Branch {
                    id: format!("{:016x}", b.hash.0),
                    parent: b.parent,
                    blocks: b.blocks,
                    depth: b.depth,
                    holders: b.holders.iter().filter_map(|slot| places[*slot as usize]).collect(),
                    prompts: b.prompts,
                    longest: b.longest,
                    idle: b.idle,
                    omitted: b.omitted,
                    omitted_blocks: b.omitted_blocks,
                    text: prefixes.texts.get(at).cloned().flatten(),
                })
                .collect(),
            omitted: prefixes.tree.omitted,
            examined: prefixes.tree.examined,
            complete: prefixes.tree.complete,
        }
    }
}
