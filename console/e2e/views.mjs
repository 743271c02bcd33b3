// Each view shows what the API says.
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

export async function race(page, server) {
  await open(page, server, "race");
  await page.getByRole("button", { name: "Start the race" }).click();
  const known = (await fetch(`${server.url}api/race`, { method: "POST", body: "{}" })).status !== 404;
  if (known) check(await until(async () => (await page.locator("#race tbody tr").count()) > 0, 60_000), "a race has lanes");
  else check(await until(async () => (await page.locator("main").innerText()).includes("not available in this build")), "without a laboratory the view says so");
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
