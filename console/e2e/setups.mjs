// Configurations with more to show than the usual one: two phases, a shadow, a wait, prompts.
import { writeFileSync } from "node:fs";
import path from "node:path";
import { check, engines, same, serve, until } from "./harness.mjs";
import { accessible } from "./looks.mjs";
import { open } from "./views.mjs";

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
const HELD = `plugins:
- {type: burst-prefix-cache-producer, parameters: {windowDurationMs: 40}}
- type: prefix-cache-scorer
- type: max-score-picker
`;

/** The API's shares and means as the page writes them. */
const percent = (share) => `${(share * 100).toFixed(1)} %`;

export async function disaggregation(page, scratch) {
  const [config, shadow] = [path.join(scratch, "disagg.yaml"), path.join(scratch, "shadow.yaml")];
  writeFileSync(config, DISAGGREGATED);
  writeFileSync(shadow, SHADOW);
  const role = (name, role, place) => ({ name, labels: { "llm-d.ai/role": role, place } });
  const list = [role("p0", "prefill", "first"), role("p1", "prefill", "first"), role("d0", "decode", "first"), role("d1", "decode", "second")];
  const file = await engines("phases", scratch, list);
  const server = await serve("phases", ["--endpoints-file", file, "--config-file", config, "--shadow-config-file", shadow]);
  await until(async () => (await server.get("/api/endpoints")).endpoints.filter((e) => e.ready).length === 4, 15_000);
  for (const topic of ["bridges", "tunnels", "bridges", "points", "tunnels", "bridges"]) await server.chat(`Tell me of ${topic}. `.repeat(120));
  const { decisions } = await server.get("/api/decisions?limit=100");
  const picks = (d) => d.profiles.filter((p) => p.picked.length);
  const apart = decisions.filter((d) => picks(d).length > 1);
  const together = decisions.filter((d) => picks(d).length === 1);
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

  await open(page, server, "config");
  const report = await server.get("/api/shadow");
  check(report.different > 0, "the shadow disagrees now and then", JSON.stringify(report).slice(0, 200));
  check(await until(async () => (await page.locator("#shadow").innerText()).includes(`${percent(report.different_share)} of ${report.decisions} decisions`)), "the share of disagreement");
  const shown = await page.locator("#shadow").innerText();
  for (const signal of Object.keys(report.mean.live)) {
    const [live, other] = [report.mean.live[signal], report.mean.shadow[signal]].map((v) => v.toFixed(1));
    check(new RegExp(`${signal.replaceAll("_", " ")}\\s+${live}\\s+${other}`).test(shown), `the means of ${signal}`, shown);
  }
  await accessible(page, "configuration with a shadow");
  await server.stop();
}

export async function heldBack(page, scratch) {
  const config = path.join(scratch, "held.yaml");
  writeFileSync(config, HELD);
  const server = await serve("held", ["--config-file", config, "--allow-experimental-plugins"]);
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
  const marked = `<img src=x onerror=alert(1)> of ${"signals and gates ".repeat(60)}`;
  for (let n = 0; n < 4; n += 1) await server.chat(`${marked} ${n}`);
  const record = await server.get("/api/decisions/last");
  check(record.prompt_text.includes("You answer questions about railways") && record.prompt_text.length <= 4_096, "the record has the beginning", record.prompt_text.slice(0, 100));
  await page.goto(`${server.url}#/pipeline/${record.id}`);
  await page.waitForSelector("#prompt");
  same((await page.locator("#prompt").innerText()).trim().slice(0, 500), record.prompt_text.trim().slice(0, 500), "the page shows it");
  await open(page, server, "prefix");
  const known = (await server.get("/api/prefix")).branches.filter((b) => b.text);
  check(known.some((b) => b.text.includes("You answer questions about railways")), "the tree tells what a prefix says", JSON.stringify(known).slice(0, 300));
  await until(async () => (await page.locator("#prefixes tbody tr").count()) > 0);
  const cells = await page.locator("#prefixes tbody tr td:last-child").allInnerTexts();
  check(cells.some((c) => known.some((b) => b.text.startsWith(c.replace(/\.\.\.$/, "").trim()))), "and the page shows that", cells.join(" | ").slice(0, 300));
  same(await page.evaluate(() => document.querySelectorAll("main img").length), 0, "as text");
  await accessible(page, "prefix with prompts");
  await server.stop();
}
