// What else is on record of a decision.
import type { Decision } from "../../api/types";
import { clean, int, millis } from "../../format";

export function Facts({ decision: d }: { decision: Decision }) {
  const o = d.outcome;
  const rows: [string, string][] = [
    ["Request", `${d.method} ${clean(d.path)}`],
    ["Request id", clean(d.request_id) || "none"],
    ["Model", d.target_model === d.model ? clean(d.model) : `${clean(d.model)}, sent as ${clean(d.target_model)}`],
    ["Decided at", d.at],
    ["Prompt", `${int(d.prompt_tokens_estimated)} tokens (estimated), ${int(d.prompt_blocks)} blocks of ${int(d.block_tokens)}`],
    ["Served by", o.endpoint ? clean(o.endpoint) : o.ended === null ? "nobody yet" : "none"],
    ["Cached tokens", `${int(o.cached_tokens_predicted)} predicted, ${o.cached_tokens === null ? "not told by the engine" : `${int(o.cached_tokens)} actual`}`],
    ["Tokens", `${int(o.prompt_tokens)} in, ${int(o.completion_tokens)} out`],
    ["Times", `TTFT ${millis(o.ttft_ms)}, all ${millis(o.duration_ms)}`],
    ["Ended", o.ended ?? "still running"],
    ["Configuration", `version ${d.config_version}`],
  ];
  if (o.error) rows.push(["Error", clean(o.error)]);
  for (const r of o.retried) rows.push(["Tried before", `${clean(r.endpoint)}: ${clean(r.error)}`]);
  if (d.shadow) rows.push(["Shadow", d.shadow.differs ? `would have chosen ${clean(d.shadow.endpoint ?? "nobody")}` : "agrees"]);
  return (
    <section class="panel">
      <h2>Record</h2>
      <div class="body">
        <dl class="facts">
          {rows.map(([key, value]) => (
            <>
              <dt>{key}</dt>
              <dd>{value}</dd>
            </>
          ))}
        </dl>
        {d.prompt_text !== undefined && (
          <>
            <h3>How the prompt begins</h3>
            <pre class="doc prompt" id="prompt" tabIndex={0} aria-label="Beginning of the prompt">
              {clean(d.prompt_text, 4_096)}
            </pre>
          </>
        )}
      </div>
    </section>
  );
}
