// A server of the TypeScript SDK over streamable HTTP, with sessions as the SDK's own examples keep them: in memory.
//
//   node sessions.mjs PORT      0: any; the port is printed
//
// What it says of a session that it does not know is the example's 400; `strict` as second argument has the SDK's
// transport say it instead: it answers for the one session that the process has had.
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages are where they were installed, not beside this file.
const installed = createRequire(`${process.env.ANTWORT_NODE_MODULES}/package.json`);
const load = (name) => import(pathToFileURL(installed.resolve(name)));
const { McpServer } = await load("@modelcontextprotocol/sdk/server/mcp.js");
const { StreamableHTTPServerTransport } = await load("@modelcontextprotocol/sdk/server/streamableHttp.js");
const { isInitializeRequest } = await load("@modelcontextprotocol/sdk/types.js");
const express = (await load("express")).default;
const { z } = await load("zod");

const [port, mode] = process.argv.slice(2);
const transports = {};
let only;

const open = async () => {
  const server = new McpServer({ name: "sessions", version: "1" });
  server.registerTool("echo", { description: "Says it again.", inputSchema: { text: z.string() } }, ({ text }) => ({
    content: [{ type: "text", text }],
  }));
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => (transports[id] = transport),
  });
  await server.connect(transport);
  return transport;
};
if (mode === "strict") only = await open();

const app = express();
app.use(express.json());
app.all("/mcp", async (request, response) => {
  let transport = only ?? transports[request.headers["mcp-session-id"]];
  if (!transport && request.method === "POST" && isInitializeRequest(request.body)) transport = await open();
  if (transport) return transport.handleRequest(request, response, request.body);
  const error = { code: -32000, message: "Bad Request: No valid session ID provided" };
  response.status(400).json({ jsonrpc: "2.0", error, id: null });
});
const listening = app.listen(Number(port), "127.0.0.1", () => console.log(listening.address().port));
