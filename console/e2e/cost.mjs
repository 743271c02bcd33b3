// What a page costs the browser: `node cost.mjs URL VIEW MILLISECONDS`. Says READY when it is live, then counts frames, and tells.
import { chromium, files, frames, until } from "./harness.mjs";

const [url, view, ms] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
await files(context);
const page = await context.newPage();
await page.goto(`${url}#/${view}`);
await page.waitForSelector("h1");
await until(async () => (await page.locator("[data-state]").getAttribute("data-state")) === "live");
const { paint, gzipped } = await page.evaluate(() => ({
  paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
  gzipped: [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].filter((e) => !e.name.includes("/api/")).reduce((n, e) => n + e.encodedBodySize, 0),
}));
const cdp = await context.newCDPSession(page);
// Times of the page's own thread, so that a busy machine does not count as the page's work.
await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
const counters = async () => Object.fromEntries((await cdp.send("Performance.getMetrics")).metrics.map((m) => [m.name, m.value]));
await page.evaluate(() => {
  globalThis.longest = [];
  let before = 0;
  const frame = (now) => {
    if (before) globalThis.longest.push(now - before);
    before = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
});
console.log("READY");
const before = await counters();
const perSecond = await frames(page, Number(ms));
const after = await counters();
const gaps = (await page.evaluate(() => globalThis.longest)).sort((a, b) => a - b);
const count = (perSecond * Number(ms)) / 1000;
const each = (name) => Number((((after[name] - before[name]) * 1000) / count).toFixed(2));
const figures = {
  view,
  frames_per_second: Number(perSecond.toFixed(1)),
  gap_p50_ms: Number(gaps[Math.floor(gaps.length * 0.5)].toFixed(1)),
  gap_p99_ms: Number(gaps[Math.floor(gaps.length * 0.99)].toFixed(1)),
  main_thread_ms_per_frame: each("TaskDuration"),
  script_ms_per_frame: each("ScriptDuration"),
  style_ms_per_frame: each("RecalcStyleDuration"),
  layout_ms_per_frame: each("LayoutDuration"),
  first_paint_ms: Math.round(paint),
  gzipped_bytes: gzipped,
};
console.log(`COST ${JSON.stringify(figures)}`);
await browser.close();
process.exit(0);
