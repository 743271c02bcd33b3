// The head of a column; numbers stand to the right.
import type { JSX } from "preact";

export function Th({ num, ...rest }: JSX.IntrinsicElements["th"] & { num?: boolean }) {
  return <th scope="col" class={num ? "num" : undefined} {...rest} />;
}
