// Talks to the gateway and to the scripted servers behind it, without the page.

import assert from 'node:assert/strict';
import { env } from './environment.mjs';

/** Makes a response and returns it. */
export async function run(request, { gateway = env.open, key } = {}) {
  return post(`${gateway}/v1/responses`, { input: 'Go on.', ...request }, key);
}

export async function response(id, { gateway = env.open, key } = {}) {
  const answer = await fetch(`${gateway}/v1/responses/${id}`, { headers: authorization(key) });
  assert.equal(answer.status, 200);
  return answer.json();
}

export async function trace(id) {
  const answer = await fetch(`${env.open}/v1/responses/${id}/trace`);
  assert.equal(answer.status, 200);
  return answer.json();
}

/** Waits until the response is as wanted. */
export async function until(id, wanted, options) {
  const last = performance.now() + 30_000;
  for (;;) {
    const now = await response(id, options);
    if (wanted(now)) return now;
    assert.ok(performance.now() < last, `the response stays ${JSON.stringify(now).slice(0, 500)}`);
  }
}

/** The events of a response that is stored with its events. */
export async function events(id, { gateway = env.open } = {}) {
  return eventsOf(await fetch(`${gateway}/v1/responses/${id}?stream=true`));
}

/** Makes a response as a stream and returns its events. */
export async function streamed(request) {
  const body = JSON.stringify({ ...request, stream: true });
  return eventsOf(await fetch(`${env.open}/v1/responses`, { method: 'POST', headers: { 'content-type': 'application/json' }, body }));
}

async function eventsOf(answer) {
  assert.equal(answer.status, 200);
  const lines = (await answer.text()).split('\n').filter((line) => line.startsWith('data: {'));
  return lines.map((line) => JSON.parse(line.slice(6)));
}

/** The servers of tools that a request names: those of the gateway's configuration. */
export function servers(...labels) {
  return labels.map((server_label) => ({ type: 'mcp', server_label }));
}

/** Sets what a model says from now on. */
export const script = (model, turns) => post(`${env.servers}/_script`, { model, turns });

/** Sets the tools of an MCP server. */
export const tools = (server, list) => post(`${env.servers}/_tools`, { server, tools: list });

/** Lets one answer that is held at a gate go on; waits for it. */
export const release = (gate) => post(`${env.servers}/_release`, { gate });

async function post(url, body, key) {
  const headers = { 'content-type': 'application/json', ...authorization(key) };
  const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  const text = await answer.text();
  assert.ok(answer.ok, `${url}: ${answer.status} ${text.slice(0, 1000)}`);
  return JSON.parse(text);
}

function authorization(key) {
  return key ? { authorization: `Bearer ${key}` } : {};
}
