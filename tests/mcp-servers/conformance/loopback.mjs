// Makes every server of the suite listen on the loopback interface only.
//
// They call `listen(0)`, which means all interfaces, and ask for the port at once: with a host, which is looked up
// first, there would be none yet. So they are given a socket that is bound already. Loaded with `node --import`.
import { Server } from "node:net";

const { TCP, constants } = process.binding("tcp_wrap");
const { listen } = Server.prototype;

Server.prototype.listen = function (...args) {
  const socket = new TCP(constants.SERVER);
  const failed = socket.bind("127.0.0.1", typeof args[0] === "number" ? args[0] : 0);
  if (failed) throw new Error(`cannot listen: ${failed}`);
  return listen.call(this, socket, ...args.filter((arg) => typeof arg === "function"));
};
