// Configurations with more to show than the usual one: two phases, a shadow, a wait, prompts.
import { writeFileSync } from "node:fs";
import path from "node:path";
import { check, engines, same, serve, until } from "./harness.mjs";
import { accessible } from "./looks.mjs";
import { open, taken } from "./views.mjs";

const DISAGGREGATED = `plugins:
- {type: disagg-profile-handler, parameters: {deciders: {prefill: prefix-based-pd-decider}}}
- {type: prefix-based-pd-decider, parameters: {nonCachedTokens: 200}}
- type: decode-filter
- type: prefill-filter
- type: queue-scorer
- type: prefix-cache-scorer
schedulingProfiles:
- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: queue-scorer}, {pluginRef: prefix-cache-scorer, weight: 3}]}
- {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: queue-scorer}]}
`;
const SHADOW = `plugins:
- {type: by-label, name: only-d1, parameters: {label: place, validValues: ["second"]}}
- type: queue-scorer
schedulingProfiles:
- {name: default, plugins: [{pluginRef: only-d1}, {pluginRef: queue-scorer}]}
`;
const DRAWN = `plugins:
- {type: header-label-affinity-scorer, parameters: {headerName: x-place, labelKey: place}}
- type: queue-scorer
- type: weighted-random-picker
schedulingProfiles:
- {name: default, plugins: [{pluginRef: header-label-affinity-scorer}, {pluginRef: queue-scorer}, {pluginRef: weighted-random-picker}]}
`;
const HELD = `plugins:
- {type: burst-prefix-cache-producer, parameters: {windowDurationMs: 40}}
- type: prefix-cache-scorer
- type: max-score-picker
`;

/** The API's shares and means as the page writes them. */
const percent = (share) => `${(share * 100).toFixed(1)} %`;

/** A document's file. */
function written(scratch, name, text) {
  const file = path.join(scratch, `${name}.yaml`);
  writeFileSync(file, text);
  return file;
}

/** A server under a document, in front of these engines, all ready and looked at. */
async function fleet(name, scratch, list, document, flags = []) {
  const files = ["--endpoints-file", await engines(name, scratch, list), "--config-file", written(scratch, name, document)];
  const server = await serve(name, [...files, ...flags]);
  await until(async () => (await server.get("/api/endpoints")).endpoints.filter((e) => e.ready && e.waiting !== null).length === list.length, 15_000);
  return server;
}

const role = (name, role, place) => ({ name, labels: { "llm-d.ai/role": role, place } });

/** Why an endpoint gets what it gets, as the page has it: cause by cause, how many decisions. */
async function causes(page, server, name, got, of) {
  const { address } = (await server.get("/api/endpoints")).endpoints.find((e) => e.name === name);
  await page.goto(`${server.url}#/fleet/${encodeURIComponent(address)}`);
  const title = `${name} got ${got} of the last ${of} decisions`;
  check(await until(async () => (await page.locator("#why h2").innerText()) === title), title, await page.locator("#why").innerText());
  const rows = await page.locator("#why tbody tr").all();
  const cells = await Promise.all(rows.map((row) => row.locator("th, td").allInnerTexts()));
  const told = {};
  for (const [cause, times] of cells) {
    const kind = cause.split(/[:;,]/)[0];
    told[kind] = (told[kind] ?? 0) + Number(times);
  }
  return told;
}

