// The newest decisions, one line each.
import type { JSX } from "preact";
import type { Decision } from "../../api/types";
import { clean, clock, int, millis } from "../../format";
import { Th } from "../../parts/Th";
import { address } from "../../router";
import { rate } from "../../store";
import { target } from "./pick";

const SHOWN = 40;
/** Decisions a second up to which a new line lights up. */
const CALM = 4;

/** A line as it was drawn: decisions change seldom, and what is the same is not compared again. */
const drawn = new WeakMap<Decision, { as: string; row: JSX.Element }>();

export function List({ decisions, chosen, query }: { decisions: Decision[]; chosen: string | null; query: Record<string, string> }) {
  const at = decisions.findIndex((d) => d.id === chosen);
  // The chosen one stays in sight.
  const from = at >= SHOWN ? at - SHOWN + 1 : 0;
  return (
    <section class="panel">
      <h2>Decisions</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Decisions">
        <table id="decisions">
          <caption>
            Newest first, {decisions.length > SHOWN ? `showing ${SHOWN} of ${int(decisions.length)} held` : `${int(decisions.length)} held`}. <kbd>j</kbd> and <kbd>k</kbd> move.
          </caption>
          <thead>
            <tr>
              <Th>Decision</Th>
              <Th>Time</Th>
              <Th>Model</Th>
              <Th>To</Th>
              <Th num>Tokens</Th>
              <Th num>TTFT</Th>
              <Th>Outcome</Th>
            </tr>
          </thead>
          <tbody>
            {decisions.slice(from, from + SHOWN).map((d) => line(d, d.id === chosen, query))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function line(d: Decision, on: boolean, query: Record<string, string>) {
  const as = `${on} ${JSON.stringify(query)}`;
  const before = drawn.get(d);
  if (before?.as === as) return before.row;
  const classes = [on && "pick", (rate.peek() ?? 0) < CALM && "new"].filter(Boolean).join(" ");
  const row = (
    <tr key={d.id} class={classes || undefined}>
      <th scope="row">
        <a class="mono" href={address("pipeline", d.id, query)} aria-current={on ? "true" : undefined}>
          {d.id}
        </a>
      </th>
      <td>{clock(d.at)}</td>
      <td class="ellipsis narrow" title={clean(d.model)}>{clean(d.model, 60)}</td>
      <td class="ellipsis narrow">{clean(target(d) ?? "nobody", 60)}</td>
      <td class="num">{int(d.prompt_tokens_estimated)}</td>
      <td class="num">{millis(d.outcome.ttft_ms)}</td>
      <td class="wraps">{ending(d)}</td>
    </tr>
  );
  drawn.set(d, { as, row });
  return row;
}

function ending(d: Decision) {
  const { ended, status } = d.outcome;
  if (ended === null) return <span class="quiet">running</span>;
  const fine = ended === "natural" && (status ?? 0) < 400;
  return <span class={fine ? "good" : "bad"}>{`${status ?? "no status"}${ended === "natural" ? "" : ` ${ended}`}`}</span>;
}
