// Why one endpoint gets what it gets: what the newest decisions say of it.
import type { Decision, Endpoint, Profile } from "../../api/types";
import { clean, fixed, int, short } from "../../format";
import { Th } from "../../parts/Th";
import { address } from "../../router";
import { decisions } from "../../store";
import { engines, leads, target } from "../pipeline/pick";

const LOOKED_AT = 100;

interface Cause {
  what: string;
  times: number;
  /** How far behind the pick, over all these decisions. */
  behind: number;
}

export function Why({ e }: { e: Endpoint }) {
  const newest = decisions.value.slice(0, LOOKED_AT);
  const chosen = newest.filter((d) => engines(d).includes(e.name)).length;
  const causes = tally(newest, e);
  return (
    <section class="panel" id="why">
      <h2>
        {clean(e.name, 60)} got {int(chosen)} of the last {int(newest.length)} decisions
      </h2>
      <div class="body">
        {!e.ready && <p class="bad">Not ready: {clean(e.reason ?? "no reason given")}</p>}
        {causes.length === 0 && <p>{newest.length === 0 ? "Nothing was decided yet." : chosen === newest.length ? "It was chosen each time." : "Nothing on record kept it from being chosen."}</p>}
        {causes.length > 0 && (
          <table>
            <caption>What kept it from the others, the most frequent first.</caption>
            <thead>
              <tr>
                <Th>Cause</Th>
                <Th num>Decisions</Th>
                <Th num>Behind by, on average</Th>
              </tr>
            </thead>
            <tbody>
              {causes.map((c) => (
                <tr key={c.what}>
                  <th scope="row" class="wraps">{c.what}</th>
                  <td class="num">{int(c.times)}</td>
                  <td class="num">{c.behind > 0 ? fixed(c.behind / c.times, 3) : "-"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        <p class="small">
          <a href={address("pipeline", null, { endpoint: e.name })}>Decisions that chose it</a>
        </p>
      </div>
    </section>
  );
}

/** Of each decision that did not choose the endpoint: who dropped it, or which scorer put the pick before it the most. */
function tally(newest: Decision[], e: Endpoint): Cause[] {
  const causes = new Map<string, Cause>();
  for (const d of newest) {
    if (engines(d).includes(e.name)) continue;
    const [what, behind] = cause(d, e);
    const known = causes.get(what) ?? { what, times: 0, behind: 0 };
    known.times += 1;
    known.behind += behind;
    causes.set(what, known);
  }
  return [...causes.values()].sort((a, b) => b.times - a.times || (a.what < b.what ? -1 : 1)).slice(0, 8);
}

/** Why a decision did not choose the endpoint, and how far behind the pick it was. */
function cause(d: Decision, e: Endpoint): [string, number] {
  if (d.profiles.length === 0) return ["refused before any endpoint was looked at", 0];
  const to = target(d);
  const on = (p: Profile) => p.candidates.find((c) => c.address === e.address);
  // Where it was rated tells more than where it was dropped, and of equals the profile whose pick served.
  const profiles = [...d.profiles].sort((a, b) => Number(b.picked[0] === to) - Number(a.picked[0] === to));
  const profile = profiles.find((p) => (on(p)?.total ?? null) !== null) ?? profiles.find(on) ?? profiles[0]!;
  const own = on(profile);
  const pick = profile.candidates.find((c) => c.endpoint === profile.picked[0]);
  if (!own) return [profile.omitted ? "not among the best, which are on record" : "not in the pool then", 0];
  if (own.total === null) return [`dropped by ${clean(own.dropped_by ?? "nobody", 60)}: ${clean(own.reason ?? "no reason given")}`, 0];
  if (!pick || pick.total === null) return ["nobody was picked", 0];
  const picker = clean(profile.picker, 60);
  if (pick.total < own.total) return [`scored higher than the pick; ${picker} chose the other`, 0];
  if (profile.ties.includes(e.name) || pick.total === own.total) return [`as good as the pick; ${picker} chose the other`, 0];
  return [`scored lower, most of all by ${clean(short(leads(pick, own)[0]?.[0] ?? "nothing"), 40)}`, pick.total - own.total];
}
