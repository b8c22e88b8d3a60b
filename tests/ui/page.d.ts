// What of the shell the screens know, for `tsc --checkJs`. It is not served.

type Json = Record<string, any>;
declare namespace Page {
  interface Api { get: (path: string, query?: any, options?: any) => Promise<any>; post: (path: string, body?: unknown, options?: any) => Promise<any>; stream: any; setKey: (key: string) => void; hasKey: () => boolean; }
  interface Store { get: (key: string) => any; set: (key: string, value: unknown) => void; subscribe: any }
  type Screen = import('../../ui/app.js').Screen;
}
