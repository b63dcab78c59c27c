/** Reads large bodies on a thread: each message is the bytes of a body, the reply is a `JsonReading`. */
import { parentPort } from 'node:worker_threads';
import { readJson } from '@toolfleet/contracts/json-text';
import { yieldCpu } from '@toolfleet/resilience/child-program';

yieldCpu();

parentPort!.on('message', (bytes: Uint8Array) => parentPort!.postMessage(readJson(bytes)));
