// The console: a page that shows what the admin API of this process says, live.
import { render } from "preact";
import { App } from "./app";
import { start } from "./store";
import { apply } from "./theme";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/parts.css";

apply();
start();
render(<App />, document.getElementById("app")!);
