// Weights: where to begin, and what others would have done with the last requests.
import { useEffect, useState } from "preact/hooks";
import { ApiError, post } from "../../api/client";
import type { Config, Preset, Rescored } from "../../api/types";
import { clean, fixed, int, millis, percent, short } from "../../format";
import { Th } from "../../parts/Th";
import { useLoad } from "../../parts/useLoad";
import { address } from "../../router";
import { configVersion } from "../../store";
import { tuned, weightsInForce } from "./document";

const LIMIT = 100;

export function TuningView() {
  const { value: presets } = useLoad<{ presets: Preset[] }>("/api/presets");
  const { value: config } = useLoad<Config>("/api/config", 0, configVersion.value);
  const [weights, setWeights] = useState<Record<string, number> | null>(null);
  const [report, setReport] = useState<Rescored | null>(null);
  const [fault, setFault] = useState("");
  const now = weights ?? (config ? weightsInForce(config) : {});
  const asked = JSON.stringify(now);

  useEffect(() => {
    if (!Object.keys(now).length) return;
    let gone = false;
    const ask = async () => {
      if (document.hidden) return;
      try {
        const answer = await post<Rescored>("/api/rescore", { weights: now, limit: LIMIT });
        if (!gone) {
          setReport(answer);
          setFault("");
        }
      } catch (error) {
        if (!gone) setFault((error as ApiError).message);
      }
    };
    const soon = setTimeout(ask, 120);
    const often = setInterval(ask, 2_000);
    return () => {
      gone = true;
      clearTimeout(soon);
      clearInterval(often);
    };
  }, [asked]);

  const all = presets?.presets ?? [];
  const elsewhere = useElsewhere(all, config);
  const sum = Object.values(now).reduce((a, b) => a + Math.max(0, b), 0);
  const top = Math.max(1, ...Object.values(now)) * 1.5;
  const yaml = config ? tuned(config, now) : "";
  return (
    <div class="view">
      <div class="head">
        <h1>Tuning</h1>
        <p>Only the ratios of weights matter. Begin with a preset or with what is in force, move one scorer at a time, and judge by TTFT p95 and cache hits.</p>
      </div>
      <section class="panel">
        <h2>Begin with</h2>
        <div class="body">
          <div class="cards" id="presets">
            <div class="card">
              <h3>In force</h3>
              <p class="small quiet">The weights of this process, version {config?.version ?? "-"}.</p>
              <button type="button" onClick={() => setWeights(null)} aria-pressed={weights === null}>
                Use these
              </button>
            </div>
            {all.map((p) => (
              <div class="card" key={p.name} data-preset={p.name}>
                <h3>{p.name}</h3>
                <p class="small">{p.summary}</p>
                <p class="small quiet">
                  {Object.entries(p.weights)
                    .map(([name, w]) => `${short(name)} ${w.toFixed(2)}`)
                    .join(", ")}
                </p>
                <p class="small">{elsewhere[p.name] ?? "Looking at the last requests."}</p>
                <button type="button" onClick={() => setWeights({ ...zeroed(config), ...p.weights })}>
                  Use {p.name}
                </button>
              </div>
            ))}
          </div>
        </div>
      </section>
      <div class="split even">
        <section class="panel">
          <h2>Weights</h2>
          <div class="body sliders" id="weights">
            {Object.entries(now).map(([name, weight]) => (
              <div class="slider" key={name}>
                <label for={`w-${name}`}>{clean(name, 60)}</label>
                <input id={`w-${name}`} type="range" min={0} max={top} step={top / 300} value={weight} onInput={(e) => setWeights({ ...now, [name]: Number(Number(e.currentTarget.value).toFixed(3)) })} />
                <output for={`w-${name}`} class="num">
                  {weight.toFixed(2)} <span class="small quiet">{percent(sum ? Math.max(0, weight) / sum : 0)}</span>
                </output>
              </div>
            ))}
            {report && report.unused.length > 0 && (
              <p class="notice small">Not in the records, and so without effect here: {report.unused.map((u) => clean(u, 60)).join(", ")}. They take effect once the configuration has them.</p>
            )}
          </div>
        </section>
        <section class="panel">
          <h2>What would have changed</h2>
          <div class="body" id="rescored" aria-live="polite">
            {fault && <p class="notice bad">{fault}</p>}
            {report && (
              <>
                <div class="figures">
                  <Figure label="would go elsewhere" value={`${int(report.different)} of ${int(report.decisions)}`} />
                  <Figure label="just as good" value={int(report.tied)} />
                  <Figure label="the same" value={int(report.same)} />
                  <Figure label="TTFT p95, as measured" value={millis(report.measured.ttft_p95_ms)} />
                  <Figure label="cache hits, as measured" value={percent(report.measured.cache_hit_share, 1)} />
                </div>
                <p class="small quiet">
                  From the records of the last {int(report.decisions)} decisions
                  {report.unrated > 0 && `, ${int(report.unrated)} of which rated nobody`}
                  {report.partial > 0 && `; of ${int(report.partial)} only the best candidates are on record`}. It says what these weights would have chosen then, not how a fleet would fare that they had been steering; a race tells that.
                </p>
                <Shares report={report} />
              </>
            )}
          </div>
        </section>
      </div>
      {report && report.changes.length > 0 && <Changes report={report} />}
      <section class="panel">
        <header>
          <h2>As a document</h2>
          <Save text={yaml} />
        </header>
        <div class="body">
          <pre tabIndex={0} aria-label="Configuration as YAML" id="yaml">
            {yaml}
          </pre>
        </div>
      </section>
    </div>
  );
}

