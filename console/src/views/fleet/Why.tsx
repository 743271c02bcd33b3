// Why one endpoint gets what it gets: what the newest decisions say of it.
import type { Decision, Endpoint } from "../../api/types";
import { clean, fixed, int, short } from "../../format";
import { Th } from "../../parts/Th";
import { address } from "../../router";
import { decisions } from "../../store";
import { leads, target } from "../pipeline/pick";

const LOOKED_AT = 100;

interface Cause {
  what: string;
  times: number;
  /** How far behind the pick, over all these decisions. */
  behind: number;
}

export function Why({ e }: { e: Endpoint }) {
  const newest = decisions.value.slice(0, LOOKED_AT);
  const chosen = newest.filter((d) => target(d) === e.name).length;
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
          <a href={address("pipeline", null, { endpoint: e.name })}>Decisions that went there</a>
        </p>
      </div>
    </section>
  );
}

/** Of each decision that went elsewhere: who dropped the endpoint, or which scorer put the pick before it the most. */
function tally(newest: Decision[], e: Endpoint): Cause[] {
  const causes = new Map<string, Cause>();
  const count = (what: string, behind: number) => {
    const cause = causes.get(what) ?? { what, times: 0, behind: 0 };
    cause.times += 1;
    cause.behind += behind;
    causes.set(what, cause);
  };
  for (const d of newest) {
    const to = target(d);
    if (to === e.name) continue;
    const profile = d.profiles.find((p) => p.picked[0] === to && p.picked.length) ?? d.profiles[0];
    const own = profile?.candidates.find((c) => c.address === e.address);
    const pick = profile?.candidates.find((c) => c.endpoint === to);
    if (!own) count(profile?.omitted ? "not among the best, which are on record" : "not in the pool then", 0);
    else if (own.total === null) count(`dropped by ${clean(own.dropped_by ?? "nobody", 60)}: ${clean(own.reason ?? "no reason given")}`, 0);
    else if (!pick || pick.total === null) count("nobody was picked", 0);
    else if (profile!.ties.includes(e.name) || pick.total <= own.total) count(`as good as the pick; ${clean(profile!.picker, 60)} chose the other`, 0);
    else count(`scored lower, most of all by ${clean(short(leads(pick, own)[0]?.[0] ?? "nothing"), 40)}`, pick.total - own.total);
  }
  return [...causes.values()].sort((a, b) => b.times - a.times || (a.what < b.what ? -1 : 1)).slice(0, 8);
}