export async function disaggregation(page, scratch) {
  const list = [role("p0", "prefill", "first"), role("p1", "prefill", "first"), role("d0", "decode", "first"), role("d1", "decode", "second")];
  const server = await fleet("phases", scratch, list, DISAGGREGATED, ["--shadow-config-file", written(scratch, "shadow", SHADOW)]);
  for (const topic of ["bridges", "tunnels", "bridges", "points", "tunnels", "bridges"]) await server.chat(`Tell me of ${topic}. `.repeat(120));
  // Prompts that share nothing are drawn for, until the shadow has agreed and disagreed.
  for (let n = 0; n < 20; n += 1) {
    const { same: agreed, different } = await server.get("/api/shadow");
    if (agreed && different) break;
    await server.complete(JSON.stringify({ model: "demo", max_tokens: 8, messages: [{ role: "user", content: `${n} wagons. `.repeat(120) }] }));
  }
  const { decisions } = await server.get("/api/decisions?limit=100");
  const involved = (d) => new Set(d.profiles.flatMap((p) => p.picked)).size;
  const apart = decisions.filter((d) => involved(d) > 1);
  const together = decisions.filter((d) => involved(d) === 1);
  check(apart.length > 0 && together.length > 0, "some are served apart, some together", `${apart.length} and ${together.length}`);

  for (const record of [apart[0], together[0]]) {
    await page.goto(`${server.url}#/pipeline/${record.id}`);
    await until(async () => (await page.locator("#flow").getAttribute("data-decision")) === record.id);
    same(await page.locator("table.candidates").count(), record.profiles.length, "a table per profile that ran");
    const flow = await page.locator("#flow").innerText();
    for (const [at, profile] of record.profiles.entries()) {
      const pick = profile.candidates.find((c) => c.endpoint === profile.picked[0]);
      const table = page.locator("table.candidates").nth(at);
      check((await table.locator("tr.pick").innerText()).includes(pick.endpoint), `the pick of ${profile.name} is marked`);
      check((await table.locator("tr.pick").innerText()).includes(pick.total.toFixed(3)), `its sum in ${profile.name}`);
      same(await table.locator("tr.dropped").count(), profile.candidates.filter((c) => c.total === null).length, `who was dropped in ${profile.name}`);
      if (record.profiles.length > 1) {
        for (const step of ["Filter", "Weighted sum", "Pick"]) check(flow.includes(`${step} (${profile.name})`), `${step} of ${profile.name} is a step`, flow);
        check((await page.locator("#flow .why").nth(at).innerText()).startsWith(`${profile.name}: `), `${profile.name} has its reason`);
      }
    }
    const told = record.shadow.differs ? `would have chosen ${record.shadow.endpoint}` : "agrees";
    check((await page.locator("main").innerText()).includes(told), "what the shadow would have done", told);
  }
  // Where a request went is where it is decoded, whatever profile ran last.
  for (const record of decisions) {
    const serving = record.profiles.flatMap((p) => p.candidates).find((c) => c.address === record.outcome.endpoint).endpoint;
    const row = page.locator("#decisions tbody tr", { hasText: record.id });
    same((await row.locator("td").nth(2).innerText()).trim(), serving, `where ${record.id} went`);
  }

  await open(page, server, "phases");
  check(await until(async () => (await page.locator("#phases caption").innerText()).includes(`${apart.length} of the last ${decisions.length} decisions`)), "how many were served apart");
  for (const record of decisions) {
    const text = await page.locator("#phases tbody tr", { hasText: record.id }).innerText();
    const phases = record.profiles.map((p) => `${p.name}: ${p.picked[0]}`).join(", ");
    check(text.includes(phases) && text.includes(`${record.prompt_tokens_estimated.toLocaleString("en-US")} tokens`), `phases of ${record.id}`, `${text} lacks ${phases}`);
  }
  check((await page.locator("main").innerText()).includes("prefix-based-pd-decider"), "the decider in force is told");
  await accessible(page, "phases with a handler");

  await open(page, server, "tuning");
  await page.getByRole("button", { name: "Use low-latency" }).click();
  await until(async () => (await page.locator("#yaml").innerText()).includes("disagg-profile-handler"));
  taken(await page.locator("#yaml").innerText(), "an export with two profiles");

  await open(page, server, "config");
  const report = await server.get("/api/shadow");
  check(report.different > 0 && report.same > 0, "the shadow disagrees now and then", JSON.stringify(report).slice(0, 200));
  check(await until(async () => (await page.locator("#shadow").innerText()).includes(`${percent(report.different_share)} of ${report.decisions} decisions`)), "the share of disagreement");
  const shown = await page.locator("#shadow").innerText();
  for (const signal of Object.keys(report.mean.live)) {
    const [live, other] = [report.mean.live[signal], report.mean.shadow[signal]].map((v) => v.toFixed(1));
    check(new RegExp(`${signal.replaceAll("_", " ")}\\s+${live}\\s+${other}`).test(shown), `the means of ${signal}`, shown);
  }
  await accessible(page, "configuration with a shadow");

  await server.complete('{"model":');
  const all = (await server.get("/api/decisions?limit=100")).decisions;
  same(all.filter((d) => d.profiles.length === 0).length, 1, "what cannot be read is refused before");
  for (const { name } of list) {
    const got = all.filter((d) => d.profiles.some((p) => p.picked[0] === name)).length;
    const told = await causes(page, server, name, got, all.length);
    same(told["refused before any endpoint was looked at"], 1, `the refusal is told of ${name}`);
    if (name.startsWith("p")) same(told["dropped by decode-filter"], together.length, `what was served together drops ${name}`);
    same(got + Object.values(told).reduce((a, b) => a + b), all.length, `every decision has its cause for ${name}`);
  }
  await server.stop();
}

/** Two profiles that choose the same engine are one engine. */
export async function oneEngine(page, scratch) {
  const server = await fleet("one-engine", scratch, [role("b0", "both", "first")], DISAGGREGATED);
  await server.chat("Tell me of viaducts. ".repeat(120));
  const [record] = (await server.get("/api/decisions?limit=1")).decisions;
  same(record.profiles.map((p) => p.picked[0]).join(), "b0,b0", "both phases choose it");
  await open(page, server, "phases");
  const told = () => page.locator("#phases caption").innerText();
  check(await until(async () => (await told()).startsWith("0 of the last 1 decisions")), "which is one engine", await told());
  await server.stop();
}

