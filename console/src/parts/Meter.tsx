// A share from 0 to 1 as a bar; the number stands beside it.
export function Meter({ share }: { share: number }) {
  return (
    <span class="meter" aria-hidden="true">
      <i style={{ width: `${Math.max(0, Math.min(1, share)) * 100}%` }} />
    </span>
  );
}
