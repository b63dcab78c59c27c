/**
 * The attacks of `attacks.bench.mjs`, each until the process ends. Runs as a separate child process, so that the one that measures
 * is not slowed by the one that attacks: `node attacks.mjs <name> <json of {url, nats_url, key}>`.
 */
import { connect as connectTcp } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { connect as connectNats, headers as natsHeaders } from 'nats';

const MIB = 1024 * 1024;
let serial = 0;

/** One call; what becomes of it is the fleet's business. */
const call = (to, tool, args, fields = {}) => send(to, tool, JSON.stringify({ arguments: args, ...fields }));

async function send({ url, key }, tool, body) {
  const response = await fetch(`${url}/api/v1/tools/${tool}/execute`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body,
  });
  return response.json();
}

/** The same call again and again; written once, so that the attack costs the machine little. */
function repeatBody(to, args) {
  const body = Buffer.from(JSON.stringify({ arguments: args }));
  return repeat(6, () => send(to, 'calculator', body));
}

/** Makes bodies of 8 MB that are accepted, and of which no two are alike. */
function acceptedBodies(fields = {}) {
  const quotes = '"'.repeat(1_950_000);
  const args = { json_string: `000000${quotes}`, other: quotes, operation: 'diff' };
  const body = Buffer.from(JSON.stringify({ arguments: args, ...fields }));
  const at = body.indexOf('000000');
  return () => {
    const next = Buffer.from(body);
    next.write(`${(serial += 1)}`.padStart(6, '0'), at);
    return next;
  };
}

const namesUpTo = (count) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`argument_${index}`, index]));

/** Requests a minute of the largest rate class of customers (`enterprise`). */
const REQUESTS_PER_MINUTE = 500;
const MAX_IN_FLIGHT = 100;

/**
 * Repeats a step until stopped: as often as the rate class allows, or (`ATTACK_FLOOD`) in so many lanes without a pause. A refusal is
 * an answer like any other.
 * @param weight requests that a step counts as
 */
async function repeat(lanes, step, weight = 1) {
  const once = () =>
    Promise.resolve()
      .then(step)
      .catch(() => sleep(50));
  if (process.env.ATTACK_FLOOD) return inLanes(lanes, once);
  let inFlight = 0;
  for (;;) {
    if (inFlight < MAX_IN_FLIGHT) {
      inFlight += 1;
      void once().finally(() => (inFlight -= 1));
    }
    await sleep((60_000 * weight) / REQUESTS_PER_MINUTE);
  }
}

/** What needs no credential has no rate class either. */
const inLanes = (count, step) =>
  Promise.all(
    Array.from({ length: count }, async () => {
      for (;;) await step();
    }),
  );

function rawSocket({ url }) {
  const { hostname, port } = new URL(url);
  return connectTcp(Number(port), hostname).on('error', () => undefined);
}

/** 20 levels of two branches each over a reference: a million ways through a schema of a kilobyte. */
function deepSchema() {
  const $defs = { level0: { type: 'integer' } };
  for (let level = 1; level <= 20; level += 1) {
    const below = { $ref: `#/$defs/level${level - 1}` };
    $defs[`level${level}`] = { anyOf: [{ allOf: [below, { type: 'string' }] }, { allOf: [below, { type: 'array' }] }] };
  }
  return { $defs, $ref: '#/$defs/level20' };
}

