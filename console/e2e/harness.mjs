// Servers, load and checks for the tests of the console.
//
// Everything started here ends with this process. Environment: POINTSMAN (the binary), POINTSMAN_E2E (where the packages are), CHROMIUM, OUT (folder for
// screenshots and logs), DIST (a folder to take the console's files from in place of those in the binary: to try a change without a build of it).
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { mkdirSync, openSync, writeFileSync } from "node:fs";
import net from "node:net";
import path from "node:path";

const packages = createRequire(path.join(process.env.POINTSMAN_E2E, "package.json"));
export const { chromium } = packages("playwright-core");
export const AXE = packages.resolve("axe-core/axe.min.js");
export const OUT = process.env.OUT;
mkdirSync(OUT, { recursive: true });

const children = new Set();
process.on("exit", () => children.forEach((child) => child.kill("SIGKILL")));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(130));

export let passed = 0;
export let failed = 0;

/** One check: it held, or it did not and is told. */
export function check(held, what, detail = "") {
  if (held) passed += 1;
  else {
    failed += 1;
    console.log(`  FAILED ${what}${detail ? `: ${String(detail).slice(0, 600)}` : ""}`);
  }
  return Boolean(held);
}

export const same = (got, want, what) => check(Object.is(got, want), what, `${JSON.stringify(got)}, should be ${JSON.stringify(want)}`);

/** The console's files from DIST, where that is set. */
export async function files(context) {
  const { DIST } = process.env;
  if (!DIST) return;
  await context.route(/\/(\?.*)?$|\/assets\//, (route) => {
    const { pathname } = new URL(route.request().url());
    return route.fulfill({ path: path.join(DIST, pathname === "/" ? "index.html" : pathname) });
  });
}

/** Frames a second of a page, over so long. */
export function frames(page, ms) {
  return page.evaluate(
    (ms) =>
      new Promise((done) => {
        let n = 0;
        const began = performance.now();
        const frame = () => {
          n += 1;
          const past = performance.now() - began;
          if (past < ms) requestAnimationFrame(frame);
          else done((n * 1000) / past);
        };
        requestAnimationFrame(frame);
      }),
    ms,
  );
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Waits until something holds; says whether it came to. */
export async function until(holds, ms = 10_000) {
  const end = Date.now() + ms;
  for (;;) {
    if (await Promise.resolve().then(holds).catch(() => false)) return true;
    if (Date.now() > end) return false;
    await sleep(50);
  }
}

export function freePort() {
  return new Promise((done) => {
    const server = net.createServer();
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

export function start(name, args) {
  const log = openSync(path.join(OUT, `${name}.log`), "a");
  const { POINTSMAN_ADMIN_TOKEN, ...env } = process.env;
  const child = spawn(process.env.POINTSMAN, args, { stdio: ["ignore", log, log], env: { ...env, NO_COLOR: "1" } });
  children.add(child);
  child.on("exit", () => children.delete(child));
  return child;
}

/** A `pointsman serve`, ready to be asked. */
export async function serve(name, flags = [], ports = null) {
  const { gateway, admin } = ports ?? { gateway: await freePort(), admin: await freePort() };
  const child = start(name, ["serve", "--listen", `127.0.0.1:${gateway}`, "--admin-listen", `127.0.0.1:${admin}`, ...flags]);
  const complete = (body, headers = {}) =>
    fetch(`http://127.0.0.1:${gateway}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json", ...headers }, body }).then(
      async (reply) => [reply.status, await reply.text()],
    );
  const server = {
    child,
    complete,
    ports: { gateway, admin },
    url: `http://127.0.0.1:${admin}/`,
    get: async (path, init) => (await fetch(`http://127.0.0.1:${admin}${path}`, init)).json(),
    chat: (prompt, model = "demo", headers = {}) =>
      complete(JSON.stringify({ model, max_tokens: 8, messages: [{ role: "system", content: SYSTEM }, { role: "user", content: prompt }] }), headers),
    stop: async (signal = "SIGKILL") => {
      child.kill(signal);
      await until(() => child.exitCode !== null || child.signalCode !== null, 10_000);
    },
  };
  const up = await until(async () => (await fetch(`http://127.0.0.1:${admin}/healthz`)).ok, 20_000);
  if (!up) throw new Error(`${name} did not start; see ${OUT}/${name}.log`);
  return server;
}

/** One process that plays several engines: all of 127.0.0.0/8 is this machine. Returns the file that lists them. */
export async function engines(name, folder, list) {
  const port = await freePort();
  start(`${name}-engine`, ["engine", "--host", "0.0.0.0", "--port", String(port), "--model", "demo"]);
  const at = (n) => `127.0.${1 + Math.floor(n / 250)}.${1 + (n % 250)}`;
  const file = path.join(folder, `${name}-endpoints.yaml`);
  writeFileSync(file, JSON.stringify({ endpoints: list.map((e, n) => ({ address: at(n), port: String(port), ...e })) }));
  return file;
}

const SYSTEM = "You answer questions about railways, briefly and with care. ".repeat(20);
const TOPICS = ["points", "signals", "gradients", "brakes", "tickets", "bridges"];

/** Conversations that share a beginning, so many requests a second, until stopped. */
export function load(server, perSecond) {
  let n = 0;
  const timer = setInterval(() => {
    n += 1;
    const topic = TOPICS[n % TOPICS.length];
    server.chat(`Tell me about ${topic}. `.repeat(12) + `Question ${n % 40}: ${"why is that so? ".repeat(n % 9)}`).catch(() => {});
  }, 1000 / perSecond);
  return () => clearInterval(timer);
}
