// The configuration in force with other weights, as YAML that can be put in force.
import type { Config, Json } from "../../api/types";

type Tree = { [key: string]: Json };
const list = (value: Json | undefined): Tree[] => (Array.isArray(value) ? (value as Tree[]) : []);
const isScorer = (ref: string) => /scorer/.test(ref);

/** Weights of every scorer of the first profile that has any. */
export function weightsInForce(config: Config): Record<string, number> {
  const types = new Map(list(config.config.plugins).map((p) => [String(p.name), String(p.type)]));
  for (const profile of list(config.config.schedulingProfiles)) {
    const weights: Record<string, number> = {};
    for (const entry of list(profile.plugins)) {
      const ref = String(entry.pluginRef);
      if (isScorer(types.get(ref) ?? ref)) weights[ref] = typeof entry.weight === "number" ? entry.weight : 1;
    }
    if (Object.keys(weights).length) return weights;
  }
  return {};
}

export function tuned(config: Config, weights: Record<string, number>): string {
  const plugins = list(config.config.plugins);
  const profiles = list(config.config.schedulingProfiles);
  const refs = new Set(profiles.flatMap((p) => list(p.plugins).map((e) => String(e.pluginRef))));
  const types = new Map(plugins.map((p) => [String(p.name), String(p.type)]));
  const added = Object.keys(weights).filter((name) => !refs.has(name) && weights[name]! > 0);
  // What defaults bring by themselves need not be written, unless a profile names it.
  const kept = plugins.filter((p) => p.injected !== true || refs.has(String(p.name)));
  const out: Tree = {
    apiVersion: config.config.apiVersion ?? "llm-d.ai/v1alpha1",
    kind: config.config.kind ?? "EndpointPickerConfig",
    plugins: [
      ...kept.map((p) => {
        const own = parameters(p);
        return { type: p.type ?? "", ...(p.name === p.type ? {} : { name: p.name ?? "" }), ...(Object.keys(own).length ? { parameters: own } : {}) };
      }),
      ...added.map((type) => ({ type })),
    ],
    schedulingProfiles: profiles.map((profile, at) => ({
      name: profile.name ?? "default",
      plugins: [
        ...list(profile.plugins)
          .filter((e) => weights[String(e.pluginRef)] !== 0)
          .map((e): Tree => {
            const ref = String(e.pluginRef);
            const weight = weights[ref] ?? e.weight;
            return isScorer(types.get(ref) ?? ref) && typeof weight === "number" ? { pluginRef: ref, weight } : { pluginRef: ref };
          }),
        ...(at === 0 ? added.map((pluginRef) => ({ pluginRef, weight: weights[pluginRef]! })) : []),
      ],
    })),
  };
  Object.assign(out, written(config, new Set(kept.map((p) => String(p.name)))));
  return `# Weights tuned from what the last requests would have done.\n${yaml(out, 0)}`;
}

/** The other sections, as far as they speak of plugins that the document has: defaults bring the rest. */
function written(config: Config, kept: Set<string>): Tree {
  const known = (entries: Json | undefined) => list(entries).filter((e) => kept.has(String(e.pluginRef)));
  const out: Tree = {};
  const parsers = known((config.config.requestHandler as Tree | null)?.parsers);
  if (parsers.length) out.requestHandler = { parsers };
  const { injectDefaults, sources, discovery } = (config.config.dataLayer ?? {}) as Tree;
  const layer: Tree = {};
  if (injectDefaults === false) layer.injectDefaults = false;
  const own = known(sources).map((s) => ({ pluginRef: s.pluginRef!, extractors: known(s.extractors) }));
  if (own.length) layer.sources = own;
  if (isTree(discovery ?? null) && known([discovery!]).length) layer.discovery = discovery!;
  if (Object.keys(layer).length) out.dataLayer = layer;
  return out;
}

/** Parameters that somebody wrote. */
function parameters(plugin: Tree): Tree {
  const defaulted = new Set(Array.isArray(plugin.defaulted) ? plugin.defaulted.map(String) : []);
  const given = (plugin.parameters ?? {}) as Tree;
  return Object.fromEntries(Object.entries(given).filter(([key]) => !defaulted.has(key)));
}

const plain = (text: string) => /^[A-Za-z][A-Za-z0-9_./-]*$/.test(text) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(text);

function scalar(value: Json): string {
  if (typeof value === "string") return plain(value) ? value : JSON.stringify(value);
  return JSON.stringify(value);
}

function yaml(value: Json, depth: number): string {
  const pad = "  ".repeat(depth);
  if (Array.isArray(value)) {
    return value
      .map((item) => {
        const text = isTree(item) ? yaml(item, depth + 1) : `${pad}  ${scalar(item)}\n`;
        return `${pad}- ${text.slice(pad.length + 2)}`;
      })
      .join("");
  }
  if (!isTree(value)) return `${pad}${scalar(value)}\n`;
  return Object.entries(value)
    .map(([key, item]) => {
      const name = plain(key) ? key : JSON.stringify(key);
      if (Array.isArray(item)) return item.length && item.every(isTree) ? `${pad}${name}:\n${yaml(item, depth)}` : `${pad}${name}: ${JSON.stringify(item)}\n`;
      if (isTree(item)) return Object.keys(item).length ? `${pad}${name}:\n${yaml(item, depth + 1)}` : `${pad}${name}: {}\n`;
      return `${pad}${name}: ${scalar(item)}\n`;
    })
    .join("");
}

const isTree = (value: Json): value is Tree => typeof value === "object" && value !== null && !Array.isArray(value);
