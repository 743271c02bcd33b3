// What a person comes with, answered from the console alone: by mouse, and by keyboard. No answer takes more than three steps.
import { check, same, until } from "./harness.mjs";
import { open } from "./views.mjs";

const MOST_STEPS = 3;

/** A person at the page: each thing done is a step. */
class Person {
  steps = 0;
  constructor(page, hand) {
    Object.assign(this, { page, hand });
  }

  async view(number, name) {
    this.steps += 1;
    if (this.hand === "mouse") await this.page.getByRole("link", { name, exact: true }).click();
    else await this.page.keyboard.press(String(number));
  }

  /** Types into a field that has a key, and ends with Enter. */
  async ask(label, key, text) {
    this.steps += 1;
    if (this.hand === "mouse") await this.page.getByLabel(label).click();
    else await this.page.keyboard.press(key);
    await this.page.keyboard.type(text);
    await this.page.keyboard.press("Enter");
  }

  /** Opens something: with a click, or by going there with Tab. */
  async choose(target) {
    this.steps += 1;
    if (this.hand === "mouse") return target.click();
    const there = () => target.evaluate((e) => e === document.activeElement);
    for (let presses = 0; presses < 80 && !(await there()); presses += 1) await this.page.keyboard.press("Tab");
    check(await there(), "it is reached with Tab");
    await this.page.keyboard.press("Enter");
  }

  done(what) {
    check(this.steps <= MOST_STEPS, `${what} takes at most ${MOST_STEPS} steps`, this.steps);
  }
}

const shown = (page, where, text) => until(async () => (await page.locator(where).innerText()).includes(text));

async function whichPod(page, server, hand) {
  const request = `order-${hand}-4711`;
  await server.chat("Why was my train late? ".repeat(30), "demo", { "x-request-id": request });
  for (let n = 0; n < 120; n += 20) await Promise.all(Array.from({ length: 20 }, (_, m) => server.chat(`Something else, number ${n + m}`)));
  const [record] = (await server.get(`/api/decisions?request_id=${request}`)).decisions;
  const pick = record.profiles[0].picked[0];
  const address = record.profiles[0].candidates.find((c) => c.endpoint === pick).address;
  same(address, record.outcome.endpoint, "the pick served");
  await open(page, server, "pipeline");
  const person = new Person(page, hand);
  await person.ask("Find", "/", request);
  check(await shown(page, "#flow", record.id), "the request is found by its id");
  const why = await page.locator("#flow .why").innerText();
  const best = record.profiles[0].candidates.filter((c) => c.total !== null).map((c) => c.total).sort((a, b) => b - a);
  check(why.startsWith(pick) && why.includes(best[0].toFixed(3)), "a sentence names the pod and its sum", why);
  check((await page.locator("tr.pick").innerText()).includes(pick), "its row is marked");
  check((await page.locator("main").innerText()).includes(request), "the record has the request's id");
  person.done("which pod served X, and why");

  await page.getByLabel("Find").fill("no-such-request");
  await page.getByLabel("Find").press("Enter");
  check(await shown(page, "main", "Nothing on record of no-such-request"), "what is not on record is said");
}

async function whyNothing(page, server, hand) {
  await open(page, server, "pipeline");
  const person = new Person(page, hand);
  await person.view(2, "Fleet");
  const { endpoints } = await server.get("/api/endpoints");
  const d = endpoints.find((e) => e.name === "D");
  check(await shown(page, `#fleet tr[data-address="${d.address}"]`, d.reason), "the row of D says why", d.reason);
  await person.choose(page.locator(`#fleet tr[data-address="${d.address}"] a`));
  const { decisions } = await server.get("/api/decisions?limit=100");
  check(await shown(page, "#why", `D got 0 of the last ${decisions.length} decisions`), "how much it got");
  const dropped = decisions.flatMap((x) => x.profiles[0]?.candidates ?? []).filter((c) => c.endpoint === "D" && c.dropped_by === "not-ready").length;
  const [cause, times] = await page.locator("#why tbody tr").first().locator("th, td").allInnerTexts();
  check(cause.startsWith("dropped by not-ready") && Math.abs(Number(times) - dropped) <= 1, "what kept it, and how often", `${cause} ${times}, should be ${dropped}`);
  person.done("why D gets nothing");

  // One that is ready, too, is told of in the numbers of the records.
  const other = endpoints.find((e) => e.ready);
  await page.goto(`${server.url}#/fleet/${encodeURIComponent(other.address)}`);
  const chosen = decisions.filter((x) => x.profiles[0]?.picked[0] === other.name).length;
  check(await shown(page, "#why", `${other.name} got ${chosen} of the last ${decisions.length} decisions`), "a ready one has its share");
}

async function hottest(page, server, hand) {
  await open(page, server, "pipeline");
  const person = new Person(page, hand);
  await person.view(3, "Prefix");
  const { branches, endpoints, block_tokens } = await server.get("/api/prefix");
  const saved = (b) => (b.prompts - 1) * b.depth;
  const hot = branches.reduce((a, b) => (saved(b) > saved(a) || (saved(b) === saved(a) && b.depth > a.depth) ? b : a));
  const row = page.locator("#prefixes tbody tr").first();
  check(await until(async () => (await row.innerText()).includes(hot.id.slice(0, 8))), "the first row is the hottest", hot.id);
  const [, tokens, prompts] = await row.locator("th, td").allInnerTexts();
  same(`${tokens} ${prompts}`, `${(hot.depth * block_tokens).toLocaleString("en-US")} ${hot.prompts.toLocaleString("en-US")}`, "with its length and its prompts");
  await person.choose(row.getByRole("button"));
  check(await shown(page, "p[role=status]", endpoints[hot.holders[0]].endpoint), "and who holds it");
  person.done("which prefix is hottest");
}

async function otherWeights(page, server, hand) {
  await open(page, server, "pipeline");
  const person = new Person(page, hand);
  await person.view(6, "Tuning");
  const { presets } = await server.get("/api/presets");
  const config = (await server.get("/api/config")).config;
  const zero = Object.fromEntries(config.schedulingProfiles[0].plugins.filter((p) => /scorer/.test(p.pluginRef)).map((p) => [p.pluginRef, 0]));
  const ask = async (weights) => server.get("/api/rescore", { method: "POST", body: JSON.stringify({ weights: { ...zero, ...weights }, limit: 100 }) });
  let most = null;
  for (const preset of presets) {
    const r = await ask(preset.weights);
    if (!most || r.different > most.different) most = { ...r, name: preset.name };
    check(await shown(page, `[data-preset="${preset.name}"]`, `${r.different} of the last ${r.decisions} requests would have gone elsewhere`), `${preset.name} says how many`, r.different);
  }
  await person.choose(page.getByRole("button", { name: `Use ${most.name}`, exact: true }));
  check(await shown(page, "#rescored", `${most.different} of ${most.decisions}`), "the one chosen is told in full");
  if (most.different) check(await shown(page, "#changes", most.changes[0].id), "with the requests that it would have moved");
  person.done("which weights send requests elsewhere");
}

export const QUESTIONS = [
  ["which pod served X", whichPod],
  ["why D gets nothing", whyNothing],
  ["which prefix is hottest", hottest],
  ["which weights send requests elsewhere", otherWeights],
];
