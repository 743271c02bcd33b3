// The candidates of one profile: raw and weighted scores, what was known of each, who was dropped and why.
import type { Candidate, Profile } from "../../api/types";
import { Meter } from "../../parts/Meter";
import { Th } from "../../parts/Th";
import { clean, fixed, int, percent, short } from "../../format";
import { address } from "../../router";
import { added } from "./pick";

export function Candidates({ profile, tokens }: { profile: Profile; tokens: number }) {
  const scorers = Object.entries(profile.candidates.find((c) => c.total !== null)?.scores ?? {}).map(([name, s]) => ({ name, weight: s.weight }));
  const place = (c: Candidate) => (profile.picked.includes(c.endpoint) ? Infinity : (c.total ?? -Infinity));
  const rows = [...profile.candidates].sort((a, b) => place(b) - place(a));
  const caption = `${profile.candidates.length + profile.omitted} candidates, ${profile.picked.length ? `chosen by ${clean(profile.picker, 60)}` : "none chosen"}${
    profile.ties.length > 1 ? `; tied for the highest sum: ${profile.ties.map((t) => clean(t, 30)).join(", ")}` : ""
  }${profile.omitted ? `; ${int(profile.omitted)} not kept on record, the best are` : ""}`;
  return (
    <section class="panel">
      <h2>Candidates of profile {clean(profile.name, 60)}</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label={`Candidates of profile ${clean(profile.name, 60)}`}>
        <table class="candidates">
          <caption>{caption}</caption>
          <thead>
            <tr>
              <Th>Endpoint</Th>
              <Th num>Total</Th>
              {scorers.map((s) => (
                <Th num key={s.name} title={s.name}>{clean(short(s.name), 28)} x{s.weight}</Th>
              ))}
              <Th num>Held tokens</Th>
              <Th num>Waiting</Th>
              <Th num>Running</Th>
              <Th num>In flight</Th>
              <Th>KV cache</Th>
              <Th num>Signals</Th>
            </tr>
          </thead>
          <tbody>
            {rows.map((c) => (
              <Row key={c.address} candidate={c} profile={profile} scorers={scorers} tokens={tokens} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Row({ candidate: c, profile, scorers, tokens }: { candidate: Candidate; profile: Profile; scorers: { name: string }[]; tokens: number }) {
  const picked = profile.picked[0] === c.endpoint;
  const name = (
    <th scope="row">
      {picked && <span aria-hidden="true">&gt; </span>}
      <a href={address("fleet", c.address)}>{clean(c.endpoint, 60)}</a>
      {picked && <span class="visually-hidden"> (picked)</span>}
      {profile.ties.includes(c.endpoint) && <span class="small quiet"> tie</span>}
    </th>
  );
  if (c.total === null) {
    return (
      <tr class="dropped">
        {name}
        <td colSpan={scorers.length + 7}>
          dropped by {clean(c.dropped_by ?? "nobody", 60)}: {clean(c.reason ?? "no reason given")}
          {c.since && `, since ${c.since.slice(0, 19).replace("T", " ")} UTC`}
        </td>
      </tr>
    );
  }
  return (
    <tr class={picked ? "pick" : undefined}>
      {name}
      <td class="num">
        <b>{fixed(c.total, 3)}</b>
      </td>
      {scorers.map(({ name }) => {
        const s = c.scores[name];
        return (
          <td class="num" key={name}>
            {s ? (
              <>
                <span class="quiet">{fixed(s.raw, 2)}</span> {fixed(added(s), 3)}
              </>
            ) : (
              "-"
            )}
          </td>
        );
      })}
      <td class="num">
        {int(c.prefix_match_tokens)}
        {tokens > 0 && c.prefix_match_tokens > 0 && <span class="small quiet"> {percent(Math.min(1, c.prefix_match_tokens / tokens))}</span>}
      </td>
      <td class="num">{int(c.signals.waiting)}</td>
      <td class="num">{int(c.signals.running)}</td>
      <td class="num">{int(c.signals.in_flight)}</td>
      <td>
        {c.signals.kv_cache_usage === null ? (
          "-"
        ) : (
          <>
            <Meter share={c.signals.kv_cache_usage} /> {percent(c.signals.kv_cache_usage)}
          </>
        )}
      </td>
      <td class="num">{c.signals.age_ms === null ? "never read" : `${int(c.signals.age_ms)} ms old`}</td>
    </tr>
  );
}
