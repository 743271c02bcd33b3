// Policies side by side on the same workload, run by the laboratory in the server.
import { useEffect, useState } from "preact/hooks";
import { ApiError, get, post } from "../../api/client";
import type { Offers, Race } from "../../api/types";
import { clean, percent } from "../../format";
import { useLoad } from "../../parts/useLoad";
import { go, place } from "../../router";
import { openings } from "../../store";
import { Results } from "./Results";

const CHOSEN = ["in-force", "round-robin", "least-request", "random"];

export function RaceView() {
  const id = place.value.id;
  const [setUp, change] = useState({ endpoints: 4, workload: "shared-prefix", rate: 20, requests: 100, seeds: 3, policies: CHOSEN.slice() });
  const { value, error: unoffered } = useLoad<Offers>("/api/race");
  const offers = value ?? { policies: CHOSEN, workloads: [{ name: "shared-prefix", doc: "" }] };
  const [race, setRace] = useState<Race | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  const opened = openings.value;
  useEffect(() => {
    setFault(null);
    if (!id) return;
    let gone = false;
    const look = async () => {
      try {
        const now = await get<Race>(`/api/race/${encodeURIComponent(id)}`);
        if (gone) return;
        setRace(now);
        if (now.state === "running" || now.state === "queued") setTimeout(look, 500);
      } catch (error) {
        if (!gone) setFault(told(error as ApiError));
      }
    };
    void look();
    return () => {
      gone = true;
    };
  }, [id, opened]);
  const begin = async (event: Event) => {
    event.preventDefault();
    setFault(null);
    try {
      const begun = await post<{ id: string }>("/api/race", { set_up: setUp });
      go("race", begun.id);
    } catch (error) {
      setFault(told(error as ApiError));
    }
  };
  const wrong = fault ?? (unoffered && told(unoffered));
  const number = (key: "endpoints" | "rate" | "requests" | "seeds", label: string, min: number, max: number) => (
    <label>
      {label}
      <input type="number" min={min} max={max} value={setUp[key]} onInput={(e) => change({ ...setUp, [key]: Number(e.currentTarget.value) })} />
    </label>
  );
  return (
    <div class="view">
      <div class="head">
        <h1>Race</h1>
        <p>The same requests through several policies, on simulated engines, by the code that routes in production.</p>
      </div>
      <section class="panel">
        <h2>Set-up</h2>
        <form class="body" onSubmit={begin}>
          <div class="row">
            {number("endpoints", "Endpoints", 1, 64)}
            <label>
              Workload
              <select value={setUp.workload} onChange={(e) => change({ ...setUp, workload: e.currentTarget.value })}>
                {offers.workloads.map((w) => (
                  <option key={w.name} value={w.name} title={w.doc}>
                    {w.name === "recorded" ? "own recorded traffic" : w.name}
                  </option>
                ))}
              </select>
            </label>
            {number("rate", "Requests/s", 1, 1000)}
            {number("requests", "Requests", 10, 20_000)}
            {number("seeds", "Repetitions", 1, 20)}
          </div>
          <p class="small quiet">{offers.workloads.find((w) => w.name === setUp.workload)?.doc}</p>
          <fieldset class="row">
            <legend class="small quiet">Policies</legend>
            {offers.policies.map((p) => (
              <label key={p} style={{ flexDirection: "row", alignItems: "center", gap: "6px" }}>
                <input
                  type="checkbox"
                  checked={setUp.policies.includes(p)}
                  onChange={(e) => change({ ...setUp, policies: e.currentTarget.checked ? [...setUp.policies, p] : setUp.policies.filter((x) => x !== p) })}
                />
                {p}
              </label>
            ))}
          </fieldset>
          <div>
            <button class="primary" type="submit" disabled={setUp.policies.length === 0}>
              Start the race
            </button>
          </div>
        </form>
      </section>
      <div role="status">{wrong && <p class="notice">{wrong}</p>}</div>
      {race && race.id === id && (
        <section class="panel">
          <header>
            <h2>Race {clean(id ?? "", 40)}</h2>
            <span>{race.state}</span>
            <progress max={1} value={race.progress} aria-label="Progress" />
            <span>{percent(race.progress)}</span>
            {race.set_up?.profile && <span class="small quiet">on simulated engines of {clean(race.set_up.profile, 60)}</span>}
            {race.error && <span class="bad">{clean(race.error)}</span>}
          </header>
          {(race.warnings ?? []).map((w) => (
            <p class="notice small" key={w}>
              {clean(w, 400)}
            </p>
          ))}
          <Results race={race} />
        </section>
      )}
    </div>
  );
}

function told(error: ApiError): string {
  if (error.status === 404) return "Races are not available in this build: it has no laboratory.";
  return `The race could not be run: ${error.message}`;
}
