// Makes every server of a Node process listen on the loopback interface only, and on a port that is free.
//
// server-everything calls `listen(PORT)`, which means all interfaces, and has no option for another address. It
// is an unprotected server whose tools show its environment, so it must not be reachable from anywhere else.
// Loaded with `node --import`; the port is written to the file that ANTWORT_PORT_FILE names.
import { renameSync, writeFileSync } from "node:fs";
import { Server } from "node:net";

const { listen } = Server.prototype;
const file = process.env.ANTWORT_PORT_FILE;

Server.prototype.listen = function (...args) {
  const done = args.filter((arg) => typeof arg === "function");
  this.once("listening", () => {
    if (!file) return;
    // A reader sees all of it or nothing.
    writeFileSync(`${file}.new`, String(this.address().port));
    renameSync(`${file}.new`, file);
  });
  return listen.call(this, { host: "127.0.0.1", port: 0 }, ...done);
};
