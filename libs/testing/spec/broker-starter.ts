/** Starts a broker and waits to be killed; started by brokers.spec.ts. */
import { startRedis } from '../src/redis-server.js';

const { pid, folder } = await startRedis();
process.send?.({ pid, folder });
