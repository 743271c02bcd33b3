// How much of a prompt a match covers: the tiers of a cache hit.
import type { Branch } from "../../api/types";

export type Tier = "full" | "part" | "miss";

export const WORDS: Record<Tier, string> = { full: "above 70 %", part: "20 to 70 %", miss: "below 20 %" };

export function tier(branch: Branch): Tier {
  const share = branch.depth / branch.longest;
  return share > 0.7 ? "full" : share >= 0.2 ? "part" : "miss";
}
