// A list of decisions that can be made to stand still: what it held stays, and what comes waits apart.
import { useRef, useState } from "preact/hooks";
import type { Decision } from "../../api/types";

/** Decisions that are held, and that wait, at most; the oldest go. */
const MOST = 500;

export function useFreeze(live: Decision[]) {
  const [held, hold] = useState<Decision[] | null>(null);
  const waiting = useRef<Decision[]>([]);
  const newest = waiting.current[0]?.id ?? held?.[0]?.id ?? "";
  const fresh = held ? live.filter((d) => d.id > newest) : [];
  if (fresh.length) waiting.current = [...fresh, ...waiting.current].slice(0, MOST);
  // What is held goes on to its end.
  const now = new Map(held ? live.map((d) => [d.id, d]) : []);
  const current = (list: Decision[]) => list.map((d) => now.get(d.id) ?? d);
  return {
    frozen: held !== null,
    all: held ? current(held) : live,
    later: held ? current(waiting.current) : [],
    toggle: () => {
      waiting.current = [];
      hold(held ? null : live);
    },
    /** Moves on to one that waits, and past those before it. */
    onward: (to: Decision) => {
      hold([...waiting.current.filter((d) => d.id <= to.id), ...(held ?? [])].slice(0, MOST));
      waiting.current = waiting.current.filter((d) => d.id > to.id);
    },
  };
}

