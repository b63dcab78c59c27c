/**
 * The victim of the abuse tests, on a thread with its own event loop: what the attack costs the test process does not count
 * as a delay. It makes one call after the other until its parent sends `stop`, then posts the ms of each, or an error.
 */
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';

const { url, key, path, body, expected, betweenMs, first } = workerData;
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
let isStopped = false;
parentPort.once('message', () => (isStopped = true));

/** One call. Resolves to its status and text. */
function post(content) {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` };
    const sent = request(new URL(path, url), { method: 'POST', agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part) => (text += part));
      response.once('end', () => resolve({ status: response.statusCode, text })).once('error', reject);
    });
    sent.once('error', reject).end(content);
  });
}

const times = [];
let error;
try {
  do {
    const number = first + times.length;
    const from = performance.now();
    const ask = () => post(body.replaceAll('%n', number));
    let { status, text } = await ask();
    // A client waits and asks again; both are part of its time.
    while (status === 503) {
      await sleep(betweenMs);
      ({ status, text } = await ask());
    }
    times.push(performance.now() - from);
    if (status !== 200 || !text.includes(expected.replaceAll('%n', number)))
      throw new Error(`the victim was answered ${status}: ${text.slice(0, 2_000)}`);
    await sleep(betweenMs);
  } while (!isStopped);
} catch (thrown) {
  error = thrown.stack;
}
agent.destroy();
parentPort.postMessage({ times, error });
