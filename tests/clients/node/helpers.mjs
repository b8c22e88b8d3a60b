// Where the gateway is that `scripts/test-clients` starts.

export const url = process.env.SDK_OPEN_URL;
if (!url) throw new Error('run this by scripts/test-clients, which starts the gateway');

/** A `fetch` that keeps what the gateway took the client for. */
export function watched() {
  const profiles = [];
  const fetch = async (...request) => {
    const response = await globalThis.fetch(...request);
    profiles.push(response.headers.get('antwort-client-profile'));
    return response;
  };
  return { fetch, profiles };
}
