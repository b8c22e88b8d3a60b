// The gateway as the client that the conformance suite tests: run by it, with the server's URL as the last argument.
//
// ANTWORT                     the gateway's program
// MCP_CONFORMANCE_SCENARIO    which scenario it is
// MCP_CONFORMANCE_CONTEXT     what the scenario gives its client, as JSON
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const url = process.argv.at(-1);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT || "{}");

/** What is asked of the gateway, beside the handshake that comes with it. */
const asked = {
  tools_call: ["call", "suite", "add_numbers", '{"a": 5, "b": 3}'],
  "sse-retry": ["call", "suite", "test_reconnection", "{}"],
}[scenario] ?? ["list", "suite"];

const auth = context.client_id && {
  type: "client_credentials",
  client_id: context.client_id,
  ...(context.client_secret && { client_secret: context.client_secret }),
  ...(context.private_key_pem && { private_key: context.private_key_pem, algorithm: context.signing_algorithm }),
};

const folder = mkdtempSync(join(tmpdir(), "antwort-conformance-"));
try {
  const file = join(folder, "antwort.yaml");
  // JSON is YAML. No model is asked.
  // The scenario's authorization server is another one, at an address that only an operator may open.
  const settings = { egress: { allow: ["localhost", "127.0.0.1"] }, mcp: { servers: { suite: { url, ...(auth && { auth }) } } } };
  writeFileSync(file, JSON.stringify(settings));
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, ANTWORT_UPSTREAM_URL: "http://127.0.0.1:9/v1" };
  const run = spawnSync(process.env.ANTWORT, ["--config", file, "mcp", ...asked], { stdio: "inherit", cwd: folder, env });
  process.exitCode = run.status ?? 1;
} finally {
  rmSync(folder, { recursive: true });
}
