// Every endpoint: what its engine says, what is under way there, whether it may be used, and why not.
import { useState } from "preact/hooks";
import { ApiError, post, segment } from "../../api/client";
import type { Endpoint } from "../../api/types";
import { ago, clean, int, percent } from "../../format";
import { Meter } from "../../parts/Meter";
import { Spark } from "../../parts/Spark";
import { Th } from "../../parts/Th";
import { address, place, setQuery } from "../../router";
import { endpoints, histories } from "../../store";
import { Why } from "./Why";

const PAGE = 50;
const SORTS = { joined: "order of joining", waiting: "most waiting", kv: "fullest KV cache", inflight: "most in flight", name: "name" };

export function FleetView() {
  const query = place.value.query;
  const only = query.get("state") ?? "";
  const sort = query.get("sort") ?? "joined";
  const search = query.get("q") ?? "";
  const page = Math.max(0, Number(query.get("page") ?? 0) || 0);
  const [fault, setFault] = useState("");
  const all = endpoints.value;
  const fits = (e: Endpoint) =>
    (!only || (only === "ready") === e.ready) &&
    (!search || `${e.namespace}/${e.name} ${e.address}`.toLowerCase().includes(search.toLowerCase())) &&
    (!place.value.id || e.address === place.value.id);
  const by: Record<string, (a: Endpoint, b: Endpoint) => number> = {
    waiting: (a, b) => (b.waiting ?? -1) - (a.waiting ?? -1),
    kv: (a, b) => (b.kv_cache_usage ?? -1) - (a.kv_cache_usage ?? -1),
    inflight: (a, b) => b.in_flight - a.in_flight,
    name: (a, b) => (a.name < b.name ? -1 : 1),
  };
  const shown = all.filter(fits);
  if (by[sort]) shown.sort(by[sort]);
  const pages = Math.max(1, Math.ceil(shown.length / PAGE));
  const at = Math.min(page, pages - 1);
  const drain = async (e: Endpoint) => {
    const verb = e.conditions.includes("drained") ? "undrain" : "drain";
    try {
      await post(`/api/endpoints/${segment(e.address)}/${verb}`);
      setFault("");
    } catch (error) {
      setFault(`${clean(e.name)} was not changed: ${(error as ApiError).message}`);
    }
  };
  return (
    <div class="view">
      <div class="head">
        <h1>Fleet</h1>
        <p>
          {int(all.filter((e) => e.ready).length)} of {int(all.length)} endpoints ready, {int(all.reduce((n, e) => n + e.in_flight, 0))} requests in flight. A drain ends with this process.
        </p>
      </div>
      <div class="row">
        <label>
          Search
          <input type="search" value={search} onInput={(e) => setQuery("q", e.currentTarget.value)} />
        </label>
        <label>
          State
          <select value={only} onChange={(e) => setQuery("state", e.currentTarget.value)}>
            <option value="">all</option>
            <option value="ready">ready</option>
            <option value="out">not ready</option>
          </select>
        </label>
        <label>
          Order
          <select value={sort} onChange={(e) => setQuery("sort", e.currentTarget.value)}>
            {Object.entries(SORTS).map(([key, label]) => (
              <option key={key} value={key}>
                {label}
              </option>
            ))}
          </select>
        </label>
        {pages > 1 && (
          <>
            <button type="button" disabled={at === 0} onClick={() => setQuery("page", String(at - 1))}>
              Previous
            </button>
            <span class="small quiet">
              {int(at * PAGE + 1)} to {int(Math.min(shown.length, (at + 1) * PAGE))} of {int(shown.length)}
            </span>
            <button type="button" disabled={at === pages - 1} onClick={() => setQuery("page", String(at + 1))}>
              Next
            </button>
          </>
        )}
        {place.value.id && <a href="#/fleet">Show all endpoints</a>}
      </div>
      <div role="alert">{fault && <p class="notice bad">{fault}</p>}</div>
      <section class="panel">
        <div class="scroll" tabIndex={0} role="region" aria-label="Endpoints">
          <table id="fleet" class="sides">
            <thead>
              <tr>
                <Th>Endpoint</Th>
                <Th>State</Th>
                <Th>Waiting</Th>
                <Th num>Running</Th>
                <Th>KV cache</Th>
                <Th>In flight</Th>
                <Th num>Held blocks</Th>
                <Th>Adapters</Th>
                <Th num>Scraped</Th>
                <Th><span class="visually-hidden">Action</span></Th>
              </tr>
            </thead>
            <tbody>
              {shown.slice(at * PAGE, (at + 1) * PAGE).map((e) => (
                <Row key={e.address} e={e} drain={drain} />
              ))}
            </tbody>
          </table>
        </div>
      </section>
      {place.value.id && shown[0] && <Why e={shown[0]} />}
    </div>
  );
}

function Row({ e, drain }: { e: Endpoint; drain: (e: Endpoint) => void }) {
  const history = histories.get(e.address) ?? { waiting: [], kv: [], inFlight: [] };
  const name = clean(e.name, 60);
  const drained = e.conditions.includes("drained");
  const lora = e.lora;
  return (
    <tr data-address={e.address}>
      <th scope="row">
        <a href={address("fleet", e.address)} title={`Why does ${name} get what it gets?`}>
          {name}
        </a>
        {e.name !== e.address && <div class="small quiet mono">{clean(e.address, 60)}</div>}
      </th>
      <td>
        <span class={e.ready ? "good" : "bad"}>{e.ready ? "ready" : "not ready"}</span> <span class="small quiet">for {ago(e.since_ms)}</span>
        {e.reason && <div class="small wraps reason">{clean(e.reason)}</div>}
        {e.scrape_error && <div class="small warn wraps reason">{clean(e.scrape_error)}</div>}
      </td>
      <td>
        <Spark values={history.waiting} label={`waiting at ${name}, last minute`} /> {int(e.waiting)}
      </td>
      <td class="num">{int(e.running)}</td>
      <td>
        <Spark values={history.kv} max={1} label={`KV cache of ${name}, last minute`} />{" "}
        {e.kv_cache_usage !== null && <Meter share={e.kv_cache_usage} />} {percent(e.kv_cache_usage)}
      </td>
      <td>
        <Spark values={history.inFlight} label={`in flight at ${name}, last minute`} /> {int(e.in_flight)}
        <span class="small quiet"> {int(e.in_flight_tokens)} tokens</span>
      </td>
      <td class="num">{int(e.cached_blocks)}</td>
      <td class="small">
        {lora === null ? "-" : `${lora.running.map((l) => clean(l, 40)).join(", ") || "none"} (${lora.running.length} of ${lora.max ?? "?"})`}
        {lora !== null && lora.waiting.length > 0 && <div class="quiet">waiting {lora.waiting.map((l) => clean(l, 40)).join(", ")}</div>}
      </td>
      <td class="num">{e.scrape_age_ms === null ? "never" : `${ago(e.scrape_age_ms)} ago`}</td>
      <td>
        <button type="button" onClick={() => drain(e)} aria-label={`${drained ? "Take back" : "Drain"} ${name}`}>
          {drained ? "Take back" : "Drain"}
        </button>
      </td>
    </tr>
  );
}
