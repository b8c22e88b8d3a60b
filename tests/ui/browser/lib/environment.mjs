// What `scripts/test-ui` tells the tests.

function given(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run scripts/test-ui`);
  return value;
}

export const env = {
  /** Where the npm packages are. */
  packages: given('UI_PACKAGES'),
  chromium: given('UI_CHROMIUM'),
  /** The gateway without keys, that with keys, and the scripted servers behind them. */
  open: given('UI_OPEN'),
  keyed: given('UI_KEYED'),
  servers: given('UI_SERVERS'),
  keys: { full: given('UI_KEY_FULL'), none: given('UI_KEY_NONE'), reader: given('UI_KEY_READER'), tools: given('UI_KEY_TOOLS') },
  shots: given('UI_SHOTS'),
  /** The folder that the page is made of. */
  files: given('UI_FILES'),
};
