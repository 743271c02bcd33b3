// Addresses: `#/view/id?key=value`, so that what is seen can be shared.
import { signal } from "@preact/signals";

export interface Place {
  view: string;
  id: string | null;
  query: URLSearchParams;
}

function read(): Place {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view = "", id] = path.split("/");
  let decoded: string | null = null;
  try {
    decoded = id ? decodeURIComponent(id) : null;
  } catch {
    // Not an address of ours; the view itself is shown.
  }
  return { view: view || "pipeline", id: decoded, query: new URLSearchParams(query) };
}

export const place = signal<Place>(read());
addEventListener("hashchange", () => (place.value = read()));

export function address(view: string, id?: string | null, query?: Record<string, string>): string {
  const kept = Object.entries(query ?? {}).filter(([, value]) => value !== "");
  const tail = kept.length ? `?${new URLSearchParams(kept)}` : "";
  return `#/${view}${id ? `/${encodeURIComponent(id)}` : ""}${tail}`;
}

export function go(view: string, id?: string | null, query?: Record<string, string>): void {
  const to = address(view, id, query);
  if (to !== location.hash) location.hash = to;
}

/** The same place with another query; an empty value goes. */
export function setQuery(key: string, value: string): void {
  const query = Object.fromEntries(place.value.query);
  go(place.value.view, place.value.id, { ...query, [key]: value });
}
