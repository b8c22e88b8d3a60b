// One call with the types that openapi-typescript makes of openapi.yaml; what `type` says narrows items and parts.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";
import { described, named, sent, shown } from "./unions.mjs";

type Schemas = components["schemas"];

const baseUrl = process.env.SDK_OPEN_URL!.replace(/\/v1$/, "");
const client = createClient<paths, "application/json">({ baseUrl });

const weather: Schemas["ToolParam"] = {
  type: "function",
  name: "get_weather",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

function same(found: string, expected: string): void {
  if (found !== expected) throw new Error(`${found} instead of ${expected}`);
}

const input: Schemas["InputItem"][] = [
  { role: "developer", content: "Be brief." },
  { type: "message", role: "user", content: [{ type: "input_text", text: "What is the weather in Paris?" }] },
];
same(input.map(sent).join(), "developer,user");
const { data, error } = await client.POST("/v1/responses", { body: { model: "scripted", input, tools: [weather] } });
if (!data) throw new Error(JSON.stringify(error));

const call = data.output.find((item) => item.type === "function_call");
if (!call) throw new Error(`no call: ${JSON.stringify(data.output)}`);
const rest = await client.POST("/v1/responses", {
  body: {
    model: "scripted",
    previous_response_id: data.id,
    input: [{ type: "function_call_output", call_id: call.call_id, output: '{"celsius": 21}' }],
    tools: [weather],
  },
});
if (!rest.data) throw new Error(JSON.stringify(rest.error));
let text = "";
for (const item of rest.data.output) {
  if (item.type !== "message") continue;
  for (const part of item.content) if (part.type === "output_text") text += part.text;
}
if (!text) throw new Error(`no text: ${JSON.stringify(rest.data.output)}`);

same(data.tools.map(named).join(), "get_weather");
same(data.output.map(described).filter((one) => one.startsWith("get_weather(")).join(), `get_weather(${call.arguments})`);
same(shown({ type: "response.output_item.done", sequence_number: 0, output_index: 0, item: call }), `get_weather(${call.arguments})`);
const stored = await client.GET("/v1/responses/{response_id}/input_items", {
  params: { path: { response_id: data.id }, query: { order: "asc" } },
});
same((stored.data?.data ?? []).map(described).join(), "Be brief.,What is the weather in Paris?");

const refused = await client.GET("/v1/responses/{response_id}", { params: { path: { response_id: "resp_none" } } });
if (refused.error?.error.code !== "response_not_found" && refused.response.status !== 404) {
  throw new Error(`an unknown id: ${refused.response.status}`);
}
console.log(`${data.status}: ${call.name}(${call.arguments}); ${rest.data.status}: ${text}`);
