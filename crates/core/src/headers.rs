//! Header names (request-lifecycle 1.1), lower case.

/// Destination chosen; also the dynamic-metadata key.
pub const DESTINATION: &str = "x-gateway-destination-endpoint";
/// Endpoint that served, as a proxy reports it.
pub const SERVED: &str = "x-gateway-destination-endpoint-served";
/// Objective name.
pub const OBJECTIVE: &str = "x-llm-d-inference-objective";
/// Old spelling of [`OBJECTIVE`].
pub const OBJECTIVE_OLD: &str = "x-gateway-inference-objective";
/// Fairness id.
pub const FAIRNESS_ID: &str = "x-llm-d-inference-fairness-id";
/// Old spelling of [`FAIRNESS_ID`].
pub const FAIRNESS_ID_OLD: &str = "x-gateway-inference-fairness-id";
/// Model to use instead of the body's.
pub const MODEL_REWRITE: &str = "x-llm-d-model-name-rewrite";
/// Old spelling of [`MODEL_REWRITE`].
pub const MODEL_REWRITE_OLD: &str = "x-gateway-model-name-rewrite";
/// Why a request was dropped (response).
pub const DROP_REASON: &str = "x-llm-d-request-dropped-reason";
/// Request id.
pub const REQUEST_ID: &str = "x-request-id";
/// Endpoint that answered (response of the built-in gateway).
pub const POINTSMAN_ENDPOINT: &str = "x-pointsman-endpoint";
/// Id of the decision record (response of the built-in gateway).
pub const POINTSMAN_DECISION: &str = "x-pointsman-decision";
/// Engine that computes the prompt for the one a request goes to: `host:port`.
pub const PREFILLER: &str = "x-prefiller-host-port";
/// Engines that encode images, videos and sounds: `host:port`, separated by commas.
pub const ENCODERS: &str = "x-encoder-hosts-ports";
/// Rank of a data-parallel engine: `host:port`.
pub const DATA_PARALLEL: &str = "x-data-parallel-host-port";
/// Number of the rank that a data-parallel engine is to use, as sidecars tell it.
pub const DATA_PARALLEL_RANK: &str = "x-data-parallel-rank";
/// Engine to take cached KV blocks from: `host:port`.
pub const KV_SOURCE: &str = "x-kv-cache-source-host-port";
/// Objective of the time to first token in milliseconds.
pub const SLO_TTFT: &str = "x-llm-d-slo-ttft-ms";
/// Old spelling of [`SLO_TTFT`].
pub const SLO_TTFT_OLD: &str = "x-slo-ttft-ms";
/// Objective of the time per output token in milliseconds.
pub const SLO_TPOT: &str = "x-llm-d-slo-tpot-ms";
/// Old spelling of [`SLO_TPOT`].
pub const SLO_TPOT_OLD: &str = "x-slo-tpot-ms";
/// Fairness id of a request that names none.
pub const DEFAULT_FAIRNESS_ID: &str = "default-flow";

/// Headers that steer routing. A client's copies never reach an engine and, where they are outputs, never a decision.
pub const CONTROL: &[&str] = &[
    DESTINATION,
    SERVED,
    "x-gateway-destination-endpoint-subset",
    "x-gateway-destination-endpoint-scores",
    OBJECTIVE,
    OBJECTIVE_OLD,
    FAIRNESS_ID,
    FAIRNESS_ID_OLD,
    MODEL_REWRITE,
    MODEL_REWRITE_OLD,
    DROP_REASON,
    SLO_TTFT,
    SLO_TTFT_OLD,
    SLO_TPOT,
    SLO_TPOT_OLD,
    "x-llm-d-video-fps",
    "x-llm-d-video-duration-seconds",
    "x-llm-d-video-resolution",
    PREFILLER,
    ENCODERS,
    DATA_PARALLEL,
    DATA_PARALLEL_RANK,
    KV_SOURCE,
    POINTSMAN_ENDPOINT,
    POINTSMAN_DECISION,
];

/// Control headers that a client may send as a wish. All other names of [`CONTROL`] are told to clients and engines by the router alone.
pub const WISHES: &[&str] = &[
    OBJECTIVE,
    OBJECTIVE_OLD,
    FAIRNESS_ID,
    FAIRNESS_ID_OLD,
    MODEL_REWRITE,
    MODEL_REWRITE_OLD,
    SLO_TTFT,
    SLO_TTFT_OLD,
    SLO_TPOT,
    SLO_TPOT_OLD,
    "x-llm-d-video-fps",
    "x-llm-d-video-duration-seconds",
    "x-llm-d-video-resolution",
];

/// Whether a header steers routing, and is therefore not for engines.
#[must_use]
pub fn is_control(name: &str) -> bool {
    // Nearly every header fails on its first two bytes.
    name.starts_with("x-") && CONTROL.contains(&name)
}

/// Whether a request header claims what only the router can know.
#[must_use]
pub fn is_forged(name: &str) -> bool {
    is_control(name) && !WISHES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_reach_the_decision_and_claims_do_not() {
        for wish in WISHES {
            assert!(CONTROL.contains(wish), "{wish}");
            assert!(!is_forged(wish), "{wish}");
        }
        for claim in [DESTINATION, SERVED, DROP_REASON, PREFILLER, POINTSMAN_DECISION] {
            assert!(is_forged(claim), "{claim}");
        }
        assert!(!is_forged("x-request-id") && !is_forged("content-type"));
    }
}
