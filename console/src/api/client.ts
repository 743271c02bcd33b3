// Asking the admin API. The token, where one is asked for, lives as long as the tab.
import { signal } from "@preact/signals";

const KEY = "pointsman-token";

/** Whether the listener wants a token that we do not have. */
export const tokenWanted = signal(false);

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export function setToken(token: string): void {
  sessionStorage.setItem(KEY, token);
  tokenWanted.value = false;
}

export function authorization(): Record<string, string> {
  const token = sessionStorage.getItem(KEY);
  return token ? { authorization: `Bearer ${token}` } : {};
}

async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  const headers: Record<string, string> = { accept: "application/json", ...authorization() };
  let reply: Response;
  try {
    reply = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new ApiError(0, "no answer from the server");
  }
  if (reply.status === 401) tokenWanted.value = true;
  const value = await reply.json().catch(() => null);
  if (!reply.ok) throw new ApiError(reply.status, value?.error?.message ?? `status ${reply.status}`);
  return value as T;
}

export const get = <T,>(path: string) => ask<T>("GET", path);
export const post = <T,>(path: string, body?: unknown) => ask<T>("POST", path, body);

/** A name as one segment of a path. */
export const segment = (name: string) => encodeURIComponent(name);