/** A picker that draws: who is picked need not be one of the highest. */
export async function drawn(page, scratch) {
  const at = (name, place) => ({ name, labels: { place } });
  const server = await fleet("drawn", scratch, [at("a", "first"), at("b", "first"), at("c", "second")], DRAWN, ["--allow-experimental-plugins"]);
  const picks = {};
  for (let n = 0; n < 100 && !(picks.a && picks.c); n += 1) {
    await server.chat(`Draw ${n}`, "demo", { "x-place": "first" });
    const record = await server.get("/api/decisions/last");
    picks[record.profiles[0].picked[0]] ??= record;
  }
  const says = { a: "a shared the highest sum, 2.000, with 1 more", c: "weighted-random-picker chose c, though it was not highest: 1.000 against 2.000 of a" };
  for (const [name, sentence] of Object.entries(says)) {
    const { id, profiles } = picks[name];
    same(profiles[0].ties.join(), "a,b", "two share the highest sum");
    await page.goto(`${server.url}#/pipeline/${id}`);
    const why = () => page.locator("#flow .why").innerText();
    check(await until(async () => (await why()).startsWith(sentence)), `why ${name} was drawn`, await why());
  }
  const { decisions } = await server.get("/api/decisions?limit=100");
  const went = (name) => decisions.filter((d) => d.profiles[0].picked[0] === name).length;
  const told = await causes(page, server, "b", went("b"), decisions.length);
  same(told["scored higher than the pick"], went("c"), "higher than the one that was drawn");
  same(told["as good as the pick"], went("a"), "as good as the one that was drawn");
  await server.stop();
}

/** A document that is refused when it is read again is told of everywhere, and no more once it is mended. */
export async function refusedReload(page, scratch) {
  const file = written(scratch, "reloaded", SHADOW);
  const server = await serve("reloaded", ["--config-file", file]);
  await open(page, server, "config");
  written(scratch, "reloaded", SHADOW.replaceAll("queue-scorer", "qeue-scorer"));
  server.child.kill("SIGHUP");
  await until(async () => (await server.get("/api/config")).last_reload?.result === "refused");
  const [fault] = (await server.get("/api/config")).last_reload.error.split("\n");
  const faults = page.locator("#warnings");
  check(await until(async () => (await faults.innerText()).includes(fault)), "the fault is told", fault);
  same(await faults.locator(".good").count(), 0, "and nothing in green");
  await open(page, server, "fleet");
  check(await until(async () => page.locator("#refused").isVisible(), 15_000), "the header says so in every view");
  await accessible(page, "a refused reload");
  written(scratch, "reloaded", SHADOW);
  server.child.kill("SIGHUP");
  check(await until(async () => (await page.locator("#refused").count()) === 0, 15_000), "until it is mended");
  await server.stop();
}

export async function heldBack(page, scratch) {
  const server = await serve("held", ["--config-file", written(scratch, "held", HELD), "--allow-experimental-plugins"]);
  await server.chat("Hold the line. ".repeat(40));
  const [record] = (await server.get("/api/decisions?limit=1")).decisions;
  check(record.steps_us.wait > 30_000, "it was held back", record.steps_us.wait);
  await page.goto(`${server.url}#/pipeline/${record.id}`);
  const told = `held back for ${Math.round(record.steps_us.wait).toLocaleString("en-US")} us`;
  check(await until(async () => (await page.locator("#flow").innerText()).includes(told)), "the wait is told", await page.locator("#flow").innerText());
  await server.stop();
}

export async function prompts(page, silent) {
  await open(page, silent, "prefix");
  check(await until(async () => (await page.locator("main").innerText()).includes("never text")), "without the flag there is no text");
  const plain = await silent.get("/api/decisions/last");
  check(!("prompt_text" in plain) && !(await silent.get("/api/prefix")).branches.some((b) => "text" in b), "nor in the API");
  const server = await serve("prompts", ["--show-prompts"]);
  const marked = `<img src=x onerror=alert(1)> of\n\t${"signals and gates ".repeat(60)}`;
  for (let n = 0; n < 4; n += 1) await server.chat(`${marked} ${n}`);
  const record = await server.get("/api/decisions/last");
  check(record.prompt_text.includes("You answer questions about railways") && record.prompt_text.length <= 4_096, "the record has the beginning", record.prompt_text.slice(0, 100));
  await page.goto(`${server.url}#/pipeline/${record.id}`);
  await page.waitForSelector("#prompt");
  same((await page.locator("#prompt").innerText()).trim().slice(0, 500), record.prompt_text.trim().slice(0, 500), "the page shows it");
  check((await page.locator("#prompt").innerText()).includes("of\n\tsignals and gates"), "line by line");
  await open(page, server, "prefix");
  const known = (await server.get("/api/prefix")).branches.filter((b) => b.text);
  check(known.some((b) => b.text.includes("You answer questions about railways")), "the tree tells what a prefix says", JSON.stringify(known).slice(0, 300));
  await until(async () => (await page.locator("#prefixes tbody tr").count()) > 0);
  const onLine = (text) => text.trim().replace(/\s+/g, " ");
  const cells = await page.locator("#prefixes tbody tr td:last-child").allInnerTexts();
  check(cells.some((c) => known.some((b) => onLine(b.text).startsWith(onLine(c.replace(/\.\.\.$/, ""))))), "and the page shows that", cells.join(" | ").slice(0, 300));
  same(await page.evaluate(() => document.querySelectorAll("main img").length), 0, "as text");
  await accessible(page, "prefix with prompts");
  await server.stop();
}
