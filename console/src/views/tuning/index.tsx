// Weights: where to begin, and what others would have done with the last requests.
import { useEffect, useState } from "preact/hooks";
import { ApiError, post } from "../../api/client";
import type { Config, Preset, Rescored } from "../../api/types";
import { clean, percent, short } from "../../format";
import { useLoad } from "../../parts/useLoad";
import { configVersion } from "../../store";
import { Changes, Report } from "./Report";
import { tuned, weightsInForce } from "./document";
import { inWords, LIMIT, useElsewhere } from "./useElsewhere";

const NONE: Preset[] = [];

export function TuningView() {
  const { value: presets } = useLoad<{ presets: Preset[] }>("/api/presets");
  const { value: config } = useLoad<Config>("/api/config", 0, configVersion.value);
  const [weights, setWeights] = useState<Record<string, number> | null>(null);
  const [report, setReport] = useState<{ asked: string; answer: Rescored } | null>(null);
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
          setReport({ asked, answer });
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

  const all = presets?.presets ?? NONE;
  const elsewhere = useElsewhere(all, zeroed(config));
  // Of the weights that are set, card and report tell the same answer.
  const told = (p: Preset) => (report?.asked === asked && JSON.stringify({ ...zeroed(config), ...p.weights }) === asked ? inWords(report.answer) : elsewhere[p.name]);
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
                <p class="small">{told(p) ?? "Looking at the last requests."}</p>
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
            {report && report.answer.unused.length > 0 && (
              <p class="notice small">Not in the records, and so without effect here: {report.answer.unused.map((u) => clean(u, 60)).join(", ")}. They take effect once the configuration has them.</p>
            )}
          </div>
        </section>
        <section class="panel">
          <h2>What would have changed</h2>
          <div class="body" id="rescored" aria-live="polite">
            {fault && <p class="notice bad">{fault}</p>}
            {report && <Report report={report.answer} />}
          </div>
        </section>
      </div>
      {report && report.answer.changes.length > 0 && <Changes report={report.answer} />}
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

/** Scorers in force without weight: a preset speaks of its own four only. */
function zeroed(config: Config | null): Record<string, number> {
  return Object.fromEntries(Object.keys(config ? weightsInForce(config) : {}).map((name) => [name, 0]));
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
