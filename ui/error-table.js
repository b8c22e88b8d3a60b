// Whose fault an error is, and what to do next, by its code.

/** @typedef {'request' | 'key' | 'configuration' | 'gateway' | 'model' | 'tool' | 'limit' | 'connection' | 'unknown'} Fault */

/** @type {Record<Fault, string>} */
export const FAULTS = {
  request: 'The request',
  key: 'The API key',
  configuration: 'The gateway’s configuration',
  gateway: 'The gateway',
  model: 'The model server',
  tool: 'A tool',
  limit: 'A limit that was set',
  connection: 'The connection',
  unknown: 'Not known',
};

/** @type {[Fault, string, string[]][]} what to do, for the codes behind it */
const ROWS = [
  ['request', 'Correct the field that is named, and send it again.', ['invalid_value', 'invalid_type', 'unsupported_value', 'missing_required_parameter', 'mutually_exclusive_parameters', 'invalid_url', 'array_above_max_length', 'array_below_min_length', 'string_above_max_length', 'string_below_min_length', 'object_above_max_properties', 'integer_above_max_value', 'integer_below_min_value', 'decimal_above_max_value', 'decimal_below_min_value', 'invalid_json_schema', 'item_not_found', 'tool_not_found', 'upstream_rejected_request']],
  ['request', 'The body is not JSON that can be read. Correct it, and send it again.', ['invalid_json', 'invalid_body', 'unsupported_media_type']],
  ['request', 'Leave the field out: this gateway does not serve it.', ['unsupported_parameter', 'unknown_parameter']],
  ['request', 'Choose a model of the list: no provider serves this one.', ['model_not_found']],
  ['request', 'Choose an agent that is configured.', ['agent_not_found']],
  ['request', 'Shorten the input, or set truncation to auto, or compact the conversation.', ['context_length_exceeded']],
  ['request', 'Make the request smaller: the gateway does not read one of this size.', ['request_too_large']],
  ['request', 'The response does not exist, was deleted or has expired, or belongs to another key.', ['response_not_found', 'not_found', 'previous_response_not_found', 'previous_response_not_stored', 'unknown_url', 'method_not_allowed', 'gone']],
  ['request', 'Wait until the earlier response has ended, then send it again.', ['previous_response_in_progress', 'response_in_progress', 'conversation_locked']],
  ['request', 'Use another Idempotency-Key: this one belongs to another request.', ['idempotency_key_reused']],
  ['request', 'Read the response itself: the events of its stream are not kept any more.', ['stream_expired', 'event_log_unavailable']],
  ['request', 'Nothing waits for this answer any more: it was answered, came too late, or the response has ended. Reload the run.', ['input_not_pending', 'input_expired', 'approval_not_open', 'approval_request_not_found']],
  ['request', 'Answer all open approval requests in one request.', ['approval_response_not_found']],
  ['request', 'The arguments are not those that were asked about. Reload the run and decide again.', ['approval_mismatch']],
  ['request', 'This tool may only be called with an approval: use it in a response.', ['approval_required']],
  ['request', 'The conversation was compacted by another gateway or tenant; send the whole conversation.', ['invalid_encrypted_content']],
  ['request', 'The response has ended already; nothing is left to cancel.', ['response_not_cancellable']],
  ['key', 'Enter a valid API key of this gateway (button “Key”).', ['invalid_api_key']],
  ['key', 'Use a key with the scope that the message names, or ask the operator to add it.', ['insufficient_scope']],
  ['configuration', 'The operator has to allow this address or host name (server.allowed_hosts, server.cors).', ['origin_not_allowed', 'host_not_allowed', 'invalid_host', 'duplicate_header']],
  ['configuration', 'The operator has to correct the API key of the model server (providers.….api_key).', ['upstream_auth_error']],
  ['configuration', 'The operator has to correct the forward proxy (network.proxy), or the proxy is down.', ['upstream_proxy_error']],
  ['configuration', 'The operator has to configure a price of this model, or leave out the limit of cost.', ['unknown_price']],
  ['configuration', 'Raise what limits the client’s requests, or wait.', ['websocket_queue_full', 'websocket_connection_limit_reached', 'websocket_not_served']],
  ['model', 'Check that the model server is running and that the address in the configuration is right.', ['upstream_unreachable', 'upstream_connect_timeout']],
  ['model', 'Look into the log of the model server; sending it again may help.', ['upstream_error', 'upstream_malformed', 'upstream_disconnected', 'compaction_failed', 'upstream_unavailable']],
  ['model', 'The model server is slow or overloaded. Send it again later, or raise the provider’s timeouts.', ['upstream_first_byte_timeout', 'upstream_idle_timeout', 'upstream_total_timeout', 'upstream_timeout']],
  ['model', 'Wait, then send it again: the model server limits its requests.', ['rate_limit_exceeded']],
  ['model', 'The quota at the provider is used up: waiting does not help, its account has to be topped up.', ['insufficient_quota']],
  ['model', 'The model did not do what was required. Try a model that is better at calling tools, or do not require it.', ['tool_choice_not_satisfied', 'model_error']],
  ['model', 'The answer does not match the schema. Try another model, or on_mismatch: repair.', ['invalid_structured_output']],
  ['model', 'A content filter stopped the answer. Ask in other words.', ['content_filter', 'prohibited_content']],
  ['model', 'The model keeps calling tools that do not exist or are not allowed. Offer the tool, or say in the instructions which there are.', ['tool_not_allowed']],
  ['tool', 'Check that the MCP server is running (screen Tools), and its address and credentials.', ['mcp_server_unavailable', 'mcp_server_not_found', 'tools_not_refreshed']],
  ['tool', 'The tool took too long. Try it alone (screen Tools), or raise its timeout.', ['tool_timeout']],
  ['tool', 'The tool failed. Try it alone with these arguments (screen Tools).', ['tool_execution_failed', 'mcp_tool_execution_error', 'mcp_protocol_error', 'http_error', 'tool_panicked', 'invalid_result', 'tool_failures_exceeded']],
  ['tool', 'The tool cannot be reached just now. Check its server; it is tried again by itself.', ['tool_unavailable']],
  ['tool', 'The result is larger than is read. Ask for less.', ['result_too_large']],
  ['tool', 'The gateway stopped between call and result: check at the tool whether it had an effect.', ['outcome_unknown']],
  ['tool', 'The result came too late, or its token is not known.', ['callback_not_found', 'callback_expired']],
  ['model', 'The model called the tool with arguments that its schema does not allow. It reads the error, and may correct itself.', ['invalid_arguments']],
  ['configuration', 'The configuration forbids this tool or its address (tools.blocked_tools, egress).', ['access_denied', 'domain_not_allowed']],
  ['limit', 'Raise max_output_tokens, or ask for a shorter answer.', ['max_output_tokens']],
  ['limit', 'Raise max_turns, or see in the run why the model needs so many.', ['max_turns']],
  ['limit', 'Raise the limit of this name (up to the operator’s ceiling), or make the run smaller.', ['max_total_tokens', 'max_cost_usd', 'max_seconds', 'max_tool_calls', 'max_response_size', 'run_timeout', 'deadline', 'tool_call_limit']],
  ['limit', 'The model repeats one call. See what the tool answers, and say in the instructions when to stop.', ['max_identical_calls']],
  ['gateway', 'The gateway was restarted or stopped meanwhile. Send it again.', ['server_restarted', 'server_shutting_down', 'run_attempts_exhausted']],
  ['gateway', 'The gateway is starting. Wait a moment.', ['server_starting']],
  ['gateway', 'The gateway is at its limit. Wait, then send it again.', ['server_is_overloaded', 'request_timeout']],
  ['gateway', 'The operator has to look at the database of the gateway (its disk, its server).', ['storage_error', 'storage_full', 'storage_timeout', 'storage_unavailable']],
  ['configuration', 'This run was queued under seal keys that the gateway does not have any more.', ['run_unreadable']],
  ['gateway', 'A bug, or a failure: give the request id to the operator, who finds it in the log.', ['internal_error']],
  ['connection', 'Check that the gateway is running and reachable, then send it again.', ['connection_failed']],
  ['connection', 'It was stopped here, on purpose.', ['aborted', 'cancelled']],
];

