// Each view shows what the API says.
import { spawnSync } from "node:child_process";
import { check, same, sleep, until } from "./harness.mjs";

const number = (text) => Number(text.replace(/[^0-9.-]/g, ""));

export const VIEWS = ["pipeline", "fleet", "prefix", "race", "phases", "tuning", "config"];

export async function open(page, server, view) {
  await page.goto(`${server.url}#/${view}`);
  await page.waitForSelector("h1");
  await until(async () => (await page.locator("[data-state]").getAttribute("data-state")) === "live");
}

export async function pipeline(page, server) {
  await open(page, server, "pipeline");
  await page.waitForSelector("#decisions tbody tr");
  await page.keyboard.press("f");
  check(await page.getByRole("button", { name: /Frozen/ }).isVisible(), "f freezes");
  const first = page.locator("#decisions tbody tr").first();
  const id = (await first.locator("a").innerText()).trim();
  await sleep(1_500);
  same((await page.locator("#decisions tbody tr").first().locator("a").innerText()).trim(), id, "a frozen list stands still");
  await first.locator("a").click();
  await until(() => page.url().includes(id));
  const record = await server.get(`/api/decisions/${id}`);
  const profile = record.profiles[0];
  same(await page.locator("#flow").getAttribute("data-decision"), id, "the way shown is that of the chosen decision");
  const rows = page.locator("table.candidates tbody tr");
  same(await rows.count(), profile.candidates.length, "every candidate has a row");
  for (const candidate of profile.candidates) {
    const row = rows.filter({ has: page.locator("th", { hasText: new RegExp(`(^|\\s)${candidate.endpoint}(\\s|$)`) }) });
    const text = await row.innerText();
    if (candidate.total === null) {
      check(text.includes(candidate.dropped_by) && text.includes(candidate.reason), `${candidate.endpoint} says why it was dropped`, text);
      continue;
    }
    check(text.includes(candidate.total.toFixed(3)), `total of ${candidate.endpoint}`, `${text} lacks ${candidate.total.toFixed(3)}`);
    for (const [name, score] of Object.entries(candidate.scores)) {
      const cell = `${score.raw.toFixed(2)} ${(Math.max(0, Math.min(1, score.raw)) * score.weight).toFixed(3)}`;
      check(text.replace(/\s+/g, " ").includes(cell), `${name} of ${candidate.endpoint}`, `${text} lacks ${cell}`);
    }
  }
  check((await page.locator("tr.pick th").last().innerText()).includes(profile.picked[0]), "the pick is marked");
  const rated = profile.candidates.filter((c) => c.total !== null).map((c) => c.total).sort((a, b) => b - a);
  const reason = await page.locator("#flow .why").innerText();
  check(reason.includes(profile.picked[0]) && reason.includes(rated[0].toFixed(3)), "a sentence says why", reason);
  check(profile.ties.length > 1 || rated.length < 2 || reason.includes(`against ${rated[1].toFixed(3)}`), "and by how much", reason);
  for (const step of ["read", "resolve", "gather", "schedule", "send"]) check((await page.locator("#flow header").innerText()).includes(`${step} `), `the step ${step} has its time`);
  const flow = await page.locator("#flow").innerText();
  check(flow.includes(`${record.prompt_tokens_estimated.toLocaleString("en-US")} tokens`), "tokens of the arrival", flow);
  await page.getByRole("button", { name: /^Step/ }).click();
  await until(() => !page.url().includes(id));
  const next = page.url().split("/").pop();
  check(next > id, "a step goes to the next decision", `${next} after ${id}`);
  await page.keyboard.press("j");
  check(await until(() => page.url().includes(id)), "j moves down the list");
  await page.getByLabel("Endpoint").selectOption({ index: 1 });
  const wanted = await page.getByLabel("Endpoint").inputValue();
  await sleep(200);
  const to = await page.locator("#decisions tbody tr td:nth-child(4)").allInnerTexts();
  check(to.length > 0 && to.every((t) => t === wanted), "the filter by endpoint leaves only that one", to.join());
  check(page.url().includes("endpoint="), "the filter is in the address");
}

