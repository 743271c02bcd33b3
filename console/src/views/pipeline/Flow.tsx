// One decision's way: arrival, filter, each scorer, weighted sum, pick, each with what it did.
import type { ComponentChildren } from "preact";
import type { Decision } from "../../api/types";
import { clean, fixed, int, micros, millis, short } from "../../format";
import { added, why } from "./pick";

const STEPS = ["read", "resolve", "gather", "schedule", "send"];

export function Flow({ decision: d }: { decision: Decision }) {
  return (
    <section class="panel" aria-label="The way of this decision" id="flow" data-decision={d.id}>
      <header>
        <h2>
          Decision <span class="mono">{d.id}</span>
        </h2>
        <span class="quiet small">
          decided in {micros(d.steps_us.total)}: {STEPS.map((s) => `${s} ${micros(d.steps_us[s])}`).join(", ")}
          {(d.steps_us.wait ?? 0) > 0 && `; held back for ${micros(d.steps_us.wait)} before`}
        </span>
      </header>
      {d.profiles.map((p) => (
        <p class="why" key={p.name}>
          {d.profiles.length > 1 && <b>{clean(p.name, 20)}: </b>}
          {why(p)}
        </p>
      ))}
      <ol class="flow" tabIndex={0} aria-label="Steps">
        <Step title="Arrival">
          <b>{clean(d.model, 40) || "no model"}</b>
          <span class="small">{int(d.prompt_tokens_estimated)} tokens (estimated)</span>
          <span class="small quiet">by {d.transport}</span>
        </Step>
        {d.profiles.flatMap((p) => {
          const of = d.profiles.length > 1 ? ` (${clean(p.name, 20)})` : "";
          const rated = p.candidates.filter((c) => c.total !== null);
          const dropped = p.candidates.length - rated.length + p.omitted_dropped;
          const pick = p.candidates.find((c) => c.endpoint === p.picked[0]);
          const scores = pick ? Object.entries(pick.scores) : [];
          return [
            <Step key={`${p.name} filter`} title={`Filter${of}`}>
              <b>
                {int(p.candidates.length + p.omitted - dropped)} of {int(p.candidates.length + p.omitted)}
              </b>
              <span class="small">{dropped ? `${int(dropped)} dropped` : "nobody dropped"}</span>
            </Step>,
            ...scores.map(([name, score]) => (
              <Step key={`${p.name} ${name}`} title={`${clean(short(name), 30)} x${score.weight}`}>
                <b>{fixed(score.raw, 2)}</b>
                <span class="small">adds {fixed(added(score), 3)}</span>
              </Step>
            )),
            <Step key={`${p.name} sum`} title={`Weighted sum${of}`}>
              <b>{fixed(pick?.total, 3)}</b>
              <span class="small">{p.ties.length > 1 ? `${p.ties.length} tied` : pick ? "alone at the top" : "nobody was rated"}</span>
            </Step>,
            <Step key={`${p.name} pick`} title={`Pick${of}`} last>
              <b>{clean(p.picked[0] ?? "nobody", 40)}</b>
              <span class="small quiet">{pick ? clean(p.picker, 40) : "none"}</span>
            </Step>,
          ];
        })}
        {d.profiles.length === 0 && (
          <Step title="Refused" last>
            <b>{d.outcome.status ?? "no status"}</b>
            <span class="small">{clean(d.outcome.error ?? "before any candidate was looked at", 120)}</span>
          </Step>
        )}
        <Step title="Outcome">
          <b>{d.outcome.status ?? "running"}</b>
          <span class="small">TTFT {millis(d.outcome.ttft_ms)}</span>
        </Step>
      </ol>
    </section>
  );
}

function Step({ title, last, children }: { title: string; last?: boolean; children: ComponentChildren }) {
  return (
    <li class={last ? "last" : undefined}>
      <span class="small quiet">{title}</span>
      {children}
    </li>
  );
}
