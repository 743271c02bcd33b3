// What a race measured: the figures that matter, and the others when asked for.
import { useState } from "preact/hooks";
import type { Estimate, Race } from "../../api/types";
import { clean, fixed, int, millis, percent } from "../../format";
import { Th } from "../../parts/Th";

type Show = (v: number) => string;
const seconds: Show = (v) => millis(v * 1000);
const MAIN: [string, string, Show][] = [
  ["ttft_mean", "Average TTFT", seconds],
  ["ttft_p95", "TTFT p95", seconds],
  ["hit_ratio", "Cache hit", (v) => percent(v, 1)],
  ["completed", "Completed", int],
  ["re_prefilled_tokens", "Re-prefilled tokens", int],
];

export function Results({ race }: { race: Race }) {
  const [more, showMore] = useState(false);
  const [first] = race.policies;
  const columns = more ? [...MAIN, ...others(race)] : MAIN;
  return (
    <>
      <label class="more">
        <input type="checkbox" checked={more} onChange={(e) => showMore(e.currentTarget.checked)} />
        every figure
      </label>
      <div class="scroll" tabIndex={0} role="region" aria-label="Results">
        <table id="race">
          <caption>
            Mean over the repetitions, with the half width of its 95 % interval. {first && race.policies.length > 1 && `~: chance explains the difference to ${clean(first.policy, 40)}.`}
          </caption>
          <thead>
            <tr>
              <Th>Policy</Th>
              {columns.map(([key, label]) => (
                <Th num key={key}>{label}</Th>
              ))}
            </tr>
          </thead>
          <tbody>
            {race.policies.map((p) => (
              <tr key={p.policy}>
                <th scope="row">{clean(p.policy, 60)}</th>
                {columns.map(([key, , show]) => (
                  <td class="num" key={key}>
                    <Cell of={p.metrics[key]} against={p === first ? undefined : first?.metrics[key]} show={show} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function Cell({ of, against, show }: { of: Estimate | undefined; against: Estimate | undefined; show: Show }) {
  if (!of) return <>-</>;
  const width = of.ci === null || show(of.ci) === show(0) ? "" : `+-${show(of.ci)}`;
  const apart = against ? Math.abs(of.mean - against.mean) : 0;
  const chance = apart > 0 && of.ci !== null && against!.ci !== null && apart <= Math.hypot(of.ci, against!.ci) ? "~" : "";
  return (
    <>
      {show(of.mean)} {(width || chance) && <span class="small quiet beside">{[width, chance].filter(Boolean).join(" ")}</span>}
    </>
  );
}

/** Whatever else was measured, in its unit. */
function others(race: Race): [string, string, Show][] {
  const names = [...new Set(race.policies.flatMap((p) => Object.keys(p.metrics)))].filter((name) => !MAIN.some(([key]) => key === name));
  return names.sort().map((name) => [name, clean(name.replaceAll("_", " "), 40), unit(name)]);
}

function unit(name: string): Show {
  if (/^(ttft|tpot|e2e)_/.test(name) || name === "seconds") return seconds;
  if (/_ratio$|_rate$/.test(name)) return (v) => percent(v, 1);
  const number: Show = (v) => (Math.abs(v) >= 100 ? int(v) : fixed(v, Number.isInteger(v) ? 0 : 2));
  if (name === "output_throughput") return (v) => `${number(v)} tokens/s`;
  return /throughput$|^goodput$/.test(name) ? (v) => `${number(v)}/s` : number;
}
