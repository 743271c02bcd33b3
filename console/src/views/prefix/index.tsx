// What prompts have in common, and which endpoint is believed to hold which part of it.
import { useMemo, useRef, useState } from "preact/hooks";
import type { PrefixTree } from "../../api/types";
import { clean, int, percent } from "../../format";
import { Plot } from "../../parts/Plot";
import { Th } from "../../parts/Th";
import { useLoad } from "../../parts/useLoad";
import { fleetAt } from "../../store";
import { Icicle } from "./Icicle";
import { tier, WORDS, type Tier } from "./tier";

const KEPT = 240;
const TOP = 25;

export function PrefixView() {
  const { value: tree, error } = useLoad<PrefixTree>("/api/prefix", 2_000);
  const [endpoint, setEndpoint] = useState<number | null>(null);
  const [chosen, choose] = useState<string | null>(null);
  const growth = useGrowth(tree);
  if (error?.status === 404) return <Empty text={error.message} />;
  if (!tree) return <Empty text="Looking at the index." />;
  const top = tree.branches
    .map((b, at) => ({ b, at, saved: (b.prompts - 1) * b.depth }))
    .sort((a, b) => b.saved - a.saved || b.b.depth - a.b.depth || a.at - b.at)
    .filter(({ b }) => endpoint === null || b.holders.includes(endpoint))
    .slice(0, TOP);
  const texts = tree.branches.some((b) => b.text !== undefined);
  const tokens = (blocks: number) => int(blocks * tree.block_tokens);
  const picked = tree.branches.find((b) => b.id === chosen);
  return (
    <div class="view">
      <div class="head">
        <h1>Prefix</h1>
        <p>
          Shared beginnings of prompts, in blocks of {int(tree.block_tokens)} tokens. {tree.complete ? "All" : "The most recently used"} {int(tree.examined)} held blocks were looked at. {texts ? "This process was started with --show-prompts." : "The router keeps hashes, never text."}
        </p>
      </div>
      <section class="panel">
        <header>
          <h2>Tree</h2>
          <span class="small">
            {(["full", "part", "miss"] as Tier[]).map((t) => (
              <span key={t} style={{ marginRight: "12px" }}>
                <i class={`swatch ${t}`} />
                {WORDS[t]}
              </span>
            ))}
          </span>
          <span class="small quiet">Share of the longest prompt that a match up to here covers. Width: what is held.</span>
        </header>
        <div class="body">
          {tree.branches.length === 0 ? <p>Nothing is held yet: send prompts of {int(tree.block_tokens)} tokens or more.</p> : <Icicle tree={tree} endpoint={endpoint} chosen={chosen} choose={choose} />}
          {tree.omitted > 0 && <p class="small quiet">{int(tree.omitted)} further beginnings are not drawn.</p>}
          {picked && (
            <p class="small" role="status">
              <span class="mono">{picked.id}</span>: {tokens(picked.blocks)} tokens, {tokens(picked.depth)} from the start, shared by {int(picked.prompts)} held prompts, held by{" "}
              {picked.holders.map((h) => clean(tree.endpoints[h]?.endpoint ?? "?", 30)).slice(0, 12).join(", ")}
              {picked.holders.length > 12 && ` and ${int(picked.holders.length - 12)} more`}.
            </p>
          )}
          {picked?.text !== undefined && (
            <pre class="doc prompt" id="prompt" tabIndex={0} aria-label="How its own part begins">
              {clean(picked.text, 240)}
            </pre>
          )}
        </div>
      </section>
      <div class="split even">
        <section class="panel">
          <h2>Hottest prefixes{endpoint !== null && ` at ${clean(tree.endpoints[endpoint]?.endpoint ?? "", 30)}`}</h2>
          <div class="scroll" tabIndex={0} role="region" aria-label="Hottest prefixes">
            <table id="prefixes">
              <caption>By tokens that a second prompt need not compute: held prompts beyond the first, times length.</caption>
              <thead>
                <tr>
                  <Th>Prefix</Th>
                  <Th num>Tokens</Th>
                  <Th num>Prompts</Th>
                  <Th>Held by</Th>
                  <Th>Share</Th>
                  <Th num>Last used</Th>
                  {texts && <Th>Own part begins</Th>}
                </tr>
              </thead>
              <tbody>
                {top.map(({ b }) => (
                  <tr key={b.id} class={b.id === chosen ? "pick" : undefined}>
                    <th scope="row">
                      <button type="button" class="linkish mono" aria-pressed={b.id === chosen} onClick={() => choose(b.id === chosen ? null : b.id)}>
                        {b.id.slice(0, 8)}
                      </button>
                    </th>
                    <td class="num">{tokens(b.depth)}</td>
                    <td class="num">{int(b.prompts)}</td>
                    <td class="wraps">
                      {b.holders.slice(0, 6).map((h) => clean(tree.endpoints[h]?.endpoint ?? "?", 20)).join(", ")}
                      {b.holders.length > 6 && ` +${int(b.holders.length - 6)}`}
                    </td>
                    <td>
                      <i class={`swatch ${tier(b)}`} />
                      {percent(b.depth / b.longest)}
                    </td>
                    <td class="num">{b.idle === 0 ? "newest prompt" : `${int(b.idle)} prompts ago`}</td>
                    {texts && <td class="ellipsis">{clean(b.text ?? "not on record", 80)}</td>}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
        <section class="panel">
          <h2>Inventory</h2>
          <div class="scroll" tabIndex={0} role="region" aria-label="Inventory">
            <table id="inventory">
              <caption>Choose one to see what it holds in the tree.</caption>
              <thead>
                <tr>
                  <Th>Endpoint</Th>
                  <Th num>Blocks</Th>
                  <Th num>Tokens</Th>
                  <Th num>Came</Th>
                  <Th num>Went</Th>
                </tr>
              </thead>
              <tbody>
                {tree.endpoints.slice(0, 200).map((e, at) => (
                  <tr key={e.address} class={endpoint === at ? "pick" : undefined}>
                    <th scope="row">
                      <button type="button" class="linkish" aria-pressed={endpoint === at} onClick={() => setEndpoint(endpoint === at ? null : at)}>
                        {clean(e.endpoint, 40)}
                      </button>
                    </th>
                    <td class="num">{int(e.blocks)}</td>
                    <td class="num">{tokens(e.blocks)}</td>
                    <td class="num">{int(e.added)}</td>
                    <td class="num">{int(e.gone)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      </div>
      <section class="panel">
        <h2>Growth</h2>
        <div class="body">
          {growth[0]!.length < 2 ? <p class="quiet">Two looks make a curve: a moment.</p> : <Plot
            data={growth}
            label="Blocks held, and blocks that went, since this page was opened"
            series={[
              { label: "held blocks", colour: "--series-1" },
              { label: "went since opening", colour: "--series-2", dash: [6, 4] },
            ]}
            xValue={(v) => `${Math.round(v)} s`}
            yValue={(v) => int(v)}
            xLabel="since opening"
            yLabel="blocks"
            xSteps={[1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600]}
          />}
        </div>
      </section>
    </div>
  );
}

function Empty({ text }: { text: string }) {
  return (
    <div class="view">
      <div class="head">
        <h1>Prefix</h1>
      </div>
      <p class="notice">{text}</p>
    </div>
  );
}

/** The sums over all endpoints, as they were seen. */
function useGrowth(tree: PrefixTree | null): number[][] {
  const seen = useRef<{ from: number; gone: number; at: number[]; held: number[]; went: number[] } | null>(null);
  return useMemo(() => {
    if (tree) {
      const [held, gone] = tree.endpoints.reduce(([h, g], e) => [h + e.blocks, g + e.gone], [0, 0]);
      const s = (seen.current ??= { from: fleetAt.peek() || Date.now(), gone, at: [], held: [], went: [] });
      const now = ((fleetAt.peek() || Date.now()) - s.from) / 1000;
      if (s.at.length === 0 || now > s.at.at(-1)!) {
        s.at.push(now);
        s.held.push(held);
        s.went.push(Math.max(0, gone - s.gone));
        for (const list of [s.at, s.held, s.went]) if (list.length > KEPT) list.shift();
      }
    }
    const s = seen.current;
    return s ? [[...s.at], [...s.held], [...s.went]] : [[], [], []];
  }, [tree]);
}
