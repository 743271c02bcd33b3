// One decision, by its id or by that of its request.
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../../api/client";
import type { Decision } from "../../api/types";
import { inField } from "../../app";
import { clean } from "../../format";
import { go } from "../../router";

const ID = /^[0-9A-Z]{13}$/;

export function Find({ held }: { held: Decision[] }) {
  const field = useRef<HTMLInputElement>(null);
  const [missing, setMissing] = useState("");
  useEffect(() => {
    const slash = (event: KeyboardEvent) => {
      if (event.key !== "/" || inField(event.target)) return;
      event.preventDefault();
      field.current?.focus();
    };
    addEventListener("keydown", slash);
    return () => removeEventListener("keydown", slash);
  }, []);
  const find = async (event: Event) => {
    event.preventDefault();
    const wanted = field.current!.value.trim();
    if (!wanted) return;
    const id = wanted.toUpperCase();
    const known = held.find((d) => d.request_id === wanted || d.id === id)?.id ?? (await asked(wanted, id));
    setMissing(known ? "" : wanted);
    if (known) go("pipeline", known);
  };
  return (
    <div class="find">
      <form role="search" onSubmit={find} onInput={() => setMissing("")}>
        <label>
          <span>
            Find <kbd>/</kbd>
          </span>
          <input ref={field} type="search" placeholder="request or decision id" size={22} />
        </label>
      </form>
      {missing && (
        <p class="notice small" role="status">
          Nothing on record of {clean(missing, 60)}: the server keeps the newest decisions, as many as fit into --record-bytes.
        </p>
      )}
    </div>
  );
}

/** The server keeps more than this page does. */
async function asked(request: string, id: string): Promise<string | undefined> {
  if (ID.test(id)) {
    const decision = await get<Decision>(`/api/decisions/${id}`).catch(() => null);
    if (decision) return decision.id;
  }
  const page = await get<{ decisions: Decision[] }>(`/api/decisions?limit=1&request_id=${encodeURIComponent(request)}`).catch(() => null);
  return page?.decisions[0]?.id;
}
