// Light, dark, or as the system says.
import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
const KEY = "pointsman-theme";

const kept = localStorage.getItem(KEY);
export const theme = signal<Theme>(kept === "light" || kept === "dark" ? kept : "system");

export function apply(): void {
  const root = document.documentElement;
  if (theme.value === "system") delete root.dataset.theme;
  else root.dataset.theme = theme.value;
}

export function choose(next: Theme): void {
  theme.value = next;
  localStorage.setItem(KEY, next);
  apply();
}
