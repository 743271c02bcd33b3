// Prefill and decode, together or apart: which way is faster for a prompt, and what a running configuration decided.
import { useMemo } from "preact/hooks";
import type { Config, Json, Phases } from "../../api/types";
import { clean, int, micros, millis, percent } from "../../format";
import { Figure } from "../../parts/Figure";
import { Plot } from "../../parts/Plot";
import { Th } from "../../parts/Th";
import { useLoad } from "../../parts/useLoad";
import { address, place, setQuery } from "../../router";
import { configVersion, decisions } from "../../store";
import { engines } from "../pipeline/pick";

const DEFAULTS: Record<string, string> = {
  model: "llama-3.1-70b",
  prompt: "8192",
  bandwidth: "45000000000",
  decoding: "32",
  stall_weight: "0.02",
  overhead_ms: "10",
  held_decode: "0",
  held_prefill: "0",
};

export function PhasesView() {
  const query = place.value.query;
  const value = (key: string) => query.get(key) ?? DEFAULTS[key]!;
  const asked = new URLSearchParams(Object.keys(DEFAULTS).map((key) => [key, value(key)]));
  const { value: phases, error } = useLoad<Phases>(`/api/phases?${asked}`);
  const { value: config } = useLoad<Config>("/api/config", 0, configVersion.value);
  const [curve, points] = useMemo(() => [(phases?.curve ?? []).map((p) => p.tokens), phases?.curve ?? []], [phases]);
  const data = useMemo(() => [curve, points.map((p) => p.local_ms), points.map((p) => p.remote_ms)], [curve, points]);
  const at = phases?.at;
  const slider = (key: string, label: string, max: number, step: number, show: (v: number) => string) => (
    <div class="slider">
      <label for={`phase-${key}`}>{label}</label>
      <input id={`phase-${key}`} type="range" min={0} max={max} step={step} value={value(key)} onInput={(e) => setQuery(key, e.currentTarget.value)} />
      <output for={`phase-${key}`} class="num">
        {show(Number(value(key)))}
      </output>
    </div>
  );
  // Lengths are spread by their logarithm: 64 to 131,072 tokens.
  const position = Math.round(Math.log2(Number(value("prompt")) / 64) * 100);
  return (
    <div class="view">
      <div class="head">
        <h1>Phases</h1>
        <p>Computing a prompt keeps a GPU's arithmetic busy, generating keeps its memory busy. Apart, neither waits for the other, but the KV cache has to travel.</p>
      </div>
      <div class="split even">
        <section class="panel">
          <h2>A prompt</h2>
          <div class="body">
            <div class="row">
              <label>
                Model
                <select value={value("model")} onChange={(e) => setQuery("model", e.currentTarget.value)}>
                  {(phases?.models ?? [{ name: value("model") }]).map((m) => (
                    <option key={m.name} value={m.name}>
                      {m.name}
                    </option>
                  ))}
                </select>
              </label>
              <label>
                Between engines
                <select value={value("bandwidth")} onChange={(e) => setQuery("bandwidth", e.currentTarget.value)}>
                  {(phases?.links ?? []).map((l) => (
                    <option key={l.name} value={String(l.bandwidth)}>
                      {l.name}
                    </option>
                  ))}
                </select>
              </label>
            </div>
            <div class="sliders">
              <div class="slider">
                <label for="phase-prompt">Prompt length</label>
                <input
                  id="phase-prompt"
                  type="range"
                  min={0}
                  max={1100}
                  value={position}
                  onInput={(e) => setQuery("prompt", String(Math.round(64 * 2 ** (Number(e.currentTarget.value) / 100))))}
                />
                <output for="phase-prompt" class="num">
                  {int(Number(value("prompt")))} tokens
                </output>
              </div>
              {slider("held_decode", "Cached at the decode engine", 1, 0.01, (v) => percent(v))}
              {slider("held_prefill", "Cached at the prefill engine", 1, 0.01, (v) => percent(v))}
              {slider("decoding", "Requests decoding there", 128, 1, int)}
              {slider("stall_weight", "What their stall weighs", 0.1, 0.005, (v) => v.toFixed(3))}
              {slider("overhead_ms", "Overhead of the other way", 50, 1, (v) => `${v} ms`)}
            </div>
          </div>
        </section>
        <section class="panel">
          <h2>{at ? (at.disaggregate ? "Apart is faster" : "Together is faster") : "Which way?"}</h2>
          <div class="body">
            {error && <p class="notice bad">{error.message}</p>}
            {at && phases && (
              <>
                <div class="figures">
                  <Figure label="together" value={millis(at.local_ms)} note={`prefill ${millis(at.local_prefill_ms)}, the rest is the stall of others`} />
                  <Figure label="apart" value={millis(at.remote_ms)} note={`prefill ${millis(at.remote_prefill_ms)}, transfer ${millis(at.transfer_ms)}`} />
                  <Figure label="break-even" value={phases.threshold_tokens === null ? "never" : `${int(phases.threshold_tokens)} tokens`} note={phases.threshold_tokens === null ? "no prompt up to 131,072 tokens gains" : "longer prompts are faster apart"} />
                </div>
                <Plot
                  data={data}
                  label="Time to the first token by prompt length, together and apart"
                  series={[
                    { label: "together", colour: "--series-1" },
                    { label: "apart", colour: "--series-2", dash: [7, 4] },
                  ]}
                  logX
                  logY
                  xValue={int}
                  xTick={(v) => (v >= 1e6 ? `${v / 1e6}M` : v >= 1e3 ? `${v / 1e3}k` : String(v))}
                  yValue={millis}
                  xLabel="prompt, tokens"
                  yLabel="cost"
                />
                <p class="small quiet">A model of idle engines on {int(phases.gpus)} GPUs each (H100 peak, half of it reached); queues come on top. The stall of running requests counts with its weight.</p>
              </>
            )}
          </div>
        </section>
      </div>
      <Running config={config} />
    </div>
  );
}