/** At more than the page takes, it says that it shows a sample; at less, that it shows all. */
export async function sampled(page, server, isSample) {
  await open(page, server, "pipeline");
  // Time for a sample to show.
  if (!isSample) await sleep(3_000);
  const said = () => page.locator("main .head p").innerText();
  check(await until(async () => (await said()).startsWith(isSample ? "A sample: " : "Every decision"), 8_000), "it says whether it shows all", await said());
}

/** Longer than the page keeps decisions, a frozen list stands as it was, and what came waits. */
export async function frozen(page, server) {
  await open(page, server, "pipeline");
  await page.waitForSelector("#decisions tbody tr");
  await page.keyboard.press("f");
  const before = await page.locator("#decisions caption").innerText();
  const id = await page.locator("#decisions tbody tr a").first().innerText();
  const waiting = async () => number((await page.getByRole("button", { name: /^Step/ }).innerText()).match(/\((.*) waiting/)[1]);
  check(await until(async () => (await waiting()) === 500, 30_000), "what comes waits", await waiting());
  same(await page.locator("#decisions caption").innerText(), before, "what was held is held");
  same(await page.locator("#decisions tbody tr a").first().innerText(), id, "in its order");
  await page.getByLabel("Outcome").selectOption("shutdown");
  check(await until(async () => (await page.locator("main").innerText()).includes("No decision fits")), "a filter that leaves none says so");
  await page.getByLabel("Outcome").selectOption("");
  await page.getByRole("button", { name: /^Step/ }).click();
  check(await until(async () => (await page.locator("#decisions tbody tr a").first().innerText()) > id), "a step takes one of them");
}

export async function fleet(page, server) {
  await open(page, server, "fleet");
  const { endpoints } = await server.get("/api/endpoints");
  await until(async () => (await page.locator("#fleet tbody tr").count()) === endpoints.length);
  same(await page.locator("#fleet tbody tr").count(), endpoints.length, "every endpoint has a row");
  for (const e of endpoints) {
    const text = await page.locator(`#fleet tr[data-address="${e.address}"]`).innerText();
    check(text.includes(e.name) && text.includes(e.ready ? "ready" : "not ready"), `${e.name} and its state`, text);
    if (e.reason) check(text.includes(e.reason), `${e.name} says why`, text);
  }
  const target = endpoints.find((e) => e.ready);
  const row = page.locator(`#fleet tr[data-address="${target.address}"]`);
  const held = async () => number(await row.locator("td").nth(5).innerText());
  const now = async () => (await server.get("/api/endpoints")).endpoints.find((e) => e.address === target.address);
  check(await until(async () => Math.abs((await held()) - (await now()).cached_blocks) <= 60), "held blocks follow the API");
  await row.getByRole("button", { name: /Drain/ }).click();
  check(await until(async () => (await now()).conditions.includes("drained")), "the button drains");
  check(await until(async () => (await row.innerText()).includes("drained by hand")), "and the row says so");
  await row.getByRole("button", { name: /Take back/ }).click();
  check(await until(async () => (await now()).ready), "the button takes back");
}

export async function prefix(page, server) {
  await open(page, server, "prefix");
  check(await until(async () => (await page.locator("#prefixes tbody tr").count()) > 1), "prefixes are listed");
  const same2 = await until(async () => {
    const tree = await server.get("/api/prefix");
    const rows = await page.locator("#inventory tbody tr").allInnerTexts();
    return tree.endpoints.every((e, at) => {
      const [name, blocks] = rows[at].split(/\t/);
      return name.trim() === e.endpoint && Math.abs(number(blocks) - e.blocks) <= 40;
    });
  });
  check(same2, "the inventory has the numbers of the API");
  const hottest = page.locator("#prefixes tbody tr").first();
  const id = (await hottest.locator("button").innerText()).trim();
  const branch = (await server.get("/api/prefix")).branches.find((b) => b.id.startsWith(id));
  check(branch && branch.prompts > 5, "the hottest prefix is the one that all share", JSON.stringify(branch));
  await hottest.locator("button").focus();
  await page.keyboard.press("Enter");
  check(await page.locator("svg.tree rect.on").isVisible(), "choosing a prefix marks it in the tree");
}

/** A figure of the API, and the cell that shows it: "41 ms", "1.20 s", "71.3 %", "12,031". */
function shows(cell, key, value) {
  const shown = number(cell.trim().split(/\s/)[0]);
  const [unit, least] = key === "hit_ratio" ? [0.01, 0.0005] : !key.startsWith("ttft") ? [1, 0.5] : /^\S+ ms/.test(cell.trim()) ? [1e-3, 5e-4] : [1, 5e-3];
  return Math.abs(shown * unit - value) <= Math.max(least, 0.006 * Math.abs(value));
}

/** Starts a race as it is set up, waits for its end, and compares every lane with the API. */
async function raced(page, server, what) {
  const before = page.url();
  await page.getByRole("button", { name: "Start the race" }).click();
  if (!check(await until(() => page.url() !== before, 10_000), `${what}: the race has an address`, await page.locator("main").innerText())) return;
  const id = page.url().split("/").pop();
  const over = await until(async () => (await server.get(`/api/race/${id}`)).state !== "running", 90_000);
  const told = await server.get(`/api/race/${id}`);
  check(over && told.state === "done", `${what}: it comes to an end`, `${told.state} ${told.error}`);
  await until(async () => (await page.locator("main header span").first().innerText()) === "done");
  same(await page.locator("#race tbody tr").count(), told.policies.length, `${what}: every policy has a lane`);
  const heads = await page.locator("#race thead th").allInnerTexts();
  same(heads.length, 1 + LANES.length, `${what}: the figures that matter`);
  check((await page.locator("main").innerText()).includes(told.set_up.profile), `${what}: what is simulated is told`);
  for (const lane of told.policies) {
    const cells = await page.locator("#race tbody tr", { has: page.getByRole("rowheader", { name: lane.policy, exact: true }) }).locator("th, td").allInnerTexts();
    for (const [key, label] of LANES) {
      const at = heads.findIndex((h) => h.trim() === label);
      check(at > 0 && shows(cells[at], key, lane.metrics[key].mean), `${what}: ${label} of ${lane.policy}`, `${cells[at]}, should be ${lane.metrics[key].mean}`);
    }
  }
}

const LANES = [
  ["ttft_mean", "Average TTFT"],
  ["ttft_p95", "TTFT p95"],
  ["hit_ratio", "Cache hit"],
  ["completed", "Completed"],
  ["re_prefilled_tokens", "Re-prefilled tokens"],
];

export async function race(page, server) {
  await open(page, server, "race");
  const offers = await server.get("/api/race");
  check(await until(async () => (await page.getByRole("checkbox").count()) === offers.policies.length), "every policy is offered");
  same(await page.getByLabel("Workload").locator("option").count(), offers.workloads.length, "every workload is offered");
  await raced(page, server, "the four policies");
  await page.getByLabel("every figure").check();
  const figures = Object.keys((await server.get(`/api/race/${page.url().split("/").pop()}`)).policies[0].metrics);
  same(await page.locator("#race thead th").count(), 1 + figures.length, "every figure, when asked for");
  await page.getByLabel("every figure").uncheck();
  await page.getByLabel("Workload").selectOption("recorded");
  await page.getByLabel("random", { exact: true }).uncheck();
  await page.getByLabel("Repetitions").fill("1");
  await raced(page, server, "own traffic");
  const { set_up, warnings } = await server.get(`/api/race/${page.url().split("/").pop()}`);
  check(JSON.stringify(set_up).includes("recorded"), "own traffic was raced on", JSON.stringify(set_up).slice(0, 300));
  check(warnings.some((w) => w.includes("--record-block-hashes")), "without hashes, the API says so", JSON.stringify(warnings));
  const said = await page.locator("main").innerText();
  for (const warning of warnings) check(said.includes(warning), "and the page", warning);
  await page.getByLabel("Repetitions").fill("99");
  await page.evaluate(() => document.querySelector("form.body").setAttribute("novalidate", ""));
  await page.getByRole("button", { name: "Start the race" }).click();
  check(await until(async () => (await page.locator("main").innerText()).includes("`seeds` is to be from 1 to 20")), "what is wrong is said in the server's words");
}

export async function phases(page, server) {
  await open(page, server, "phases");
  const shown = async (query) => {
    const p = await server.get(`/api/phases?${query}`);
    const want = p.threshold_tokens === null ? "never" : `${p.threshold_tokens.toLocaleString("en-US")} tokens`;
    const title = p.at.disaggregate ? "Apart is faster" : "Together is faster";
    return until(async () => {
      const text = await page.locator("main").innerText();
      return text.includes(want) && text.includes(title);
    });
  };
  check(await shown("model=llama-3.1-70b&prompt=8192&bandwidth=45000000000&decoding=32&stall_weight=0.02"), "break-even is that of the API");
  await page.getByLabel("Between engines").selectOption({ index: 0 });
  check(await shown("model=llama-3.1-70b&prompt=8192&bandwidth=1170000000&decoding=32&stall_weight=0.02"), "and follows the set-up");
  check(page.url().includes("bandwidth="), "which is in the address");
  check(await page.locator(".plot canvas").isVisible(), "the curve is drawn");
}

/** Whether `pointsman check` takes a document. */
export function taken(yaml, what) {
  const { status, stdout } = spawnSync(process.env.POINTSMAN, ["check", "-"], { input: yaml, encoding: "utf8" });
  check(status === 0, `${what} is a document that check takes`, stdout);
}

export async function tuning(page, server) {
  await open(page, server, "tuning");
  check(await until(async () => (await page.locator("#presets .card").count()) === 7), "six presets and what is in force");
  await page.getByRole("button", { name: "Use low-latency" }).click();
  await until(async () => (await page.locator("#weights").innerText()).includes("0.40"));
  const weights = { "queue-scorer": 0.4, "kv-cache-utilization-scorer": 0.3, "prefix-cache-scorer": 0.25, "lora-affinity-scorer": 0.05, "active-request-scorer": 0 };
  const agrees = await until(async () => {
    const r = await server.get("/api/rescore", { method: "POST", body: JSON.stringify({ weights, limit: 100 }) });
    const text = await page.locator("#rescored").innerText();
    return text.includes(`${r.different} of ${r.decisions}`);
  }, 15_000);
  check(agrees, "what would have changed is what the API says");
  const slider = page.getByLabel("queue-scorer");
  await slider.focus();
  const before = await slider.inputValue();
  await page.keyboard.press("ArrowRight");
  check((await slider.inputValue()) !== before, "sliders move by keyboard");
  const yaml = await page.locator("#yaml").innerText();
  check(yaml.includes("kind: EndpointPickerConfig") && yaml.includes("pluginRef: prefix-cache-scorer"), "the document has the weights", yaml);
  taken(yaml, "what is exported");
  return yaml;
}

export async function config(page, server) {
  await open(page, server, "config");
  const now = await server.get("/api/config");
  check(await until(async () => (await page.locator("#plugins details").count()) === now.config.plugins.length), "every plugin is listed");
  check((await page.locator("main").innerText()).includes(`Version ${now.version} is in force`), "the version");
  same(await page.locator("#plugins summary .tag").count(), now.config.plugins.filter((p) => p.injected).length, "defaults are marked");
  same(await page.locator("#warnings .notice").count(), now.warnings.length, "every warning is shown");
  await page.locator("#plugins summary").first().focus();
  await page.keyboard.press("Enter");
  check(await page.locator("#plugins details[open]").first().isVisible(), "details open by keyboard");
}