/** By name; in the order of the table. */
export const ATTACKS = {
  'argument names of 30,000 characters': (to) =>
    repeat(8, () => call(to, 'calculator', { expression: '1', [`${(serial += 1)}`.padEnd(30_000, 'k')]: 1 })),

  'NATS messages with a key of 4 MB, without a credential': async ({ nats_url }) => {
    const nats = await connectNats({ servers: nats_url });
    const body = JSON.stringify({ name: 'calculator', arguments: {}, ['k'.repeat(4 * MIB)]: 1 });
    const headers = natsHeaders();
    headers.set('Authorization', 'Bearer none');
    await repeat(2, () => nats.request('tool.call', body, { timeout: 20_000, headers }));
  },

  'half-sent bodies, 100 connections': (to) =>
    inLanes(100, async () => {
      const socket = rawSocket(to);
      socket.write(
        `POST /api/v1/tools/calculator/execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${8 * MIB}\r\n`,
      );
      socket.write('Content-Type: application/json\r\n\r\n');
      socket.write(Buffer.alloc(MIB, 'x'));
      await new Promise((resolve) => socket.once('close', resolve));
    }),

  'unread event streams of large results': async (to) => {
    const text = 'word '.repeat(90_000);
    const accepted = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        call(to, 'text_process', { text: `${index} ${text}`, operation: 'case', to: 'upper' }, { mode: 'async' }),
      ),
    );
    await sleep(2_000);
    await repeat(40, async () => {
      const { call_id: id } = accepted[(serial += 1) % accepted.length];
      const socket = rawSocket(to);
      socket.pause();
      socket.write(
        `GET /api/v1/calls/${id}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${to.key}\r\n\r\n`,
      );
      await new Promise((resolve) => socket.once('close', resolve));
      await sleep(20);
    });
  },

  'text_process on 99,000 dots': (to) =>
    repeat(8, () =>
      call(to, 'text_process', {
        text: `${(serial += 1)}${'.'.repeat(99_000)}`,
        operation: 'extract',
        extract: 'emails',
      }),
    ),

  'schemas with a million ways through': (to) => {
    const schema = deepSchema();
    return repeat(4, () =>
      call(to, 'json_process', { json_string: `${(serial += 1)}`, operation: 'validate', schema }),
    );
  },

  'results of 400 KB under their own keys, to fill Redis': (to) => {
    const text = 'fill '.repeat(80_000);
    return repeat(4, () =>
      call(
        to,
        'text_process',
        { text: `${(serial += 1)} ${text}`, operation: 'case', to: 'upper' },
        { idempotency_key: `fill-${process.pid}-${serial}` },
      ),
    );
  },

  'slow selections of large results': (to) => {
    const text = 'word '.repeat(100_000);
    const select = '$..[?count($..[?@ == 1]) > 5]';
    return repeat(20, () => {
      const args = { text: `${(serial += 1)} ${text}`, operation: 'split', separator: ' ' };
      return call(to, 'text_process', args, { select });
    });
  },

  'bodies of 400,000 names': (to) => repeatBody(to, namesUpTo(400_000)),
  'bodies of a million numbers': (to) =>
    repeatBody(to, { text: Array.from({ length: 1_000_000 }, (_, index) => index % 10) }),
  'bodies of 24,000 different names': (to) => repeatBody(to, namesUpTo(24_000)),
  'bodies of 4,900 different names': (to) => repeatBody(to, namesUpTo(4_900)),
  'bodies of 300,000 names in a text': (to) => repeatBody(to, { args: JSON.stringify(namesUpTo(300_000)) }),
  'bodies of 3.9 million escaped quotes': (to) => repeatBody(to, { expression: '"'.repeat(3_900_000) }),

  'calls with 8 MB of escaped quotes': (to) => {
    const bodyOf = acceptedBodies();
    return repeat(6, () => send(to, 'json_process', bodyOf()));
  },
  'asynchronous calls with 8 MB of escaped quotes': (to) => {
    const bodyOf = acceptedBodies({ mode: 'async' });
    return repeat(6, () => send(to, 'json_process', bodyOf()));
  },

  'batches of 100 calls': ({ url, key }) =>
    repeat(
      4,
      async () => {
        const calls = Array.from({ length: 100 }, () => ({
          name: 'calculator',
          arguments: { expression: `${(serial += 1)} * 7` },
        }));
        const response = await fetch(`${url}/api/v1/tools/batch-execute`, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          body: JSON.stringify({ calls }),
        });
        await response.text();
      },
      100,
    ),
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.on('disconnect', () => process.exit());
  await ATTACKS[process.argv[2]](JSON.parse(process.argv[3]));
}
