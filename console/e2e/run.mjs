// The console against a real server under load, in a real browser.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import * as h from "./harness.mjs";
import * as setups from "./setups.mjs";
import * as views from "./views.mjs";
import { pictures } from "./pictures.mjs";
import { QUESTIONS } from "./questions.mjs";
import { accessible, keyboard, listen, looks } from "./looks.mjs";

const { check, same, until } = h;
const only = process.env.ONLY ?? "";
const browser = await h.chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
const scratch = mkdtempSync(path.join(tmpdir(), "pointsman-console-"));

async function group(name, work) {
  if (!name.includes(only)) return;
  const began = Date.now();
  const before = h.failed;
  console.log(name);
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, acceptDownloads: true });
  context.setDefaultTimeout(15_000);
  await h.files(context);
  const page = await context.newPage();
  const faults = listen(page);
  try {
    await work(page, context);
  } catch (error) {
    check(false, name, error.stack ?? error);
    await page.screenshot({ path: path.join(h.OUT, `failed-${name.replaceAll(" ", "-")}.png`) }).catch(() => {});
  }
  check(faults.length === 0, `${name}: the page reports no fault`, faults.join(" | "));
  await context.close();
  console.log(`  ${h.failed === before ? "ok" : "FAILED"} ${((Date.now() - began) / 1000).toFixed(1)} s`);
}

const server = await h.serve("demo");
const stop = h.load(server, 25);
await h.sleep(3_000);

if (process.env.PICTURES) {
  await pictures(browser, server, process.env.PICTURES);
  await end();
}

await group("first paint", async (page) => {
  const began = Date.now();
  await page.goto(server.url);
  await page.waitForSelector("h1");
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
  check(paint > 0 && paint < 1_000, "first paint within a second", `${paint} ms of ${Date.now() - began} ms`);
  console.log(`  first contentful paint ${paint.toFixed(0)} ms`);
  const reply = await fetch(server.url, { headers: { accept: "text/html" } });
  check(reply.headers.get("content-security-policy")?.startsWith("default-src 'self'"), "the policy is strict");
  const again = await fetch(server.url, { headers: { accept: "text/html", "if-none-match": reply.headers.get("etag") } });
  same(again.status, 304, "the page is validated by its tag");
});
for (const view of views.VIEWS) await group(view, (page) => views[view](page, server));
await group("no sample at 25 requests/s", (page) => views.sampled(page, server, false));
await group("a sample at 125 requests/s", async (page) => {
  const more = h.load(server, 100);
  await views.sampled(page, server, true);
  await views.frozen(page, server);
  more();
});
await group("keyboard", (page) => keyboard(page, server));
await group("looks", (page) => looks(page, server));
stop();
await until(async () => (await server.get("/api/endpoints")).endpoints.every((e) => e.in_flight === 0));
for (const hand of ["mouse", "keyboard"]) {
  for (const [question, walk] of QUESTIONS) await group(`${question} (${hand})`, (page) => walk(page, server, hand));
}
await group("disaggregation and a shadow", (page) => setups.disaggregation(page, scratch));
await group("one engine for both phases", (page) => setups.oneEngine(page, scratch));
await group("drawn", (page) => setups.drawn(page, scratch));
await group("a refused reload", (page) => setups.refusedReload(page, scratch));
await group("held back", (page) => setups.heldBack(page, scratch));
await group("prompts", (page) => setups.prompts(page, server));

await group("restart", async (page) => {
  const first = await h.serve("restart");
  await first.chat("before");
  await views.open(page, first, "pipeline");
  await page.waitForSelector("#decisions tbody tr");
  const old = await page.locator("#decisions tbody tr a").first().innerText();
  await first.stop();
  const state = () => page.locator("[data-state]").getAttribute("data-state");
  check(await until(async () => (await state()) === "lost"), "the page says that the server is away");
  check(await until(async () => /as of \d\d:\d\d:\d\d/.test(await page.locator(".state").innerText())), "and of when its numbers are");
  await page.keyboard.press("4");
  check(await until(async () => (await page.locator("main").innerText()).includes("no answer from the server")), "a race opened meanwhile says so");
  const second = await h.serve("restart", [], first.ports);
  check(await until(async () => (await state()) === "live", 15_000), "and finds it again by itself");
  const { policies } = await second.get("/api/race");
  check(await until(async () => (await page.getByRole("checkbox").count()) === policies.length), "the race has all policies then");
  check(!(await page.locator("main").innerText()).includes("could not be run"), "and no old fault");
  await page.keyboard.press("1");
  await second.chat("after");
  check(await until(async () => (await page.locator("#decisions tbody tr a").first().innerText()) !== old), "what is new is shown");
  await second.stop();
});

await group("restart under every view", async () => {
  const first = await h.serve("restart-all");
  await first.chat("before");
  const pages = [];
  for (const view of views.VIEWS) {
    // A context each: they have connections of their own.
    const context = await browser.newContext();
    await h.files(context);
    const page = await context.newPage();
    const faults = listen(page);
    await views.open(page, first, view);
    pages.push({ view, page, faults });
  }
  await first.stop();
  const second = await h.serve("restart-all", [], first.ports);
  await second.chat("after");
  for (const { view, page, faults } of pages) {
    check(await until(async () => (await page.locator("[data-state]").getAttribute("data-state")) === "live", 20_000), `${view} finds the server again`);
    check(!(await page.locator("main").innerText()).includes("no answer from the server"), `${view} shows no old fault`);
    same(faults.join(" | "), "", `${view} reports no fault`);
    await page.context().close();
  }
  await second.stop();
});

