// The one live store: what the stream tells, kept for as long as a view may want it.
import { batch, computed, signal } from "@preact/signals";
import { get } from "./api/client";
import { follow, type State } from "./api/stream";
import type { Decision, Endpoint, FleetEvent, Outcome } from "./api/types";

const KEPT_DECISIONS = 500;
/** Points of a sparkline; a quarter as many seconds, twice that with few endpoints. */
export const KEPT_POINTS = 120;

export const state = signal<State>("connecting");
/** Newest first. */
export const decisions = signal<Decision[]>([]);
export const endpoints = signal<Endpoint[]>([]);
export const fleetAt = signal(0);
export const configVersion = signal(0);
/** Decisions a second, over the last seconds. */
export const rate = signal<number | null>(null);
/** Decisions a second of these that the server left out. */
export const leftOut = signal(0);
export const decided = signal(0);
/** How often the stream was opened: views fetch anew what they hold when it grows. */
export const openings = signal(0);

export interface History {
  waiting: number[];
  kv: number[];
  inFlight: number[];
}
/** By address. Not a signal: it changes with `endpoints`. */
export const histories = new Map<string, History>();

export const models = computed(() => [...new Set(decisions.value.map((d) => d.model))].sort());

let marks: { at: number; decided: number; omitted: number }[] = [];
let omitted = 0;

function push(list: number[], value: number | null): void {
  list.push(value ?? Number.NaN);
  if (list.length > KEPT_POINTS) list.shift();
}

function fleet(event: FleetEvent): void {
  const seen = new Set<string>();
  for (const e of event.endpoints) {
    seen.add(e.address);
    let history = histories.get(e.address);
    if (!history) histories.set(e.address, (history = { waiting: [], kv: [], inFlight: [] }));
    push(history.waiting, e.waiting);
    push(history.kv, e.kv_cache_usage);
    push(history.inFlight, e.in_flight);
  }
  for (const address of histories.keys()) if (!seen.has(address)) histories.delete(address);
  const last = marks.at(-1);
  if (last && event.decided < last.decided) marks = []; // Another process: it counts anew.
  marks.push({ at: event.at_unix_ms, decided: event.decided, omitted });
  marks = marks.slice(-10);
  const [first, now] = [marks[0]!, marks.at(-1)!];
  const seconds = (now.at - first.at) / 1000;
  batch(() => {
    endpoints.value = event.endpoints;
    fleetAt.value = event.at_unix_ms;
    configVersion.value = event.config_version;
    decided.value = event.decided;
    rate.value = seconds > 0 ? (now.decided - first.decided) / seconds : null;
    leftOut.value = seconds > 0 ? (now.omitted - first.omitted) / seconds : 0;
  });
}

function add(more: Decision[]): void {
  const known = new Set(decisions.value.slice(0, 200).map((d) => d.id));
  const fresh = more.filter((d) => !known.has(d.id)).reverse();
  decisions.value = [...fresh, ...decisions.value].slice(0, KEPT_DECISIONS);
}

function ended(outcomes: { id: string; outcome: Outcome }[]): void {
  const by = new Map(outcomes.map((o) => [o.id, o.outcome]));
  decisions.value = decisions.value.map((d) => {
    const outcome = by.get(d.id);
    return outcome ? { ...d, outcome } : d;
  });
}

/** Begins to follow the server; called once. */
export function start(): void {
  void follow(
    "/api/stream?rate=40",
    (event, data) => {
      if (event === "fleet") fleet(data as FleetEvent);
      else if (event === "decisions") {
        const told = data as { decisions: Decision[]; omitted: number };
        omitted += told.omitted;
        add(told.decisions);
      }
      else if (event === "outcomes") ended((data as { outcomes: { id: string; outcome: Outcome }[] }).outcomes);
    },
    (now) => {
      state.value = now;
      if (now === "live") {
        openings.value += 1;
        void recent();
      }
    },
  );
}

/** What was decided before anybody looked, or while the connection was away. */
async function recent(): Promise<void> {
  try {
    const page = await get<{ decisions: Decision[] }>("/api/decisions?limit=100");
    const by = new Map([...page.decisions, ...decisions.value].map((d) => [d.id, d]));
    // What the page says is newer than what was kept.
    for (const d of page.decisions) by.set(d.id, d);
    decisions.value = [...by.values()].sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, KEPT_DECISIONS);
  } catch {
    // The stream says that the server is away.
  }
}
