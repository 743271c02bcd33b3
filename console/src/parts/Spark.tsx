// A sparkline: the last minute of one number.
import { KEPT_POINTS } from "../store";

export function Spark({ values, max, label }: { values: number[]; max?: number; label: string }) {
  const known = values.filter((v) => !Number.isNaN(v));
  const top = max ?? Math.max(1, ...known);
  let path = "";
  let pen = false;
  values.forEach((value, at) => {
    if (Number.isNaN(value)) {
      pen = false;
      return;
    }
    const x = ((at + KEPT_POINTS - values.length) / (KEPT_POINTS - 1)) * 90;
    const y = 20 - (Math.min(value, top) / top) * 18;
    path += `${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = true;
  });
  return (
    <svg class="spark" viewBox="0 0 90 22" role="img" aria-label={label}>
      <path d={path} />
    </svg>
  );
}