const BY_CODE = new Map(ROWS.flatMap(([fault, next, codes]) => codes.map((code) => [code, { fault, next }])));

/** @type {Record<string, {fault: Fault, next: string}>} */
const BY_TYPE = {
  invalid_request_error: { fault: 'request', next: 'Correct the request as the message says, and send it again.' },
  permission_error: { fault: 'key', next: 'Use a key that may do this.' },
  conflict: { fault: 'request', next: 'Something else is using the object. Wait, then send it again.' },
  timeout: { fault: 'connection', next: 'The request arrived too slowly. Send it again.' },
  external_connector_error: { fault: 'tool', next: 'Check the MCP server (screen Tools).' },
  rate_limit_error: { fault: 'model', next: 'Wait, then send it again.' },
  model_error: { fault: 'model', next: 'Try another model, or require less of it.' },
  server_error: { fault: 'gateway', next: 'Send it again; if that does not help, give the request id to the operator.' },
  service_unavailable_error: { fault: 'gateway', next: 'Wait, then send it again.' },
};

/**
 * @param {{code?: unknown, type?: unknown, status?: unknown}} error of a request, a response or a call; or the reason of an end
 * @returns {{fault: Fault, next: string}}
 */
export function explain({ code, type, status }) {
  const known = BY_CODE.get(String(code)) ?? (Object.hasOwn(BY_TYPE, String(type)) ? BY_TYPE[String(type)] : BY_CODE.get(String(type)));
  if (known) return /** @type {{fault: Fault, next: string}} */ (known);
  const number = Number(status);
  if (number === 401 || number === 403) return { fault: 'key', next: 'Use a key that may do this.' };
  if (number === 502 || number === 504) return { fault: 'connection', next: 'What is in front of the gateway got no answer from it. Check that it is running.' };
  if (number >= 400 && number < 500) return { fault: 'request', next: BY_TYPE.invalid_request_error.next };
  return { fault: 'unknown', next: 'Read the message; the request id finds it in the gateway’s log.' };
}
