// Who was picked, and by how much.
import type { Candidate, Decision, Profile } from "../../api/types";
import { clean, fixed, short } from "../../format";

const picked = (p: Profile) => p.candidates.find((c) => c.endpoint === p.picked[0]);

/** What a scorer adds to the sum. */
export const added = (score: { raw: number; weight: number } | undefined) => (score ? Math.max(0, Math.min(1, score.raw)) * score.weight : 0);

const targets = new WeakMap<Decision, string | null>();

/** Where a decision went: of several profiles, the pick of the one whose pick served. */
export function target(d: Decision): string | null {
  let found = targets.get(d);
  if (found === undefined) {
    const choosing = d.profiles.filter((p) => p.picked.length);
    found = (choosing.find((p) => picked(p)?.address === d.outcome.endpoint) ?? choosing[0])?.picked[0] ?? null;
    targets.set(d, found);
  }
  return found;
}

/** Whoever a profile picked, each once: a decision can take several, as of prefill and decode. */
export const engines = (d: Decision): string[] => [...new Set(d.profiles.flatMap((p) => p.picked.slice(0, 1)))];

/** By how much each scorer puts one candidate before another, the largest first. */
export function leads(one: Candidate, other: Candidate): [string, number][] {
  return Object.keys(one.scores)
    .map((name): [string, number] => [name, added(one.scores[name]) - added(other.scores[name])])
    .filter(([, by]) => Math.abs(by) >= 0.0005)
    .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
}

/** Why a profile picked as it did, in a sentence. */
export function why(p: Profile): string {
  const pick = picked(p);
  const out = p.candidates.filter((c) => c.total === null);
  const reasons = [...new Set(out.map((c) => `${c.dropped_by}: ${c.reason}`))].slice(0, 3).map((r) => clean(r, 90)).join("; ");
  if (!pick) return out.length ? `Nobody was left: ${reasons}.` : "Nobody was picked.";
  const name = clean(pick.endpoint, 40);
  const others = p.candidates.filter((c) => c !== pick && c.total !== null).sort((a, b) => b.total! - a.total!);
  const next = others[0];
  if (!next) return out.length ? `${name} was the only one left; ${out.length + p.omitted_dropped} dropped (${reasons}).` : `${name} is the only endpoint.`;
  const against = `${fixed(pick.total, 3)} against ${fixed(next.total, 3)} of ${clean(next.endpoint, 40)}`;
  if (p.ties.length > 1 && p.ties.includes(pick.endpoint)) return `${name} shared the highest sum, ${fixed(pick.total, 3)}, with ${p.ties.length - 1} more, and ${clean(p.picker, 40)} chose among them.`;
  if (next.total! > pick.total!) return `${clean(p.picker, 40)} chose ${name}, though it was not highest: ${against}.`;
  const parts = leads(pick, next).map(([scorer, by]) => `${clean(short(scorer), 30)} ${by < 0 ? "-" : "+"}${fixed(Math.abs(by), 3)}`);
  return `${name} had the highest sum, ${against}: ${parts.slice(0, 4).join(", ")}.`;
}
