// What each preset would have done with the last requests, in words.
import { useEffect, useState } from "preact/hooks";
import { post } from "../../api/client";
import type { Preset, Rescored } from "../../api/types";
import { int } from "../../format";

/** Requests that are looked at. */
export const LIMIT = 100;
const EVERY_MS = 5_000;

export const inWords = (r: Rescored) => `${int(r.different)} of the last ${int(r.decisions)} requests would have gone elsewhere.`;

/** By preset; `base` are the weights of scorers that a preset does not speak of. */
export function useElsewhere(presets: Preset[], base: Record<string, number>): Record<string, string> {
  const [told, tell] = useState<Record<string, string>>({});
  const asked = JSON.stringify(base);
  useEffect(() => {
    if (!presets.length || asked === "{}") return;
    let gone = false;
    const ask = async () => {
      if (document.hidden) return;
      const found: Record<string, string> = {};
      for (const p of presets) {
        const answer = await post<Rescored>("/api/rescore", { weights: { ...base, ...p.weights }, limit: LIMIT }).catch(() => null);
        if (answer) found[p.name] = inWords(answer);
      }
      if (!gone) tell(found);
    };
    void ask();
    const often = setInterval(ask, EVERY_MS);
    return () => {
      gone = true;
      clearInterval(often);
    };
  }, [presets, asked]);
  return told;
}
