// One number that matters, under what it is.
export function Figure({ label, value, note }: { label: string; value: string; note?: string }) {
  return (
    <div class="figure">
      <span class="small quiet">{label}</span>
      <b>{value}</b>
      {note && <span class="small quiet">{note}</span>}
    </div>
  );
}
