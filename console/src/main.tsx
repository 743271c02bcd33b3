import { render } from "preact";
render(<h1>Pointsman</h1>, document.getElementById("app")!);
