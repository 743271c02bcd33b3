//! Producers: facts attached to a request before it is scheduled.

pub mod approx_prefix_cache_producer;
pub mod burst_prefix_cache_producer;
pub mod inflight_load_producer;
pub mod mm_embeddings_cache_producer;
pub mod p2p_source_producer;
pub mod session_id_producer;
pub mod token_producer;
