// The pictures of the README: views of a busy demo, light and dark.
import { mkdirSync } from "node:fs";
import path from "node:path";
import { files, sleep, until } from "./harness.mjs";
import { open } from "./views.mjs";

const SIZE = { width: 1180, height: 760 };

export async function pictures(browser, server, folder) {
  mkdirSync(folder, { recursive: true });
  for (const colorScheme of ["light", "dark"]) {
    const context = await browser.newContext({ viewport: SIZE, colorScheme, reducedMotion: "reduce" });
    await files(context);
    const page = await context.newPage();
    const take = (name) => page.screenshot({ path: path.join(folder, `${name}-${colorScheme}.png`), clip: { x: 0, y: 0, ...SIZE } });
    await open(page, server, "pipeline");
    await page.waitForSelector("table.candidates tbody tr");
    await page.keyboard.press("f");
    await sleep(1_500);
    await page.locator("#decisions tbody tr a").nth(3).click();
    await sleep(300);
    await take("pipeline");
    await open(page, server, "prefix");
    await until(async () => (await page.locator("#prefixes tbody tr").count()) > 1);
    await page.locator("#prefixes tbody tr button").first().click();
    await sleep(300);
    await take("prefix");
    await open(page, server, "race");
    await page.getByRole("button", { name: "Start the race" }).click();
    await until(async () => (await page.locator("main header span").first().innerText()) === "done", 60_000);
    await page.locator("#race").scrollIntoViewIfNeeded();
    await sleep(300);
    await take("race");
    await context.close();
  }
}