/** What each preset would have done with the last requests, in words. */
function useElsewhere(presets: Preset[], config: Config | null): Record<string, string> {
  const [told, tell] = useState<Record<string, string>>({});
  const base = JSON.stringify(zeroed(config));
  useEffect(() => {
    if (!presets.length || !config) return;
    let gone = false;
    const ask = async () => {
      if (document.hidden) return;
      const found: Record<string, string> = {};
      for (const p of presets) {
        const answer = await post<Rescored>("/api/rescore", { weights: { ...JSON.parse(base), ...p.weights }, limit: LIMIT }).catch(() => null);
        if (answer) found[p.name] = `${int(answer.different)} of the last ${int(answer.decisions)} requests would have gone elsewhere.`;
      }
      if (!gone) tell(found);
    };
    void ask();
    const often = setInterval(ask, 5_000);
    return () => {
      gone = true;
      clearInterval(often);
    };
  }, [presets, base]);
  return told;
}

/** Scorers in force without weight: a preset speaks of its own four only. */
function zeroed(config: Config | null): Record<string, number> {
  return Object.fromEntries(Object.keys(config ? weightsInForce(config) : {}).map((name) => [name, 0]));
}

function Figure({ label, value }: { label: string; value: string }) {
  return (
    <div class="figure">
      <span class="small quiet">{label}</span>
      <b>{value}</b>
    </div>
  );
}

function Shares({ report }: { report: Rescored }) {
  const rows = [...report.endpoints].sort((a, b) => b.would - a.would || b.chosen - a.chosen).slice(0, 30);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Requests by endpoint">
      <table>
        <thead>
          <tr>
            <Th>Endpoint</Th>
            <Th num>Went there</Th>
            <Th num>Would go there</Th>
          </tr>
        </thead>
        <tbody>
          {rows.map((e) => (
            <tr key={e.endpoint}>
              <th scope="row">{clean(e.endpoint, 60)}</th>
              <td class="num">{int(e.chosen)}</td>
              <td class="num">{int(e.would)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Changes({ report }: { report: Rescored }) {
  return (
    <section class="panel">
      <h2>Which ones</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Changed decisions">
        <table id="changes">
          <caption>
            The newest {int(report.changes.length)} of {int(report.different)}.
          </caption>
          <thead>
            <tr>
              <Th>Decision</Th>
              <Th>Model</Th>
              <Th>Went to</Th>
              <Th>Would go to</Th>
              <Th num>By</Th>
            </tr>
          </thead>
          <tbody>
            {report.changes.map((c) => (
              <tr key={c.id}>
                <th scope="row">
                  <a class="mono" href={address("pipeline", c.id)}>
                    {c.id}
                  </a>
                </th>
                <td class="ellipsis">{clean(c.model, 60)}</td>
                <td>{clean(c.from, 60)}</td>
                <td>{clean(c.to, 60)}</td>
                <td class="num">{fixed(c.margin, 3)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Save({ text }: { text: string }) {
  const save = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
    link.download = "tuned.yaml";
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <button type="button" onClick={save} disabled={!text}>
      Save as tuned.yaml
    </button>
  );
}
