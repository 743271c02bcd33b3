// Numbers with their units, as the command line shows them.

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const int = (n: number | null | undefined) => (n === null || n === undefined || Number.isNaN(n) ? "-" : grouped.format(n));
export const fixed = (n: number | null | undefined, digits: number) =>
  n === null || n === undefined || Number.isNaN(n) ? "-" : n.toFixed(digits);
export const percent = (share: number | null | undefined, digits = 0) =>
  share === null || share === undefined || Number.isNaN(share) ? "-" : `${(share * 100).toFixed(digits)} %`;

/** Milliseconds with three significant digits at most. */
export function millis(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "-";
  if (ms < 0.995) return `${ms.toFixed(2)} ms`;
  if (ms < 9.95) return `${ms.toFixed(1)} ms`;
  if (ms < 999.5) return `${ms.toFixed(0)} ms`;
  return ms < 99_950 ? `${(ms / 1e3).toFixed(2)} s` : `${int(ms / 1e3)} s`;
}

export const micros = (us: number | null | undefined) => (us === null || us === undefined ? "-" : us < 100 ? `${us.toFixed(1)} us` : `${int(us)} us`);

/** How long ago, for a person who watches. */
export function ago(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "never";
  const s = Math.floor(ms / 1000);
  const two = (n: number) => String(n).padStart(2, "0");
  if (s < 1) return `${Math.round(ms)} ms`;
  if (s < 60) return `${s}s`;
  if (s < 3_600) return `${Math.floor(s / 60)}m${two(s % 60)}s`;
  if (s < 86_400) return `${Math.floor(s / 3_600)}h${two(Math.floor((s % 3_600) / 60))}m`;
  return `${Math.floor(s / 86_400)}d${two(Math.floor((s % 86_400) / 3_600))}h`;
}

export const clock = (rfc3339: string) => rfc3339.slice(11, 19);

/** Foreign text without what could reorder its line, and not endless; it keeps its line ends and tabs. It is still escaped by the framework. */
export function clean(text: string, most = 200): string {
  const safe = text.replace(/\r\n/g, "\n").replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  return safe.length > most ? `${safe.slice(0, most)}...` : safe;
}

/** Names of scorers without what they have in common. */
export const short = (scorer: string) => scorer.replace(/-scorer$/, "");
