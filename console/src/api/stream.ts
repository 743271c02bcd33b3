// The event stream, read with fetch so that it can carry a token; opened anew whenever it ends.
import { batch } from "@preact/signals";
import { authorization, tokenWanted } from "./client";

export type Listener = (event: string, data: unknown) => void;
export type State = "connecting" | "live" | "lost" | "token";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 5_000;
/** The server speaks at least every two seconds; a silence this long is a dead connection. */
const SILENCE_MS = 10_000;

/** A page that nobody sees gives its connection back: a browser has six for all pages of one server. */
const HIDDEN_MS = 5_000;

function visible(): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => document.addEventListener("visibilitychange", () => done(), { once: true }));
}

const sleep = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));

/** Keeps a stream open for ever. */
export async function follow(path: string, listener: Listener, state: (state: State) => void): Promise<never> {
  let wait = FIRST_WAIT_MS;
  for (;;) {
    await visible();
    try {
      await once(path, listener, () => {
        wait = FIRST_WAIT_MS;
        state("live");
      });
    } catch (error) {
      if (error instanceof Refused && error.status === 401) {
        state("token");
        tokenWanted.value = true;
        while (tokenWanted.value) await sleep(200);
        continue;
      }
    }
    state(document.hidden ? "connecting" : "lost");
    await sleep(wait);
    wait = Math.min(wait * 1.6, LONGEST_WAIT_MS);
  }
}

class Refused extends Error {
  constructor(readonly status: number) {
    super(`status ${status}`);
  }
}

async function once(path: string, listener: Listener, opened: () => void): Promise<void> {
  const stop = new AbortController();
  let unseen: ReturnType<typeof setTimeout> | undefined;
  const seen = () => {
    clearTimeout(unseen);
    if (document.hidden) unseen = setTimeout(() => stop.abort(), HIDDEN_MS);
  };
  document.addEventListener("visibilitychange", seen);
  let timer = setTimeout(() => stop.abort(), SILENCE_MS);
  try {
    const reply = await fetch(path, { headers: { accept: "text/event-stream", ...authorization() }, signal: stop.signal });
    if (!reply.ok || !reply.body) throw new Refused(reply.status);
    opened();
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => stop.abort(), SILENCE_MS);
      const events = (rest + value).split("\n\n");
      rest = events.pop() ?? "";
      // What came together is drawn together.
      batch(() => events.forEach((event) => tell(event, listener)));
    }
  } finally {
    clearTimeout(timer);
    clearTimeout(unseen);
    document.removeEventListener("visibilitychange", seen);
  }
}

function tell(text: string, listener: Listener): void {
  let name = "message";
  let data = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (data) listener(name, JSON.parse(data));
}
