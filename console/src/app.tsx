// The frame around the views: where one is, whether the server is there, light or dark, and the token where one is asked for.
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { tokenWanted } from "./api/client";
import { int } from "./format";
import { address, go, place } from "./router";
import { configVersion, endpoints, fleetAt, rate, state } from "./store";
import { choose, theme, type Theme } from "./theme";
import type { Config } from "./api/types";
import { useLoad } from "./parts/useLoad";
import { TokenDialog } from "./parts/TokenDialog";
import { ConfigView } from "./views/config";
import { FleetView } from "./views/fleet";
import { PhasesView } from "./views/phases";
import { PipelineView } from "./views/pipeline";
import { PrefixView } from "./views/prefix";
import { RaceView } from "./views/race";
import { TuningView } from "./views/tuning";

const VIEWS: [string, string, ComponentType][] = [
  ["pipeline", "Pipeline", PipelineView],
  ["fleet", "Fleet", FleetView],
  ["prefix", "Prefix", PrefixView],
  ["race", "Race", RaceView],
  ["phases", "Phases", PhasesView],
  ["tuning", "Tuning", TuningView],
  ["config", "Configuration", ConfigView],
];

const WORDS = { connecting: "connecting", live: "live", lost: "server away, trying again", token: "token needed" };

export function App() {
  const here = place.value.view;
  const found = VIEWS.find(([name]) => name === here) ?? VIEWS[0]!;
  const [name, title, View] = found;
  useEffect(() => {
    document.title = `${title} - Pointsman`;
    document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [title]);
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if (event.altKey || event.ctrlKey || event.metaKey || inField(event.target)) return;
      const view = VIEWS[Number(event.key) - 1];
      if (view) go(view[0]);
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={toMain}>
        Skip to content
      </a>
      <header class="top">
        <span class="brand">
          <svg viewBox="0 0 32 32" fill="none" stroke-width="4" stroke-linecap="round" aria-hidden="true">
            <path d="M4 26 28 26M4 26C16 26 14 8 28 8" />
          </svg>
          Pointsman
        </span>
        <nav class="tabs" aria-label="Views">
          {VIEWS.map(([view, label], at) => (
            <a key={view} href={address(view)} aria-current={view === name ? "page" : undefined} title={`Key ${at + 1}`}>
              {label}
            </a>
          ))}
        </nav>
        <Status />
        <label>
          <span class="visually-hidden">Theme</span>
          <select value={theme.value} onChange={(e) => choose(e.currentTarget.value as Theme)}>
            <option value="system">system theme</option>
            <option value="light">light</option>
            <option value="dark">dark</option>
          </select>
        </label>
      </header>
      <main id="main" tabIndex={-1} class={state.value === "lost" ? "stale" : undefined}>
        <View />
      </main>
      {tokenWanted.value && <TokenDialog />}
    </div>
  );
}

function Status() {
  const { value: config } = useLoad<Config>("/api/config", 5_000, configVersion.value);
  const ready = endpoints.value.filter((e) => e.ready).length;
  const seen = state.value === "lost" && fleetAt.value > 0;
  return (
    <div class="state">
      <span role="status" data-state={state.value}>
        <i class={`dot ${state.value}`} />
        {WORDS[state.value]}
      </span>
      <span>
        {int(ready)} of {int(endpoints.value.length)} ready
      </span>
      {seen && <span>as of {new Date(fleetAt.value).toTimeString().slice(0, 8)}</span>}
      {config?.last_reload?.result === "refused" && (
        <a class="bad" href={address("config")} id="refused">
          reload refused
        </a>
      )}
      <span>{rate.value === null ? "-" : rate.value < 10 ? rate.value.toFixed(1) : int(rate.value)} requests/s</span>
    </div>
  );
}

function toMain(event: Event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

export function inField(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, select, textarea, [contenteditable]");
}
