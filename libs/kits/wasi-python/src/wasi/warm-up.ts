import type { Clock, Milliseconds } from '@toolfleet/base';

const ROUNDS = 100;
const CANARY_ROUNDS = 20;
/** Background threads compile the optimized code; this gives them time. */
const SETTLE_MS = 200;

const EXERCISE = `
import json, re, datetime, decimal, statistics
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(14)
rows = json.loads(json.dumps([{"i": i, "s": str(i) * 3} for i in range(200)]))
re.sub("a+", "b", "aab" * 50)
sorted(rows, key=lambda row: -row["i"])
statistics.mean(range(50))
decimal.Decimal("1.1") * 3
datetime.date(2020, 1, 1).isoformat()
try: 1 / 0
except ZeroDivisionError: pass
print(len(rows))
`;
const CANARY = 'def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nfib(18)';

/**
 * Runs typical code through `run` until a canary program stops getting faster or `maxMs` have passed. Returns the
 * milliseconds spent. A pause of `pauseMs` after each program yields to real runs in the same process.
 *
 * V8 has no on-stack replacement for wasm: a loop that starts in baseline code stays there for the whole run, 2 to 2.7 times
 * slower. All threads of a process share the compiled module, so warming up one of them is enough.
 */
export async function warmUp(
  clock: Clock,
  { maxMs, pauseMs }: { maxMs: Milliseconds; pauseMs: Milliseconds },
  run: (code: string) => void,
): Promise<Milliseconds> {
  const start = clock.monotonic();
  const hasTime = () => clock.monotonic() - start < maxMs;
  for (let i = 0; i < ROUNDS && hasTime(); i++) {
    run(EXERCISE);
    if (pauseMs > 0) await clock.sleep(pauseMs);
  }
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i < CANARY_ROUNDS && hasTime(); i++) {
    await clock.sleep(SETTLE_MS);
    const began = clock.monotonic();
    run(CANARY);
    const took = clock.monotonic() - began;
    if (i > 2 && took > best * 0.95) break;
    best = Math.min(best, took);
  }
  return clock.monotonic() - start;
}
