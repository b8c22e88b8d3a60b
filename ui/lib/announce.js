// Tells screen readers of states: a run began, waits, has ended. Never of tokens.

/** @type {ReturnType<typeof setTimeout> | undefined} */
let clearing;

/** @param {string} text */
export function announce(text) {
  const region = document.getElementById('announcer');
  if (!region) return;
  clearTimeout(clearing);
  // The same words twice are two announcements only if the region was empty in between.
  region.textContent = '';
  requestAnimationFrame(() => (region.textContent = text));
  clearing = setTimeout(() => (region.textContent = ''), 10_000);
}
