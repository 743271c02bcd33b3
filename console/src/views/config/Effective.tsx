// The effective document, plugin by plugin; what nobody wrote is marked.
import type { Config, Json, PluginType } from "../../api/types";
import { clean } from "../../format";

type Tree = { [key: string]: Json };
const list = (value: Json | undefined): Tree[] => (Array.isArray(value) ? (value as Tree[]) : []);

export function Effective({ config, catalogue, onlyWritten }: { config: Config; catalogue: PluginType[]; onlyWritten: boolean }) {
  const doc = config.config;
  const plugins = list(doc.plugins).filter((p) => !onlyWritten || p.injected !== true);
  const other = Object.entries(doc).filter(([key]) => !["plugins", "schedulingProfiles", "builtIn", "apiVersion", "kind"].includes(key));
  return (
    <>
      <h3>Scheduling profiles</h3>
      {list(doc.schedulingProfiles).map((profile) => (
        <div class="doc" key={String(profile.name)}>
          <b>{clean(String(profile.name), 60)}</b>
          {profile.injected === true && <span class="tag">default</span>}
          <ol>
            {list(profile.plugins).map((entry) => {
              const defaulted = Array.isArray(entry.defaulted) && entry.defaulted.includes("weight");
              return (
                <li key={String(entry.pluginRef)}>
                  {clean(String(entry.pluginRef), 80)}
                  {typeof entry.weight === "number" && <span class={defaulted ? "default" : undefined}> weight {entry.weight}</span>}
                  {(defaulted || entry.injected === true) && <span class="tag">default</span>}
                </li>
              );
            })}
          </ol>
        </div>
      ))}
      <h3>Plugins</h3>
      {plugins.length === 0 && <p class="quiet">Nobody wrote any plugin.</p>}
      <div class="doc" id="plugins">
        {plugins.map((p) => (
          <Plugin key={String(p.name)} plugin={p} type={catalogue.find((t) => t.type === p.type)} onlyWritten={onlyWritten} />
        ))}
      </div>
      {!onlyWritten && other.length > 0 && (
        <>
          <h3>Everything else</h3>
          <pre class="doc" tabIndex={0} aria-label="Other sections">
            {JSON.stringify(Object.fromEntries(other), null, 2)}
          </pre>
        </>
      )}
    </>
  );
}

function Plugin({ plugin: p, type, onlyWritten }: { plugin: Tree; type: PluginType | undefined; onlyWritten: boolean }) {
  const defaulted = new Set(Array.isArray(p.defaulted) ? p.defaulted.map(String) : []);
  const rows = Object.entries((p.parameters ?? {}) as Tree).filter(([key]) => !onlyWritten || !defaulted.has(key));
  return (
    <details>
      <summary>
        <b>{clean(String(p.name), 80)}</b>
        {p.name !== p.type && <span class="quiet"> of type {clean(String(p.type), 80)}</span>}
        {p.injected === true && <span class="tag">default</span>}
      </summary>
      {type && (
        <p class="small quiet">
          {type.summary} {type.formula && <code>{type.formula}</code>} ({type.stability})
        </p>
      )}
      <dl class="facts">
        {rows.map(([key, value]) => (
          <>
            <dt title={type?.parameters.find((x) => x.name === key)?.description}>{clean(key, 60)}</dt>
            <dd class={defaulted.has(key) ? "default" : undefined}>
              <code>{clean(JSON.stringify(value), 400)}</code>
              {defaulted.has(key) && <span class="tag">default</span>}
            </dd>
          </>
        ))}
      </dl>
    </details>
  );
}
