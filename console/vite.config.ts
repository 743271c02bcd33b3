// Builds the console: one page, one script, one style sheet, nothing inline and nothing from elsewhere.
import { defineConfig } from "vite";

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy: { "/api": "http://127.0.0.1:9090", "/metrics": "http://127.0.0.1:9090" } },
});