await group("a hidden page", async (page) => {
  const seen = (hidden) =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  const state = () => page.locator("[data-state]").getAttribute("data-state");
  await views.open(page, server, "fleet");
  await seen(true);
  await h.sleep(1_000);
  same(await state(), "live", "who looks away for a moment loses nothing");
  check(await until(async () => (await state()) === "connecting"), "a page that nobody sees gives its stream back");
  await seen(false);
  check(await until(async () => (await state()) === "live", 3_000), "and has it again as soon as it is seen");
});

await group("token", async (page) => {
  const guarded = await h.serve("token", ["--admin-token", "s3cret"]);
  await page.goto(guarded.url);
  await page.waitForSelector("dialog[open]");
  await accessible(page, "the token dialog");
  await page.getByLabel("Admin token").fill("wrong");
  await page.keyboard.press("Enter");
  await h.sleep(800);
  check(await page.locator("dialog[open]").isVisible(), "a wrong token is asked for again");
  await page.getByLabel("Admin token").fill("s3cret");
  await page.keyboard.press("Enter");
  check(await until(async () => (await page.locator("[data-state]").getAttribute("data-state")) === "live"), "the right one opens");
  await guarded.stop();
});

const ODD = [`<img src=x onerror=alert(1)>`, `"quoted" & 'odd' </td>`, "b\u202ereversed", "long-".repeat(60), "%2e%2e/../x?y#z"];

await group("odd names", async (page) => {
  const file = await h.engines("odd", scratch, ODD.map((name) => ({ name })));
  const odd = await h.serve("odd", ["--endpoints-file", file]);
  for (const model of ["<script>alert(1)</script>", "an-organisation/with-a-very-long-name-of-its-model-70b-instruct", "demo", "x\u202ey"]) await odd.chat("hello", model);
  const { endpoints } = await odd.get("/api/endpoints");
  same(endpoints.length, ODD.length, "all endpoints are taken");
  for (const view of views.VIEWS) {
    await views.open(page, odd, view);
    await h.sleep(400);
    const planted = await page.evaluate(() => document.querySelectorAll("main img, main script").length);
    same(planted, 0, `${view} shows names as text`);
    check(!(await page.locator("main").innerText()).includes("\u202e"), `${view} lets no name turn the line around`);
  }
  await views.open(page, odd, "fleet");
  await until(async () => (await page.locator("#fleet tbody tr").count()) === ODD.length);
  check((await page.locator("#fleet").innerText()).includes(ODD[0]), "the name is legible");
  await page.getByRole("button", { name: `Drain ${ODD[0]}` }).click();
  check(await until(async () => (await odd.get("/api/endpoints")).endpoints[0].conditions.includes("drained")), "one with an odd name can be drained");
  await accessible(page, "fleet with odd names");
  // Nothing that matters is pushed out of sight by a long name.
  const within = async (cell) => {
    const box = await cell.boundingBox();
    return box !== null && box.x >= 0 && box.x + box.width <= (await cell.evaluate((e) => e.closest(".scroll").getBoundingClientRect().right)) + 1;
  };
  check(await within(page.locator("#fleet tbody button").first()), "a drain is in sight");
  await views.open(page, odd, "pipeline");
  await page.waitForSelector("#decisions tbody tr");
  const widths = await page.locator("#decisions thead th").evaluateAll((all) => all.map((e) => Math.round(e.getBoundingClientRect().width)));
  check(await within(page.locator("#decisions thead th").last()), "so is the outcome of a decision", widths.join());
  await odd.stop();
});

await group("500 engines", async (page) => {
  const file = await h.engines("many", scratch, Array.from({ length: 500 }, (_, n) => ({ name: `pod-${n}` })));
  const many = await h.serve("many", ["--endpoints-file", file, "--refresh-metrics-interval", "2s", "--health-interval", "5s", "--models-interval", "60s", "--metrics-staleness-threshold", "10s"]);
  await until(async () => (await many.get("/api/endpoints")).endpoints.filter((e) => e.ready).length === 500, 20_000);
  const stopMany = h.load(many, 10);
  await views.open(page, many, "fleet");
  check(await until(async () => (await page.locator("main p").first().innerText()).includes("of 500 endpoints"), 15_000), "all are counted");
  same(await page.locator("#fleet tbody tr").count(), 50, "a page has fifty");
  await page.getByRole("button", { name: "Next" }).click();
  check(await until(async () => (await page.locator("#fleet tbody tr").first().innerText()).includes("pod-50")), "the next page follows");
  await page.getByLabel("Search").fill("pod-499");
  check(await until(async () => (await page.locator("#fleet tbody tr").count()) === 1), "one is found by name");
  await views.open(page, many, "pipeline");
  await page.waitForSelector("table.candidates tbody tr");
  const frames = await h.frames(page, 3_000);
  console.log(`  ${frames.toFixed(0)} frames/s with 500 engines`);
  check(frames > 20, "the page stays fluid", `${frames} frames/s`);
  await views.open(page, many, "prefix");
  await page.waitForSelector("#inventory tbody tr");
  await accessible(page, "prefix with 500 engines");
  stopMany();
  await many.stop();
});

await end();

async function end() {
  await browser.close();
  rmSync(scratch, { recursive: true, force: true });
  console.log(`RESULT ${h.passed} ${h.failed}`);
  process.exit(h.failed ? 1 : 0);
}
