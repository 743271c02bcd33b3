// The shapes of the admin API (docs/api.md); `null` is unknown, which is not zero.

export interface Signals {
  waiting: number | null;
  running: number | null;
  kv_cache_usage: number | null;
  in_flight: number;
  lora: string | null;
  age_ms: number | null;
}
export interface Score {
  raw: number;
  weight: number;
}
export interface Candidate {
  endpoint: string;
  address: string;
  dropped_by: string | null;
  reason: string | null;
  since: string | null;
  signals: Signals;
  scores: Record<string, Score>;
  total: number | null;
  prefix_match_tokens: number;
}
export interface Profile {
  name: string;
  picker: string;
  candidates: Candidate[];
  ties: string[];
  picked: string[];
  omitted: number;
  omitted_dropped: number;
}
export interface Outcome {
  status: number | null;
  endpoint: string | null;
  retries: number;
  retried: { endpoint: string; error: string }[];
  ttft_ms: number | null;
  duration_ms: number | null;
  prompt_tokens: number | null;
  completion_tokens: number | null;
  cached_tokens_predicted: number;
  cached_tokens: number | null;
  ended: string | null;
  error: string | null;
}
export interface Decision {
  id: string;
  request_id: string;
  at: string;
  transport: string;
  method: string;
  path: string;
  model: string;
  target_model: string;
  prompt_tokens_estimated: number;
  block_tokens: number;
  prompt_blocks: number;
  config_version: number;
  profiles: Profile[];
  steps_us: Record<string, number>;
  /** With --show-prompts. */
  prompt_text?: string;
  shadow?: { endpoint: string | null; differs: boolean };
  outcome: Outcome;
}
export interface Endpoint {
  address: string;
  name: string;
  namespace: string;
  labels: Record<string, string>;
  ready: boolean;
  since_ms: number;
  reason: string | null;
  conditions: string[];
  scrape_age_ms: number | null;
  scrape_error: string | null;
  engine: string | null;
  models: string[] | null;
  running: number | null;
  waiting: number | null;
  kv_cache_usage: number | null;
  lora: { running: string[]; waiting: string[]; max: number | null } | null;
  in_flight: number;
  in_flight_tokens: number;
  cached_blocks: number | null;
}
export interface FleetEvent {
  at_unix_ms: number;
  decided: number;
  config_version: number;
  endpoints: Endpoint[];
}
export interface Branch {
  id: string;
  parent: number | null;
  blocks: number;
  depth: number;
  holders: number[];
  prompts: number;
  longest: number;
  idle: number;
  omitted: number;
  omitted_blocks: number;
  /** With --show-prompts. */
  text?: string;
}
export interface PrefixTree {
  block_tokens: number;
  endpoints: { endpoint: string; address: string; blocks: number; added: number; gone: number }[];
  branches: Branch[];
  omitted: number;
  examined: number;
  complete: boolean;
}
export interface Preset {
  name: string;
  summary: string;
  weights: Record<string, number>;
  document: string;
}
export interface Rescored {
  decisions: number;
  same: number;
  tied: number;
  different: number;
  unrated: number;
  partial: number;
  weights: Record<string, number>;
  unused: string[];
  endpoints: { endpoint: string; chosen: number; would: number }[];
  changes: { id: string; model: string; from: string; to: string; margin: number }[];
  measured: {
    requests: number;
    ttft_p50_ms: number | null;
    ttft_p95_ms: number | null;
    prompt_tokens: number;
    cached_tokens: number | null;
    cache_hit_share: number | null;
  };
}
export interface PhasePoint {
  tokens: number;
  local_ms: number;
  local_prefill_ms: number;
  remote_ms: number;
  remote_prefill_ms: number;
  transfer_ms: number;
  disaggregate: boolean;
}
export interface Phases {
  model: string;
  prompt: number;
  gpus: number;
  bandwidth: number;
  at: PhasePoint;
  threshold_tokens: number | null;
  curve: PhasePoint[];
  models: { name: string; kv_bytes: number; gpus: number }[];
  links: { name: string; bandwidth: number }[];
}
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export interface Config {
  version: number;
  config: { [key: string]: Json };
  last_reload: { at_unix_ms: number; result: string; changes: string[]; error: string | null } | null;
  warnings: { code: string; line: number; column: number; path: string; message: string; help: string | null }[];
}
export interface PluginType {
  type: string;
  status: string;
  stability: string;
  kinds: string[];
  summary: string;
  formula: string | null;
  parameters: { name: string; type: string; default: Json; description: string }[];
}
export interface Shadow {
  decisions: number;
  same: number;
  tied: number;
  different: number;
  nobody: number;
  different_share: number | null;
  mean: Record<"live" | "shadow", Record<string, number | null>>;
}
export interface Offers {
  policies: string[];
  workloads: { name: string; doc: string }[];
}
export interface Race {
  id: string;
  state: string;
  warnings?: string[];
  progress: number;
  error?: string | null;
  set_up?: { profile?: string };
  policies: { policy: string; metrics: Record<string, Estimate> }[];
}
/** A mean over repetitions, and the half width of its 95 % interval; `null` of a single one. */
export interface Estimate {
  mean: number;
  ci: number | null;
}
