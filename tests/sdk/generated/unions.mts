// What `type` says narrows the unions that openapi-typescript makes of openapi.yaml: this file compiles only if it does.
import type { components } from "./api.js";

type Schemas = components["schemas"];

/** A stored item; a message is told apart once more, by its role. */
export function described(item: Schemas["ItemResource"]): string {
  // @ts-expect-error before its type is known an item has no call.
  item.call_id;
  switch (item.type) {
    case "message":
      return item.role === "assistant" ? saidBy(item) : givenBy(item);
    case "function_call":
      return `${item.name}(${item.arguments})`;
    case "function_call_output":
      return `${item.call_id}: ${typeof item.output === "string" ? item.output : item.output.length}`;
    case "mcp_call":
    case "antwort:mcp_call":
      return `${item.server_label}.${item.name}`;
    case "web_search_call":
    case "antwort:web_search_call":
      return item.action?.type === "open_page" ? String(item.action.url) : "search";
    default:
      return item.type;
  }
}

const saidBy = (message: Schemas["OutputMessage"]): string =>
  message.content.map((part) => (part.type === "output_text" ? part.text : part.refusal)).join("");

const givenBy = (message: Schemas["InputMessage"]): string =>
  message.content.map((part) => (part.type === "input_text" ? part.text : part.type)).join("");

/** An item that is sent; only a message and a reference may be without a type. */
export function sent(item: Schemas["InputItem"]): string {
  switch (item.type) {
    case "message":
      return item.role;
    case "function_call_output":
    case "custom_tool_call_output":
      // Absent where the output names its function.
      return item.call_id ?? item.type;
    case "item_reference":
      return item.id;
    case undefined:
    case null:
      return "role" in item ? item.role : item.id;
    default:
      return item.type;
  }
}

/** A tool; the gateway's own ones have types that no mapping lists. */
export function named(tool: Schemas["Tool"]): string {
  if (!typed(tool)) return tool.type;
  switch (tool.type) {
    case "function":
    case "custom":
      return tool.name;
    case "mcp":
      return tool.server_label;
    default:
      return tool.type;
  }
}

const typed = (tool: Schemas["Tool"]): tool is Schemas["TypedTool"] => !tool.type.startsWith("antwort:");

/** Events of a stream that a chat shows; one with an item leads to its union. */
export function shown(event: Schemas["StreamEvent"]): string {
  switch (event.type) {
    case "response.output_text.delta":
      return event.delta;
    case "response.output_item.done":
      return described(event.item);
    case "response.completed":
    case "response.incomplete":
    case "response.failed":
      return event.response.status;
    case "error":
      return event.error.message;
    default:
      return "";
  }
}
