//! Upper bounds of histograms (metrics 1.4), in seconds unless said. Bounds below the published ones are added where a router is faster than they are.

/// Requests, from milliseconds to an hour.
pub(super) const GEN: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];
/// Time to first token.
pub(super) const TTFT: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0, 120.0,
];
/// Time per output token.
pub(super) const TPOT: &[f64] =
    &[0.0005, 0.00205, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 2.0];
/// Gap between chunks.
pub(super) const ITL: &[f64] = &[0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0];
/// Duration per output token.
pub(super) const NTPOT: &[f64] = &[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
/// Work of the router itself.
pub(super) const FAST: &[f64] = &[
    0.000_01, 0.000_025, 0.000_05, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0,
];
/// Request phase.
pub(super) const REQPROC: &[f64] =
    &[0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.025, 0.04, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Response phase.
pub(super) const RESPPROC: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
/// ext-proc streams, from a refusal to ten minutes.
pub(super) const STREAM: &[f64] =
    &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];
/// Shares.
pub(super) const RATIO: &[f64] = &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// Request sizes: powers of two from 64 bytes to 1 GiB.
pub(super) fn request_bytes() -> impl Iterator<Item = f64> {
    (6..=30).map(|e| f64::from(1u32 << e))
}

/// Response sizes in bytes. 32778 is a slip of the published names that dashboards match on.
pub(super) fn response_bytes() -> impl Iterator<Item = f64> {
    [1.0].into_iter().chain((3..=14).map(|e| f64::from(1u32 << e))).chain([32778.0, 65536.0])
}

/// Prompt tokens.
pub(super) fn input_tokens() -> impl Iterator<Item = f64> {
    [1.0]
        .into_iter()
        .chain((3..=14).map(|e| f64::from(1u32 << e)))
        .chain([32778.0])
        .chain((16..=20).map(|e| f64::from(1u32 << e)))
}

/// Output tokens.
pub(super) fn output_tokens() -> impl Iterator<Item = f64> {
    [1.0].into_iter().chain((3..=13).map(|e| f64::from(1u32 << e)))
}

/// Bytes of a prefix hit.
pub(super) fn hit_bytes() -> impl Iterator<Item = f64> {
    [0.0].into_iter().chain((4..=16).map(|e| f64::from(1u32 << e)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_only_grow() {
        let sets: Vec<Vec<f64>> = [GEN, TTFT, TPOT, ITL, NTPOT, FAST, REQPROC, RESPPROC, STREAM, RATIO]
            .map(<[f64]>::to_vec)
            .into_iter()
            .chain([
                request_bytes().collect(),
                response_bytes().collect(),
                input_tokens().collect(),
                output_tokens().collect(),
                hit_bytes().collect(),
            ])
            .collect();
        for set in sets {
            assert!(set.windows(2).all(|w| w[0] < w[1]), "{set:?}");
        }
        assert_eq!(request_bytes().count(), 25);
        assert_eq!(input_tokens().last(), Some(1_048_576.0));
    }
}
