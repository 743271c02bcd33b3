// What holds in every view: accessibility, themes, widths, no errors, nothing from elsewhere.
import path from "node:path";
import { AXE, OUT, check, same, until } from "./harness.mjs";
import { VIEWS, open } from "./views.mjs";

const WIDTHS = [380, 1280, 2560];

/** Everything that goes wrong in a page, for as long as it is open. */
export function listen(page) {
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => message.type() === "error" && !/Failed to load resource|ERR_/.test(message.text()) && faults.push(message.text()));
  page.on("request", (request) => !request.url().startsWith("http://127.0.0.1") && !request.url().startsWith("blob:") && faults.push(`asks ${request.url()}`));
  page.on("dialog", (dialog) => {
    faults.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return faults;
}

export async function accessible(page, what) {
  // Playwright's own evaluation does not need the page's policy to allow scripts.
  await page.evaluate(await (await import("node:fs/promises")).readFile(AXE, "utf8"));
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }));
  const told = violations.map((v) => `${v.id} (${v.nodes.length}): ${v.nodes[0].html.slice(0, 160)} ${v.nodes[0].failureSummary?.slice(0, 220)}`);
  check(violations.length === 0, `axe finds nothing in ${what}`, told.join(" | "));
}

export async function looks(page, server) {
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: width === 380 ? 800 : 1100 });
      for (const view of VIEWS) {
        await open(page, server, view);
        await page.waitForTimeout(view === "pipeline" || view === "prefix" ? 700 : 250);
        const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        check(wider <= 1, `${view} fits ${width} px`, `${wider} px too wide`);
        if (width !== 2560) await accessible(page, `${view}, ${scheme}, ${width} px`);
        await page.screenshot({ path: path.join(OUT, `${view}-${scheme}-${width}.png`) });
      }
    }
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.getByLabel("Theme").selectOption("dark");
  check((await ground()) !== light, "the switch overrules the system");
  await page.reload();
  await page.waitForSelector("h1");
  check((await ground()) !== light, "and is remembered");
  await page.getByLabel("Theme").selectOption("system");
}

/** From the top of the page to every view, without a mouse. */
export async function keyboard(page, server) {
  await open(page, server, "pipeline");
  await page.locator("body").focus();
  await page.keyboard.press("Tab");
  same(await page.evaluate(() => document.activeElement.className), "skip", "the first stop skips to the content");
  for (let at = 0; at < VIEWS.length; at += 1) {
    await page.keyboard.press("Tab");
    const href = await page.evaluate(() => document.activeElement.getAttribute("href"));
    same(href, `#/${VIEWS[at]}`, `stop ${at + 2}`);
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    check(outline !== "none", `${VIEWS[at]} shows its focus`);
  }
  await page.keyboard.press("Enter");
  check(await until(() => page.url().endsWith("#/config")), "Enter opens the view");
  await page.evaluate(() => document.activeElement.blur());
  for (let at = 0; at < VIEWS.length; at += 1) {
    await page.keyboard.press(String(at + 1));
    check(await until(() => page.url().includes(`#/${VIEWS[at]}`)), `${at + 1} opens ${VIEWS[at]}`);
  }
}
