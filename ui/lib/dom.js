// Makes elements. Text is always set as text: nothing here parses markup, so that a model's or a tool's words stay words.

/** @typedef {Node | string | number | null | undefined | false} Child @typedef {{ class?: string, text?: string | number, on?: Record<string, (event: any) => void>, style?: Record<string, string | number>, data?: Record<string, string | number>, [attribute: string]: unknown, }} Props */

const SVG = 'http://www.w3.org/2000/svg';
// Set as properties: their attributes are only the initial state of a control.
const PROPERTIES = new Set(['value', 'checked', 'selected', 'indeterminate']);

/**
 * An HTML element. Props are attributes, besides `class`, `text`, `on` (listeners), `style` (an object) and `data`.
 * An attribute of `true` is set without a value; of `false`, null or undefined not at all (but `aria-*` is written out).
 * @template {keyof HTMLElementTagNameMap} K @param {K} tag @param {Props | null} [props] @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, props, ...children) {
  const element = document.createElement(tag);
  apply(element, props);
  append(element, children);
  return element;
}

/**
 * The same for SVG.
 * @template {keyof SVGElementTagNameMap} K @param {K} tag @param {Props | null} [props] @param {...(Child | Child[])} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function svg(tag, props, ...children) {
  const element = document.createElementNS(SVG, tag);
  apply(element, props);
  append(element, children);
  return /** @type {SVGElementTagNameMap[K]} */ (element);
}

/** Puts children in the place of those that a node has. @param {Element} node @param {...(Child | Child[])} children */
export function replace(node, ...children) {
  node.replaceChildren();
  append(node, children);
}

/** @param {Element} node @param {(Child | Child[])[]} children */
function append(node, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
}

/** @param {HTMLElement | SVGElement} element @param {Props | null | undefined} props */
function apply(element, props) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name === 'text') element.textContent = String(value);
    else if (name === 'class') element.setAttribute('class', String(value));
    else if (name === 'on') listen(element, /** @type {Record<string, (event: any) => void>} */ (value));
    else if (name === 'style') restyle(element, /** @type {Record<string, string | number>} */ (value));
    else if (name === 'data') Object.assign(element.dataset, value);
    else if (PROPERTIES.has(name)) Object.assign(element, { [name]: value });
    else attribute(element, name, value);
  }
}

/** @param {Element} element @param {Record<string, (event: any) => void>} listeners */
function listen(element, listeners) {
  for (const [type, listener] of Object.entries(listeners)) element.addEventListener(type, listener);
}

/**
 * Through the object model, which the content security policy allows, unlike the attribute.
 * @param {HTMLElement | SVGElement} element @param {Record<string, string | number>} style
 */
export function restyle(element, style) {
  for (const [name, value] of Object.entries(style)) element.style.setProperty(name, String(value));
}

/** @param {Element} element @param {string} name @param {unknown} value */
function attribute(element, name, value) {
  if (value === null || value === undefined) return;
  if (typeof value === 'boolean' && !name.startsWith('aria-')) {
    if (value) element.setAttribute(name, '');
    return;
  }
  if (!harmless(name, String(value))) throw new Error(`the page does not set ${name} to ${value}`);
  element.setAttribute(name, String(value));
}

/** Whether an attribute can neither run a script nor lead to another origin. @param {string} name @param {string} value */
function harmless(name, value) {
  if (name.startsWith('on') || name === 'srcdoc' || name === 'style') return false;
  if (name === 'href') return /^(#|\.{1,2}\/)/.test(value);
  if (name === 'src') return /^data:image\/(png|jpeg|gif|webp);/.test(value);
  return true;
}
