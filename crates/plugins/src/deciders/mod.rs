//! Deciders: whether a stage beside decoding is worth its transfer. Profile handlers ask them, once per request and
//! stage.

pub mod always_disagg_multimodal_decider;
pub mod always_disagg_pd_decider;
pub mod cost;
pub mod prefix_based_pd_decider;
