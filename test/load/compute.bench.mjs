/**
 * The compute tools over `POST /api/v1/tools/:name/execute`, calculator among them, in alternating rounds of one run; every
 * call has other arguments. `json_query` and `text_regex` do their work in a child process, the others in the executor.
 */
import { load, processTree, rssMiB } from './measure.mjs';
import { withFleet } from './with-fleet.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const SECONDS = Number(process.env.BENCH_SECONDS ?? 4);
const CONNECTIONS = 32;

const DOCUMENT = JSON.stringify({
  items: Array.from({ length: 50 }, (_, n) => ({ n, name: `item ${n}`, price: n * 1.5 })),
});
const TEXT = 'The quick brown fox, born 2026-03-01, jumps over 12 lazy dogs. '.repeat(20);

/** Tool and the n-th arguments of each kind of call. */
const CALLS = {
  calculator: ['calculator', (n) => ({ expression: `${n} * 2 + 7` })],
  get_weather: ['get_weather', (n) => ({ city: `Lisbon ${n}` })],
  json_format: ['json_process', (n) => ({ json_string: `{"n":${n},"d":${DOCUMENT}}`, operation: 'format' })],
  json_query: [
    'json_process',
    (n) => ({ json_string: `{"n":${n},"d":${DOCUMENT}}`, operation: 'query', query: '$.d.items[?@.price > 50].name' }),
  ],
  text_case: ['text_process', (n) => ({ text: `${TEXT}${n}`, operation: 'case', to: 'upper' })],
  text_regex: ['text_process', (n) => ({ text: `${TEXT}${n}`, operation: 'regex', find: '(\\d{4})-(\\d{2})' })],
};

export const computeBench = (root) =>
  withFleet(root, async (fleet) => {
    const pids = Object.fromEntries(fleet.services.map(({ name, pid }) => [name, pid]));
    const processes = { gateway: pids.gateway, builtin: pids['builtin-executor'] };
    let serial = 0;
    const run = (name, seconds, connections = CONNECTIONS) => {
      const [tool, argumentsOf] = CALLS[name];
      return load({
        url: `${fleet.url}/api/v1/tools/${tool}/execute`,
        headers: { authorization: `Bearer ${fleet.api_key}` },
        bodyOf: () => JSON.stringify({ arguments: argumentsOf(serial++) }),
        connections,
        seconds,
        processes,
      });
    };
    for (const name of Object.keys(CALLS)) await run(name, 1.5);
    const rounds = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const results = {};
      for (const name of Object.keys(CALLS)) results[name] = await run(name, SECONDS);
      rounds.push(results);
    }
    return {
      name: 'compute',
      /** Median over the rounds: calls/s against the calculator's of the same round. */
      against_calculator: Object.fromEntries(
        Object.keys(CALLS).map((name) => [
          name,
          median(rounds.map((round) => round[name].calls_per_second / round.calculator.calls_per_second)),
        ]),
      ),
      rounds,
      rss_mib: { builtin: processTree(pids['builtin-executor']).reduce((sum, pid) => sum + rssMiB(pid), 0) },
    };
  });

function median(values) {
  return Number(values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)].toFixed(3));
}
