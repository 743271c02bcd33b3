//! What holds in an engine at every moment (simulator 2.5).

use pointsman_core::Nanos;
use proptest::prelude::*;

use crate::engine::Engine;
use crate::{EngineConfig, Event, Leg, Profile, Request, Timing, What};

impl Engine {
    /// Each block is as often held as requests hold it, and idle blocks are those that nobody holds.
    fn check(&self) {
        let held =
            self.running.iter().chain(&self.waiting).map(|s| &s.blocks).chain(self.held.iter().map(|h| &h.blocks));
        let mut holds = vec![0; self.pool.total()];
        for &block in held.flatten() {
            holds[block as usize] += 1;
        }
        for (block, &holds) in holds.iter().enumerate() {
            assert_eq!(self.pool.holds_on(block as u32), holds, "block {block}");
        }
        assert_eq!(self.pool.free() + holds.iter().filter(|h| **h > 0).count(), self.pool.total());
        assert_eq!(self.waiting.iter().filter(|s| s.pinned()).count(), self.pinned);
        assert!(self.arriving.iter().all(|(_, s)| s.blocks.is_empty()));
        for sequence in &self.running {
            assert!(sequence.generated < sequence.output && sequence.computed < sequence.tokens());
            assert!(
                sequence.blocks.len() as u64 * u64::from(self.config.block_size)
                    >= sequence.computed + sequence.planned
            );
        }
    }
}

proptest! {
    #[test]
    fn blocks_add_up_tokens_are_what_was_asked_for_and_time_goes_on(
        requests in proptest::collection::vec((0_u64..4, 1_u64..150, 1_u64..60, 0_u64..50_000_000, 0_u8..6, 0_u8..3), 1..25),
        coalesce in any::<bool>(),
    ) {
        let config = EngineConfig {
            blocks: 20, block_size: 16, max_num_seqs: 6, max_num_batched_tokens: 64, coalesce, ..EngineConfig::default()
        };
        let mut engine = Engine::new(config, Timing::Step(Profile::all()[0].costs()));
        let (mut now, mut events, mut wanted) = (Nanos(0), Vec::new(), Vec::new());
        for (id, (family, prompt, output, gap, leg, lora)) in requests.into_iter().enumerate() {
            let id = id as u64;
            now = Nanos(now.0 + gap);
            engine.advance(now, &mut events);
            engine.check();
            let leg = match leg { 0 => Leg::Prefill, 1 => Leg::Decode, _ => Leg::Whole };
            let lora = (lora == 0).then(|| "a".into());
            let blocks = (0..prompt / 16).map(|i| (family << 32) | i).collect();
            engine.submit(now, Request { id, blocks, prompt_tokens: prompt, output_tokens: output, lora, leg, given: 0 }).expect("small enough");
            wanted.push(if leg == Leg::Prefill { 1 } else { output });
            if gap % 3 == 0 {
                engine.receive(id / 2);
                engine.release(id / 3);
            }
            engine.check();
        }
        for _ in 0..wanted.len() * 2 {
            while let Some(at) = engine.next_event() {
                engine.advance(at, &mut events);
                engine.check();
            }
            for id in 0..wanted.len() as u64 {
                engine.receive(id);
            }
        }
        prop_assert_eq!((engine.inside(), engine.pool().free()), (0, 20));
        for (id, wanted) in wanted.into_iter().enumerate() {
            let own: Vec<&Event> = events.iter().filter(|e| e.id == id as u64).collect();
            let tokens: u64 = own.iter().map(|e| if let What::Tokens { count, .. } = e.what { count } else { 0 }).sum();
            prop_assert_eq!(tokens, wanted);
            prop_assert!(own.is_sorted_by_key(|e| e.at), "{own:?}");
            prop_assert_eq!(own.iter().filter(|e| e.what == What::Finished).count(), 1);
        }
    }
}
