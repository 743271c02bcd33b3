// The configuration in force: what was written and what was not, what looks wrong in it, how it changed, and how another one would fare.
import { useState } from "preact/hooks";
import type { Config, PluginType, Shadow } from "../../api/types";
import { clean, int, percent } from "../../format";
import { Th } from "../../parts/Th";
import { useLoad } from "../../parts/useLoad";
import { configVersion } from "../../store";
import { Effective } from "./Effective";

export function ConfigView() {
  const { value: config, error } = useLoad<Config>("/api/config", 5_000, configVersion.value);
  const { value: catalogue } = useLoad<{ plugins: PluginType[] }>("/api/plugins");
  const { value: shadow, error: noShadow } = useLoad<Shadow>("/api/shadow", 2_000);
  const refused = config?.last_reload?.result === "refused" ? config.last_reload : null;
  const [onlyWritten, setOnlyWritten] = useState(false);
  return (
    <div class="view">
      <div class="head">
        <h1>Configuration</h1>
        <p>
          Version {config?.version ?? "-"} is in force{config?.config.builtIn === true && ": the built-in default, since no document was given"}.
        </p>
      </div>
      {error && <p class="notice bad">{error.message}</p>}
      <div class="split wide-left">
        <section class="panel">
          <header>
            <h2>Effective document</h2>
            <label style={{ flexDirection: "row", alignItems: "center", gap: "6px" }}>
              <input type="checkbox" checked={onlyWritten} onChange={(e) => setOnlyWritten(e.currentTarget.checked)} />
              only what was written
            </label>
          </header>
          <div class="body">{config && <Effective config={config} catalogue={catalogue?.plugins ?? []} onlyWritten={onlyWritten} />}</div>
        </section>
        <div class="view">
          <section class="panel">
            <h2>Faults and warnings</h2>
            <div class="body" id="warnings">
              {refused && (
                <>
                  <p class="bad">The document was refused when it was read again; the one before stays in force.</p>
                  {(refused.error ?? "").split("\n").filter(Boolean).map((line) => (
                    <p class="notice bad small mono" key={line}>
                      {clean(line, 2_000)}
                    </p>
                  ))}
                </>
              )}
              {config && config.warnings.length === 0 && <p class={refused ? undefined : "good"}>No warnings about the document in force.</p>}
              {config?.warnings.map((w) => (
                <p class="notice small" key={`${w.line}:${w.column}:${w.code}`}>
                  <b>
                    {w.line}:{w.column}
                  </b>{" "}
                  {clean(w.message, 400)}
                  {w.help && <span class="quiet"> {clean(w.help, 400)}</span>}
                </p>
              ))}
            </div>
          </section>
          <section class="panel">
            <h2>Last reload</h2>
            <div class="body" id="reload">
              <Reload config={config} />
            </div>
          </section>
          <section class="panel">
            <h2>Shadow</h2>
            <div class="body" id="shadow">
              {noShadow?.status === 404 && !shadow && <p class="quiet">No shadow profiles. Start with --shadow-config-file FILE to score another configuration on every request, without effect.</p>}
              {shadow && <ShadowReport shadow={shadow} />}
            </div>
          </section>
        </div>
      </div>
    </div>
  );
}

function Reload({ config }: { config: Config | null }) {
  const last = config?.last_reload;
  if (!last) return <p class="quiet">The document was not read again since the start. SIGHUP does so, or --watch-config-file.</p>;
  return (
    <>
      <p>
        <span class={last.result === "refused" ? "bad" : "good"}>{last.result}</span> at {new Date(last.at_unix_ms).toISOString().slice(0, 19).replace("T", " ")} UTC
      </p>
      {last.changes.length > 0 && (
        <ul class="small mono">
          {last.changes.map((c) => (
            <li key={c}>{clean(c, 400)}</li>
          ))}
        </ul>
      )}
    </>
  );
}

function ShadowReport({ shadow }: { shadow: Shadow }) {
  const signals = Object.keys(shadow.mean.live);
  return (
    <>
      <p>
        <b>{percent(shadow.different_share, 1)}</b> of {int(shadow.decisions)} decisions would have gone elsewhere; {int(shadow.tied)} tied, {int(shadow.nobody)} found nobody.
      </p>
      <table>
        <thead>
          <tr>
            <Th>Mean at the choice</Th>
            <Th num>In force</Th>
            <Th num>Shadow</Th>
          </tr>
        </thead>
        <tbody>
          {signals.map((s) => (
            <tr key={s}>
              <th scope="row">{s.replaceAll("_", " ")}</th>
              <td class="num">{shadow.mean.live[s]?.toFixed(1) ?? "-"}</td>
              <td class="num">{shadow.mean.shadow[s]?.toFixed(1) ?? "-"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
