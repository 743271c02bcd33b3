// Something of the API, fetched now, again after a reconnect, and every so often.
import { useEffect, useState } from "preact/hooks";
import { ApiError, get, tokenWanted } from "../api/client";
import { openings } from "../store";

export interface Loaded<T> {
  value: T | null;
  error: ApiError | null;
}

export function useLoad<T>(path: string, everyMs = 0, key: unknown = null): Loaded<T> {
  const [loaded, set] = useState<Loaded<T>>({ value: null, error: null });
  const opened = openings.value;
  const wanted = tokenWanted.value;
  useEffect(() => {
    let gone = false;
    const load = async () => {
      if (document.hidden && everyMs) return;
      try {
        const value = await get<T>(path);
        if (!gone) set({ value, error: null });
      } catch (error) {
        // What was seen stays in sight; the header says that the server is away.
        if (!gone) set((was) => ({ value: was.value, error: error as ApiError }));
      }
    };
    void load();
    const timer = everyMs ? setInterval(load, everyMs) : undefined;
    return () => {
      gone = true;
      clearInterval(timer);
    };
  }, [path, everyMs, opened, key, wanted]);
  return loaded;
}
