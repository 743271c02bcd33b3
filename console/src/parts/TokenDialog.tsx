// Asks for the admin token.
import { useEffect, useRef, useState } from "preact/hooks";
import { setToken } from "../api/client";

export function TokenDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [token, set] = useState("");
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby="token-title" onCancel={(e) => e.preventDefault()}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          setToken(token);
        }}
      >
        <h2 id="token-title">This Pointsman asks for a token</h2>
        <p class="quiet">It was started with --admin-token. The token is kept until this tab is closed.</p>
        <label>
          Admin token
          <input type="password" autocomplete="off" value={token} onInput={(e) => set(e.currentTarget.value)} />
        </label>
        <button class="primary" type="submit" disabled={!token}>
          Use it
        </button>
      </form>
    </dialog>
  );
}
