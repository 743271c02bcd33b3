//! How long an answer becomes (simulator 1.4).

use pointsman_sim::Rng;

/// Chances of the six buckets, in percent.
const CHANCES: [u64; 6] = [20, 30, 20, 5, 10, 15];
/// Width of every bucket but the fourth when the limit is large.
const WIDTH: u64 = 20;

/// Draws a length. With a limit: 1 to `limit`, in six buckets. Without: about 40, at most `room`.
pub(crate) fn draw(limit: Option<u64>, room: u64, rng: &mut Rng) -> u64 {
    let room = room.max(1);
    let Some(limit) = limit else {
        return ((40.0 + 20.0 * rng.normal()).round().max(1.0) as u64).min(room);
    };
    let mut ticket = rng.between(0, 99);
    let bucket = CHANCES.iter().position(|chance| match ticket.checked_sub(*chance) {
        Some(rest) => {
            ticket = rest;
            false
        }
        None => true,
    });
    let (low, high) = bounds(bucket.unwrap_or(5) as u64, limit);
    rng.between(low, high.max(low)).clamp(1, limit.max(1))
}

/// First and last length of a bucket.
fn bounds(bucket: u64, limit: u64) -> (u64, u64) {
    if limit <= WIDTH * 6 {
        return (bucket * limit / 6 + 1, (bucket + 1) * limit / 6);
    }
    match bucket {
        0..=2 => (bucket * WIDTH + 1, (bucket + 1) * WIDTH),
        3 => (3 * WIDTH + 1, limit - 2 * WIDTH),
        4 => (limit - 2 * WIDTH + 1, limit - WIDTH),
        _ => (limit - WIDTH + 1, limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_every_length_once() {
        for limit in [6, 7, 100, 120, 121, 500, 4_096] {
            let mut next = 1;
            for bucket in 0..6 {
                let (low, high) = bounds(bucket, limit);
                assert_eq!(low, next, "bucket {bucket} of {limit}");
                next = high + 1;
            }
            assert_eq!(next, limit + 1);
        }
    }

    #[test]
    fn shares_follow_the_table() {
        let mut rng = Rng::new(1);
        let n = 20_000;
        let short = (0..n).filter(|_| draw(Some(1_000), 9_999, &mut rng) <= 40).count();
        let full = (0..n).filter(|_| draw(Some(1_000), 9_999, &mut rng) > 980).count();
        assert!((short as f64 / f64::from(n) - 0.5).abs() < 0.02, "{short}");
        assert!((full as f64 / f64::from(n) - 0.15).abs() < 0.02, "{full}");
    }

    #[test]
    fn no_length_leaves_its_limit() {
        let mut rng = Rng::new(2);
        for limit in 1..=8 {
            assert!((0..200).map(|_| draw(Some(limit), 9, &mut rng)).all(|l| (1..=limit).contains(&l)));
        }
        assert!((0..200).map(|_| draw(None, 30, &mut rng)).all(|l| (1..=30).contains(&l)));
    }
}
