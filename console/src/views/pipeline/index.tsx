// Every decision: how it came about, step by step, and what came of it.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../../api/client";
import type { Decision } from "../../api/types";
import { inField } from "../../app";
import { clean, int } from "../../format";
import { address, go, place, setQuery } from "../../router";
import { decisions, leftOut, models, rate } from "../../store";
import { Candidates } from "./Candidates";
import { Facts } from "./Facts";
import { Flow } from "./Flow";
import { Find } from "./Find";
import { List } from "./List";
import { engines } from "./pick";
import { useFreeze } from "./useFreeze";

const OUTCOMES = ["natural", "client-disconnect", "error", "refused", "shutdown", "running"];
/** For how long the newest decision stands when nobody chose one: none can be read in less. */
const STANDS_MS = 1_000;

export function PipelineView() {
  const query = place.value.query;
  const [model, endpoint, outcome] = [query.get("model") ?? "", query.get("endpoint") ?? "", query.get("outcome") ?? ""];
  const { frozen, all, later, toggle, onward } = useFreeze(decisions.value);
  const [fetched, setFetched] = useState<{ id: string; decision: Decision | null } | null>(null);
  const fits = (d: Decision) =>
    (!model || d.model === model) &&
    (!endpoint || engines(d).includes(endpoint)) &&
    (!outcome || (d.outcome.ended ?? "running") === outcome);
  const shown = all.filter(fits);
  const waiting = later.filter(fits);
  const id = place.value.id;
  const followed = useRef({ id: "", at: 0 });
  const held = id ? all.find((d) => d.id === id) : newest(shown, followed.current);
  const chosen = held ?? (fetched?.id === id ? fetched?.decision : null);
  const gone = id !== null && fetched?.id === id && !fetched.decision;
  const tables = useMemo(
    () => chosen?.profiles.map((profile) => <Candidates key={profile.name} profile={profile} tokens={chosen.prompt_tokens_estimated} />),
    [chosen?.profiles],
  );

  useEffect(() => {
    if (!id || all.some((d) => d.id === id) || fetched?.id === id) return;
    get<Decision>(`/api/decisions/${encodeURIComponent(id)}`).then(
      (decision) => setFetched({ id, decision }),
      () => setFetched({ id, decision: null }),
    );
  }, [id, all]);

  const step = () => {
    const next = waiting.at(-1);
    if (next) {
      onward(next);
      go("pipeline", next.id, Object.fromEntries(query));
    }
  };
  const move = (by: number) => {
    const at = shown.findIndex((d) => d.id === chosen?.id);
    const next = shown[Math.max(0, Math.min(shown.length - 1, at + by))];
    if (next) go("pipeline", next.id, Object.fromEntries(query));
  };
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if (event.altKey || event.ctrlKey || event.metaKey || inField(event.target)) return;
      if (event.key === "f") toggle();
      else if (event.key === "n") step();
      else if (event.key === "j") move(1);
      else if (event.key === "k") move(-1);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  });

  const endpoints = [...new Set(all.flatMap(engines))].sort();
  return (
    <div class="view">
      <div class="head">
        <h1>Pipeline</h1>
        <p>
          {leftOut.value >= 1
            ? `A sample: ${int((rate.value ?? 0) - leftOut.value)} of ${int(rate.value)} decisions a second are shown.`
            : "Every decision as it is made."}
        </p>
      </div>
      <div class="row">
        <button type="button" aria-pressed={frozen} onClick={toggle}>
          {!frozen ? "Freeze" : "Frozen"} <kbd>f</kbd>
        </button>
        <button type="button" disabled={waiting.length === 0} onClick={step}>
          Step <kbd>n</kbd>
          {frozen && ` (${int(waiting.length)} waiting)`}
        </button>
        <Find held={all} />
        <Select label="Model" value={model} all={models.value} pick={(v) => setQuery("model", v)} />
        <Select label="Endpoint" value={endpoint} all={endpoints} pick={(v) => setQuery("endpoint", v)} />
        <Select label="Outcome" value={outcome} all={OUTCOMES} pick={(v) => setQuery("outcome", v)} />
        {id && (
          <a class="small" href={address("pipeline", null, Object.fromEntries(query))}>
            Follow the newest
          </a>
        )}
      </div>
      {chosen && <Flow decision={chosen} />}
      <div class="split wide-right">
        <List decisions={shown} chosen={chosen?.id ?? null} query={Object.fromEntries(query)} />
        {chosen ? (
          <div class="view">
            {tables}
            <Facts decision={chosen} />
          </div>
        ) : (
          <section class="panel">
            <h2>{gone ? `Decision ${clean(id!, 20)}` : all.length ? "No decision fits" : "No decision yet"}</h2>
            <div class="body">
              <p>{gone ? "It is not on record any more: the server keeps the newest ones." : all.length ? `None of the ${int(all.length)} that are held has this model, endpoint and outcome.` : frozen ? "The list was frozen before there was any." : "Send a request through the gateway; it shows up here at once."}</p>
            </div>
          </section>
        )}
      </div>
    </div>
  );
}

/** The newest one, but each for a while. */
function newest(shown: Decision[], followed: { id: string; at: number }): Decision | undefined {
  const before = Date.now() - followed.at < STANDS_MS ? shown.find((d) => d.id === followed.id) : undefined;
  if (!before && shown[0] && shown[0].id !== followed.id) Object.assign(followed, { id: shown[0].id, at: Date.now() });
  return before ?? shown[0];
}

function Select(props: { label: string; value: string; all: string[]; pick: (value: string) => void }) {
  const all = props.value && !props.all.includes(props.value) ? [props.value, ...props.all] : props.all;
  return (
    <label>
      {props.label}
      <select value={props.value} onChange={(e) => props.pick(e.currentTarget.value)}>
        <option value="">all</option>
        {all.map((one) => (
          <option key={one} value={one}>
            {clean(one, 40)}
          </option>
        ))}
      </select>
    </label>
  );
}