function Running({ config }: { config: Config | null }) {
  const plugins = (config?.config.plugins ?? []) as { [key: string]: Json }[];
  const deciders = plugins.filter((p) => /-decider$|disagg-profile-handler|pd-profile-handler/.test(String(p.type)));
  const decided = decisions.value.filter((d) => d.profiles.length > 0);
  const apart = decided.filter((d) => engines(d).length > 1).length;
  return (
    <section class="panel">
      <h2>In this process</h2>
      <div class="body">
        {deciders.length === 0 ? (
          <p>The configuration in force does not disaggregate: it has no disagg-profile-handler.</p>
        ) : (
          <dl class="facts">
            {deciders.map((d) => (
              <>
                <dt>{clean(String(d.name))}</dt>
                <dd class="mono">{JSON.stringify(d.parameters)}</dd>
              </>
            ))}
          </dl>
        )}
        {deciders.length > 0 && (
          <div class="scroll" tabIndex={0} role="region" aria-label="Decisions by phase">
            <table id="phases">
              <caption>
                {int(apart)} of the last {int(decided.length)} decisions took more than one engine.
              </caption>
              <thead>
                <tr>
                  <Th>Decision</Th>
                  <Th num>Prompt</Th>
                  <Th num>Held where it decodes</Th>
                  <Th>Phases</Th>
                  <Th num>Decided in</Th>
                  <Th num>TTFT</Th>
                </tr>
              </thead>
              <tbody>
                {decided.slice(0, 30).map((d) => (
                  <tr key={d.id}>
                    <th scope="row">
                      <a class="mono" href={address("pipeline", d.id)}>
                        {d.id}
                      </a>
                    </th>
                    <td class="num">{int(d.prompt_tokens_estimated)} tokens</td>
                    <td class="num">{int(d.outcome.cached_tokens_predicted)} tokens</td>
                    <td>{d.profiles.map((p) => `${clean(p.name, 20)}: ${clean(p.picked[0] ?? "nobody", 30)}`).join(", ")}</td>
                    <td class="num">{micros(d.steps_us.total)}</td>
                    <td class="num">{millis(d.outcome.ttft_ms)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </div>
    </section>
  );
}
