// The keys of a tree, as the ARIA authoring practices have them.

/**
 * @param {KeyboardEvent} event
 * @param {HTMLElement} tree
 * @param {{select: (id: string) => void, toggle: (id: string, collapse: boolean) => void}} does
 */
export function treeKeys(event, tree, { select, toggle }) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = /** @type {HTMLElement[]} */ ([...tree.children]);
  const at = rows.indexOf(/** @type {HTMLElement} */ (event.target));
  if (at < 0) return;
  const id = (/** @type {number} */ index) => rows[Math.max(0, Math.min(rows.length - 1, index))].dataset.id ?? '';
  const expanded = rows[at].getAttribute('aria-expanded');
  /** @type {Record<string, () => void>} */
  const keys = {
    ArrowDown: () => select(id(at + 1)),
    ArrowUp: () => select(id(at - 1)),
    j: () => select(id(at + 1)),
    k: () => select(id(at - 1)),
    Home: () => select(id(0)),
    End: () => select(id(rows.length - 1)),
    Enter: () => select(id(at)),
    ' ': () => select(id(at)),
    ArrowRight: () => (expanded === 'false' ? toggle(id(at), false) : expanded === 'true' ? select(id(at + 1)) : undefined),
    ArrowLeft: () => (expanded === 'true' ? toggle(id(at), true) : select(id(parentOf(rows, at)))),
  };
  const run = keys[event.key];
  if (!run) return;
  event.preventDefault();
  run();
}

/**
 * @param {HTMLElement[]} rows
 * @param {number} at
 */
function parentOf(rows, at) {
  if (rows[at].getAttribute('aria-level') === '1') return at;
  let index = at;
  while (index > 0 && rows[index].getAttribute('aria-level') !== '1') index -= 1;
  return index;
}
