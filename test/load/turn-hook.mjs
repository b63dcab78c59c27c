/**
 * Loaded into each process of a fleet (`--import`) by growth.bench.mjs: the longest turn of the event loop, in CPU time of its thread, which other
 * programs on the machine do not change. Appends `<epoch ms> <longest turn in ms>` to `$TURNS/<pid>` every 200 ms.
 */
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { isMainThread } from 'node:worker_threads';

const EVERY_MS = 5;
const WRITTEN_EVERY_MS = 200;
const { TURNS: folder } = process.env;

if (isMainThread && folder) {
  const cpuMs = () => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1_000;
  };
  let [last, longest] = [cpuMs(), 0];
  setInterval(() => {
    const now = cpuMs();
    longest = Math.max(longest, now - last);
    last = now;
  }, EVERY_MS).unref();
  setInterval(() => {
    if (longest > 0) appendFileSync(join(folder, String(process.pid)), `${Date.now()} ${longest}\n`);
    longest = 0;
  }, WRITTEN_EVERY_MS).unref();
}
